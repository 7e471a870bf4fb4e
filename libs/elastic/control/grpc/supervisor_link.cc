#include "libs/elastic/control/grpc/supervisor_link.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/file.h"
#include "libs/base/say.h"
#include "libs/rpc/security.h"
#include "libs/tracing/context.h"

namespace adaptdl::elastic {
namespace {

constexpr int64_t kMaxTokenBytes = int64_t{64} << 10;

// Replicas prove who they are by their group's token, call by call; they have no certificate.
rpc::ClientSecurity Security(const GrpcControlPlaneOptions& options, const std::string& ca) {
  if (ca.empty()) return rpc::Plaintext();
  rpc::ClientSecurity security;
  security.tls.ca = ca;
  security.server_name =
      options.supervisor_tls_name.empty() ? rpc::kSupervisorName : options.supervisor_tls_name;
  return security;
}

// The text as a file in memory, as TLS takes files alone. It lasts as long as the process.
std::string FileOf(const std::string& pem) {
  const int fd = memfd_create("supervisor-ca", MFD_CLOEXEC);
  for (size_t written = 0; fd >= 0 && written < pem.size();) {
    const ssize_t part = write(fd, pem.data() + written, pem.size() - written);
    if (part <= 0) break;
    written += static_cast<size_t>(part);
  }
  return absl::StrCat("/proc/self/fd/", fd);
}

std::string CaFile(const GrpcControlPlaneOptions& options) {
  if (!options.supervisor_ca.empty() || options.supervisor_ca_pem.empty()) return options.supervisor_ca;
  return FileOf(options.supervisor_ca_pem);
}

// A list that can't be read is one address, at which nobody will answer: the text says what was wrong.
std::vector<std::string> Addresses(const std::string& text) {
  absl::StatusOr<std::vector<std::string>> addresses =
      rpc::ParseEndpoints("ADAPTDL_SUPERVISOR_ADDRESS", text);
  if (addresses.ok()) return *std::move(addresses);
  Say(Severity::kError, addresses.status().message());
  return {text};
}

}  // namespace

SupervisorLink::SupervisorLink(const GrpcControlPlaneOptions& options)
    : options_(options),
      supervisors_(Addresses(options.supervisor_address), Security(options, CaFile(options))) {}

void SupervisorLink::Identify(const GroupMembership& member, grpc::ClientContext* context,
                              v1::ReplicaIdentity* identity) const {
  context->AddMetadata("authorization", absl::StrCat("Bearer ", TokenFor(member)));
  if (tracing::Parse(options_.traceparent)) context->AddMetadata(tracing::kTraceparent, options_.traceparent);
  identity->set_namespace_(options_.job_namespace);
  identity->set_job(options_.job);
  identity->set_replica_id(options_.replica_id);
  identity->set_group(member.group);
}

v1::JoinGroupRequest SupervisorLink::JoinRequest(const GroupMembership& member, const std::string& address,
                                                 grpc::ClientContext* context) const {
  v1::JoinGroupRequest request;
  Identify(member, context, request.mutable_identity());
  request.set_address(address);
  request.set_rescales_in_place(true);
  request.set_omit_members(true);
  request.set_library_version(options_.library_version);
  return request;
}

std::string SupervisorLink::TokenFor(const GroupMembership& member) const {
  if (!member.token.empty()) return member.token;
  if (!options_.token.empty() || options_.identity_token_file.empty()) return options_.token;
  const absl::StatusOr<std::string> token = ReadWholeFile(options_.identity_token_file, kMaxTokenBytes);
  if (token.ok()) return std::string(absl::StripAsciiWhitespace(*token));
  Say(Severity::kError, absl::StrCat("ADAPTDL_IDENTITY_TOKEN_FILE: ", token.status().message()));
  return "";
}

bool SupervisorLink::IsCurrent(int64_t term) {
  MutexLock lock(&mutex_);
  if (term > 0 && term < newest_term_) return false;
  newest_term_ = std::max(newest_term_, term);
  return true;
}

bool SupervisorLink::IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInvalidArgument:
      return true;
    default:
      return false;
  }
}

}  // namespace adaptdl::elastic
