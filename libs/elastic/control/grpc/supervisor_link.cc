#include "libs/elastic/control/grpc/supervisor_link.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/say.h"
#include "libs/rpc/security.h"

namespace adaptdl::elastic {
namespace {

// Replicas prove who they are by their group's token, call by call; they have no certificate.
rpc::ClientSecurity Security(const GrpcControlPlaneOptions& options) {
  if (options.supervisor_ca.empty()) return rpc::Plaintext();
  rpc::ClientSecurity security;
  security.tls.ca = options.supervisor_ca;
  security.server_name =
      options.supervisor_tls_name.empty() ? rpc::kSupervisorName : options.supervisor_tls_name;
  return security;
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
    : options_(options), supervisors_(Addresses(options.supervisor_address), Security(options)) {}

void SupervisorLink::Identify(const GroupMembership& member, grpc::ClientContext* context,
                              v1::ReplicaIdentity* identity) const {
  const std::string& token = member.token.empty() ? options_.token : member.token;
  context->AddMetadata("authorization", absl::StrCat("Bearer ", token));
  identity->set_namespace_(options_.job_namespace);
  identity->set_job(options_.job);
  identity->set_replica_id(options_.replica_id);
  identity->set_group(member.group);
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
