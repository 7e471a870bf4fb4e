#include "libs/client/settings.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"
#include "libs/rpc/endpoints.h"
#include "nlohmann/json.hpp"

namespace adaptdl::client {
namespace {

constexpr int64_t kMaxTokenBytes = 1 << 16;
constexpr int64_t kMaxRecordBytes = 1 << 20;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FirstOf(std::string first, std::string second) {
  return first.empty() ? std::move(second) : std::move(first);
}

// What "adaptdl cluster up" has noted that clients need.
struct LocalCluster {
  // Empty: there is none.
  std::string supervisor;
  // Empty: it does without TLS.
  std::string ca_file;
  std::string token_file;
};

LocalCluster FindLocalCluster() {
  const std::string home =
      FirstOf(Variable("ADAPTDL_HOME"), absl::StrCat(FirstOf(Variable("HOME"), "."), "/.adaptdl"));
  const absl::StatusOr<std::string> text =
      ReadWholeFile(absl::StrCat(home, "/cluster.json"), kMaxRecordBytes);
  if (!text.ok()) return {};
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const auto field = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return {field("supervisor"), field("caFile"), field("tokenFile")};
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxTokenBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the file of the token: ", text.status().message()));
  }
  return std::string(absl::StripAsciiWhitespace(*text));
}

absl::StatusOr<std::string> FindToken(const Settings& settings, const LocalCluster& own) {
  std::string source = "token";
  std::string token = settings.token;
  if (token.empty() && settings.token_file.empty()) {
    source = "ADAPTDL_TOKEN";
    token = Variable("ADAPTDL_TOKEN");
  }
  if (token.empty()) {
    source = FirstOf(settings.token_file, FirstOf(Variable("ADAPTDL_TOKEN_FILE"), own.token_file));
    if (source.empty()) return std::string();
    absl::StatusOr<std::string> read = ReadToken(source);
    if (!read.ok()) return read.status();
    token = *std::move(read);
    if (token.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(source, " is empty: it must hold a token"));
    }
  }
  for (const char c : token) {
    if (absl::ascii_isgraph(static_cast<unsigned char>(c))) continue;
    return absl::InvalidArgumentError(absl::StrCat(source, " must hold a token and nothing else"));
  }
  return token;
}

}  // namespace

absl::StatusOr<Access> FindAccess(const Settings& settings) {
  LocalCluster own = FindLocalCluster();
  std::string address = FirstOf(settings.supervisor, Variable("ADAPTDL_SUPERVISOR_ADDRESS"));
  address = FirstOf(address, FirstOf(own.supervisor, "127.0.0.1:7100"));
  if (address != own.supervisor) own = {};
  Access access;
  absl::StatusOr<std::vector<std::string>> addresses = rpc::ParseEndpoints("supervisor", address);
  if (!addresses.ok()) return addresses.status();
  access.addresses = *std::move(addresses);
  access.security = rpc::Plaintext();
  if (settings.insecure || (settings.ca_file.empty() && Variable("ADAPTDL_INSECURE") == "1")) return access;
  const std::string ca = FirstOf(settings.ca_file, FirstOf(Variable("ADAPTDL_CA_FILE"), own.ca_file));
  if (ca.empty()) {
    // The local cluster was started with --insecure.
    if (!own.supervisor.empty()) return access;
    return absl::InvalidArgumentError(absl::StrCat("nothing tells how to make sure that ", address,
                                                   " is the right server: give the cluster's CA by ca_file "
                                                   "or ADAPTDL_CA_FILE, or insecure for one without TLS"));
  }
  absl::StatusOr<std::string> token = FindToken(settings, own);
  if (!token.ok()) return token.status();
  access.security = rpc::ClientSecurity();
  access.security.tls.ca = ca;
  access.security.token = *std::move(token);
  access.security.server_name =
      FirstOf(settings.tls_server_name, FirstOf(Variable("ADAPTDL_TLS_SERVER_NAME"), rpc::kSupervisorName));
  if (const absl::Status status = rpc::CheckClientSecurity(access.security); !status.ok()) {
    return absl::InvalidArgumentError(status.message());
  }
  return access;
}

}  // namespace adaptdl::client
