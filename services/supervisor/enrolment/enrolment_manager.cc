#include "services/supervisor/enrolment/enrolment_manager.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/certificates/certificate_request.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/node_authority.h"
#include "libs/enrolment/join_token.h"
#include "libs/messages/proto_time.h"
#include "libs/service/log.h"
#include "libs/service/security/token_file.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/enrolment/peer_address.h"

namespace adaptdl::supervisor {
namespace {

constexpr char kTokenPrefix[] = "token/";
constexpr char kInstancePrefix[] = "instance/";
constexpr size_t kMaxInstanceId = 256;
// Longer than a machine of a cloud is good for; whoever vouches for it vouches for it no more then.
constexpr absl::Duration kInstanceMemory = absl::Hours(24 * 400);
constexpr absl::Duration kShortestLifetime = absl::Seconds(1);

// One text for whatever is wrong with a proof: a stranger learns nothing from it.
absl::Status Denied() {
  return absl::PermissionDeniedError(
      "the proof does not let this machine in as this node: it is wrong, was used or has expired; ask an "
      "administrator for a join token (adaptdl admin join-token create)");
}

absl::Status CheckNodeId(const std::string& id) {
  absl::Status status = certificates::CheckIdentity({.service = "worker", .node_id = id});
  return status.ok() ? status : absl::InvalidArgumentError(absl::StrCat("node_id: ", status.message()));
}

bool IsAlive(const Transaction& transaction, const std::string& node_id) {
  const NodeEntry* node = transaction.FindNode(node_id);
  return node != nullptr && node->phase() != v1::NODE_PHASE_LOST;
}

// Only somebody with a good proof is told.
absl::Status StillAlive(const std::string& node_id) {
  return absl::FailedPreconditionError(
      absl::StrCat("node \"", node_id,
                   "\" is registered and alive, and can't be taken over: give this machine another "
                   "name, or end the node first (adaptdl drain, adaptdl forget)"));
}

// Whether another key was let in as the node, and may be about to register.
bool IsPromised(const Transaction& transaction, const std::string& node_id, const std::string& key) {
  const auto& joins = transaction.base().joins;
  return std::any_of(joins.begin(), joins.end(), [&](const auto& entry) {
    const JoinRecord& join = entry.second;
    return join.node_id == node_id && !join.key.empty() && join.key != key &&
           join.expires > transaction.wall();
  });
}

std::string RequestHash(const std::string& caller, const std::string& request_id) {
  return security::Sha256Hex(absl::StrCat(caller.size(), "/", caller, "/", request_id));
}

absl::StatusOr<absl::Duration> LifetimeOf(const v1::CreateJoinTokenRequest& request) {
  if (!request.has_lifetime()) return EnrolmentManager::kDefaultLifetime;
  const absl::Duration lifetime = messages::ToDuration(request.lifetime());
  if (lifetime >= kShortestLifetime && lifetime <= EnrolmentManager::kMaxLifetime) return lifetime;
  return absl::InvalidArgumentError(
      absl::StrCat("lifetime ", absl::FormatDuration(lifetime), " is not valid: give 1 second to 7 days"));
}

void LogLetIn(const v1::EnrolRequest& request, const EnrolmentManager::Peer& peer, const std::string& key) {
  const char* proof = request.has_join_token()    ? "join token"
                      : request.has_instance_id() ? "machine of a pool"
                                                  : "renewal";
  log::Info("gave a node its certificate", {{"node", request.node_id()},
                                            {"proof", proof},
                                            {"instance", request.instance_id()},
                                            {"address", peer.address},
                                            {"key_sha256", key}});
}

}  // namespace

absl::Status CheckEnrolment(const EnrolmentOptions& options) {
  if (options.authority_certificate.empty() != options.authority_key.empty()) {
    return absl::InvalidArgumentError(
        "--node-authority-cert and --node-authority-key are needed, both or neither");
  }
  if (options.authority_key.empty()) return absl::OkStatus();
  if (options.trusted.empty()) {
    return absl::InvalidArgumentError(
        "--node-authority-key is for a cluster with TLS: give --tls-ca as well");
  }
  const auto authority =
      certificates::NodeAuthority::FromFiles(options.authority_certificate, options.authority_key);
  if (authority.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--node-authority-cert, --node-authority-key: ", authority.status().message()));
}

size_t EnrolmentManager::Prune(Transaction* transaction, absl::string_view prefix) {
  size_t left = 0;
  for (const auto& [id, join] : transaction->base().joins) {
    if (join.expires <= transaction->wall()) {
      transaction->DeleteJoin(id);
    } else if (absl::StartsWith(id, prefix)) {
      ++left;
    }
  }
  return left;
}

absl::StatusOr<v1::CreateJoinTokenResponse> EnrolmentManager::CreateJoinToken(
    const v1::CreateJoinTokenRequest& request, const std::string& caller) {
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(CheckNodeId(request.node_id()));
  if (!status.ok()) return status;
  const absl::StatusOr<absl::Duration> lifetime = LifetimeOf(request);
  if (!lifetime.ok()) return lifetime.status();
  const absl::StatusOr<std::string> trusted = ReadWholeFile(options_.trusted, certificates::kMaxPemFileBytes);
  if (!trusted.ok()) return trusted.status();
  const std::string secret = absl::StrCat(enrolment::kSecretPrefix, random_hex_(enrolment::kSecretBytes));
  absl::StatusOr<std::string> token = enrolment::FormatJoinToken({.secret = secret, .authority = *trusted});
  if (!token.ok()) return token.status();
  JoinRecord join{.id = absl::StrCat(kTokenPrefix, security::Sha256Hex(secret)),
                  .node_id = request.node_id(),
                  .key = "",
                  .request = RequestHash(caller, request.request_id()),
                  .expires = absl::InfinitePast()};
  status = core_->Update([&](Transaction* transaction) -> absl::Status {
    size_t tokens = Prune(transaction, kTokenPrefix);
    for (const auto& [id, earlier] : transaction->base().joins) {
      if (earlier.request != join.request || earlier.expires <= transaction->wall()) continue;
      if (!earlier.key.empty()) {
        return absl::FailedPreconditionError(
            "request_id: the token of this request was used; make up another id");
      }
      transaction->DeleteJoin(id);
      --tokens;
    }
    if (tokens >= kMaxTokens) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", tokens, " join tokens that have not expired; wait until some have"));
    }
    join.expires = transaction->wall() + *lifetime;
    transaction->PutJoin(join);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  v1::CreateJoinTokenResponse response;
  response.set_token(*std::move(token));
  *response.mutable_expire_time() = messages::ToProto(join.expires);
  return response;
}

absl::StatusOr<v1::EnrolResponse> EnrolmentManager::Enrol(const v1::EnrolRequest& request, const Peer& peer) {
  if (request.node_id().empty()) return absl::InvalidArgumentError("node_id: give the name of the node");
  if (absl::Status status = CheckNodeId(request.node_id()); !status.ok()) return status;
  const absl::StatusOr<certificates::KeyPtr> key = certificates::KeyOfRequest(request.certificate_request());
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> fingerprint = certificates::KeyFingerprint(key->get());
  if (!fingerprint.ok()) return fingerprint.status();
  // Before a proof is used up.
  const auto authority =
      certificates::NodeAuthority::FromFiles(options_.authority_certificate, options_.authority_key);
  if (!authority.ok()) {
    log::Error("the node authority can't be used", {{"reason", std::string(authority.status().message())}});
    return absl::UnavailableError("the node authority can't be used now; the supervisor's log says why");
  }
  const absl::StatusOr<std::string> trusted = ReadWholeFile(options_.trusted, certificates::kMaxPemFileBytes);
  if (!trusted.ok()) return absl::UnavailableError("the supervisor can't read its --tls-ca now");
  absl::StatusOr<std::string> certificate =
      authority->Issue(key->get(), request.node_id(), core_->Now().wall, options_.certificate_lifetime);
  if (!certificate.ok()) return certificate.status();
  const absl::Status admitted = core_->Update(
      [&](Transaction* transaction) { return Admit(transaction, request, peer, *fingerprint); });
  if (!admitted.ok()) return admitted;
  LogLetIn(request, peer, *fingerprint);
  v1::EnrolResponse response;
  response.set_certificate(*std::move(certificate));
  response.set_authority(*trusted);
  return response;
}

absl::Status EnrolmentManager::Admit(Transaction* transaction, const v1::EnrolRequest& request,
                                     const Peer& peer, const std::string& key) const {
  switch (request.proof_case()) {
    case v1::EnrolRequest::kJoinToken:
      return AdmitByToken(transaction, request, key);
    case v1::EnrolRequest::kInstanceId:
      return AdmitInstance(transaction, request, peer, key);
    case v1::EnrolRequest::kRenewal:
      if (request.renewal() && peer.certified_node == request.node_id()) return absl::OkStatus();
      return absl::PermissionDeniedError(
          "renewal: call with a certificate of this node that is good still, or join again with a new token");
    default:
      return absl::InvalidArgumentError("proof: give a join_token, an instance_id, or renewal");
  }
}

absl::Status EnrolmentManager::AdmitByToken(Transaction* transaction, const v1::EnrolRequest& request,
                                            const std::string& key) const {
  const absl::StatusOr<enrolment::JoinToken> token = enrolment::ParseJoinToken(request.join_token());
  if (!token.ok()) return Denied();
  // A hash is looked up: how long that takes tells nothing of a secret that nobody has.
  const auto& joins = transaction->base().joins;
  const auto found = joins.find(absl::StrCat(kTokenPrefix, security::Sha256Hex(token->secret)));
  if (found == joins.end() || found->second.expires <= transaction->wall()) return Denied();
  JoinRecord join = found->second;
  const bool of_this_node = join.node_id == request.node_id();
  if (!join.key.empty()) return join.key == key && of_this_node ? absl::OkStatus() : Denied();
  if (!join.node_id.empty() && !of_this_node) return Denied();
  if (IsAlive(*transaction, request.node_id())) return StillAlive(request.node_id());
  // Whoever has made a token for this very node knows what he does.
  if (!of_this_node && IsPromised(*transaction, request.node_id(), key)) return StillAlive(request.node_id());
  join.node_id = request.node_id();
  join.key = key;
  transaction->PutJoin(std::move(join));
  return absl::OkStatus();
}

absl::Status EnrolmentManager::AdmitInstance(Transaction* transaction, const v1::EnrolRequest& request,
                                             const Peer& peer, const std::string& key) const {
  const std::string& instance = request.instance_id();
  const bool plausible =
      !instance.empty() && instance.size() <= kMaxInstanceId &&
      std::all_of(instance.begin(), instance.end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (!plausible) return Denied();
  const std::optional<Vouched> vouched = vouched_->Find(instance);
  if (!vouched.has_value() || vouched->address.empty()) {
    return absl::UnavailableError("nobody vouches for this machine yet; try again");
  }
  const auto refuse = [&](const char* why) {
    log::Warning("refused a machine of a pool", {{"instance", instance},
                                                 {"node", request.node_id()},
                                                 {"address", peer.address},
                                                 {"vouched_address", vouched->address},
                                                 {"vouched_node", vouched->node_id},
                                                 {"reason", why}});
    return Denied();
  };
  if (peer.address.empty() || peer.address != AddressOf(vouched->address)) return refuse("another address");
  if (vouched->node_id != request.node_id()) return refuse("another node");
  const auto& joins = transaction->base().joins;
  const std::string id = absl::StrCat(kInstancePrefix, instance);
  const auto earlier = joins.find(id);
  if (earlier != joins.end() && earlier->second.expires > transaction->wall()) {
    if (earlier->second.key == key && earlier->second.node_id == request.node_id()) return absl::OkStatus();
    return refuse("it has joined before, with another key");
  }
  if (IsAlive(*transaction, request.node_id())) return refuse("the node is alive");
  if (Prune(transaction, kInstancePrefix) >= kMaxInstances) {
    return absl::ResourceExhaustedError(
        "too many machines of pools are remembered; see the supervisor's log");
  }
  transaction->PutJoin({.id = id,
                        .node_id = request.node_id(),
                        .key = key,
                        .request = "",
                        .expires = transaction->wall() + kInstanceMemory});
  return absl::OkStatus();
}

}  // namespace adaptdl::supervisor
