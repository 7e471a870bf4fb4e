#include "cli/security.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/cluster/record.h"
#include "libs/base/file.h"
#include "libs/rpc/security.h"

namespace adaptdl::cli {
namespace {

constexpr int64_t kMaxTokenBytes = 1 << 16;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FirstOf(const std::string& first, const std::string& second) {
  return first.empty() ? second : first;
}

// The record of the local cluster if `address` is one of its servers.
ClusterRecord RecordOf(const std::string& address) {
  const absl::StatusOr<ClusterRecord> record = ReadClusterRecord(HomeFolder());
  if (!record.ok()) return {};
  const bool own =
      address == record->supervisor || address == record->allocator || address == record->autoscaler;
  return own && !address.empty() ? *record : ClusterRecord{};
}

std::string ServerName(const Context& context, const ClusterRecord& record, const std::string& address) {
  if (!context.tls_server_name.empty()) return context.tls_server_name;
  if (const std::string name = Variable("ADAPTDL_TLS_SERVER_NAME"); !name.empty()) return name;
  if (address == record.allocator) return rpc::kAllocatorName;
  if (address == record.autoscaler) return rpc::kAutoscalerName;
  return rpc::kSupervisorName;
}

absl::StatusOr<std::string> FindToken(const Context& context, const ClusterRecord& record) {
  if (!context.token_file.empty()) return ReadToken(context.token_file);
  if (const std::string token = Variable("ADAPTDL_TOKEN"); !token.empty()) return token;
  const std::string file = FirstOf(Variable("ADAPTDL_TOKEN_FILE"), record.token_file);
  if (file.empty()) return std::string();
  return ReadToken(file);
}

}  // namespace

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxTokenBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the file of the token: ", text.status().message()));
  }
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  for (const char c : token) {
    if (absl::ascii_isgraph(static_cast<unsigned char>(c))) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, " must hold a token and nothing else"));
  }
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " is empty: it must hold a token"));
  return std::string(token);
}

absl::StatusOr<rpc::ClientSecurity> FindSecurity(const Context& context, const std::string& address) {
  if (context.insecure) return rpc::Plaintext();
  if (context.ca_file.empty() && Variable("ADAPTDL_INSECURE") == "1") return rpc::Plaintext();
  const ClusterRecord record = RecordOf(address);
  rpc::ClientSecurity security;
  security.tls.ca = FirstOf(FirstOf(context.ca_file, Variable("ADAPTDL_CA_FILE")), record.ca_file);
  // The local cluster was started with --insecure.
  if (security.tls.ca.empty() && !record.supervisor.empty()) return rpc::Plaintext();
  if (security.tls.ca.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "nothing tells how to make sure that ", address,
        " is the right server: give the cluster's CA by --ca or ADAPTDL_CA_FILE, or --insecure "
        "for one without TLS; \"adaptdl cluster up\" starts a cluster here that is found by itself"));
  }
  absl::StatusOr<std::string> token = FindToken(context, record);
  if (!token.ok()) return token.status();
  security.token = *std::move(token);
  security.server_name = ServerName(context, record, address);
  if (absl::Status status = rpc::CheckClientSecurity(security); !status.ok()) return status;
  return security;
}

}  // namespace adaptdl::cli
