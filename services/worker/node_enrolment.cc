#include "services/worker/node_enrolment.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/backoff.h"
#include "libs/base/file.h"
#include "libs/enrolment/join_token.h"
#include "libs/rpc/endpoints.h"
#include "libs/rpc/retry_info.h"
#include "libs/rpc/security.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(10);
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(10);
// Between two attempts to renew, of which there is time for many.
constexpr absl::Duration kLongestRenewalPause = absl::Hours(1);

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  const absl::StatusOr<std::string> text =
      ReadWholeFile(path, static_cast<int64_t>(enrolment::kMaxTokenBytes));
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat("this node has no certificate yet, and --enrol-token-file ", path,
                     " is not there: an administrator makes a token by \"adaptdl admin join-token create\""));
  }
  if (!text.ok()) return text.status();
  const absl::StatusOr<enrolment::JoinToken> token = enrolment::ParseJoinToken(*text);
  if (token.ok()) return token->secret;
  return absl::InvalidArgumentError(
      absl::StrCat("--enrol-token-file ", path, ": ", token.status().message()));
}

absl::StatusOr<enrolment::Proof> ProofOf(const EnrolmentOptions& options) {
  if (options.instance) return enrolment::Proof{.join_token = "", .instance_id = options.instance_id};
  absl::StatusOr<std::string> secret = ReadSecret(options.token_file);
  if (!secret.ok()) return secret.status();
  return enrolment::Proof{.join_token = *std::move(secret), .instance_id = ""};
}

// Half of it at least, so that many machines that are started together do not ask together.
absl::Duration Spread(absl::Duration pause, const std::string& node_id) {
  return pause * (0.5 + static_cast<double>(std::hash<std::string>()(node_id) % 500) / 1000.0);
}

// One call of this node, which connects anew: with the files that there are then.
enrolment::Enrol CallTo(std::vector<std::string> supervisors, rpc::ClientSecurity security) {
  auto next = std::make_shared<size_t>(0);
  return [=](const v1::EnrolRequest& request) {
    std::vector<std::string> order = supervisors;
    std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(*next % order.size()), order.end());
    rpc::Endpoints endpoints(order, security);
    absl::StatusOr<v1::EnrolResponse> response = enrolment::CallOf(&endpoints, kCallTimeout)(request);
    if (rpc::IsEndpointFailure(response.status())) ++*next;
    return response;
  };
}

}  // namespace

absl::Status CheckEnrolment(const EnrolmentOptions& options, const security::SecurityOptions& security) {
  if (!options.enabled()) return absl::OkStatus();
  if (options.instance && !options.token_file.empty()) {
    return absl::InvalidArgumentError("--enrol-instance and --enrol-token-file: give one of them");
  }
  if (options.instance && options.instance_id.empty()) {
    return absl::InvalidArgumentError(
        "--enrol-instance needs --instance-id, what the cloud calls this machine, or --instance-metadata "
        "with the name of "
        "the cloud, which tells it");
  }
  if (security.insecure || !security.tls.certificate.empty() || !security.tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--enrol-token-file and --enrol-instance contradict --insecure, --tls-cert and --tls-key: the "
        "supervisor gives this node its certificate");
  }
  if (!security.tls.ca.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--enrol-token-file and --enrol-instance need --tls-ca: by it the supervisor is known");
}

std::string IdentityFolder(const std::string& state_dir) { return absl::StrCat(state_dir, "/identity"); }

absl::Status EnsureIdentity(const NodeEnrolmentParts& parts) {
  if (absl::Status status = enrolment::FinishRenewal(parts.folder); !status.ok()) return status;
  const absl::StatusOr<enrolment::Validity> there = enrolment::ReadIdentity(parts.folder, parts.node_id);
  if (there.ok() && there->not_after > parts.clock->Now()) return absl::OkStatus();
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  if (there.ok()) {
    log::Warning("the certificate of this node has ended; joining anew",
                 {{"ended", absl::FormatTime(there->not_after, absl::UTCTimeZone())}});
  }
  const absl::StatusOr<enrolment::Proof> proof = ProofOf(parts.options);
  if (!proof.ok()) return proof.status();
  Backoff backoff(kFirstPause, kLongestPause);
  while (true) {
    const absl::Status status = enrolment::EnrolOnce(parts.folder, parts.node_id, *proof, parts.enrol);
    if (status.ok()) break;
    if (!enrolment::IsWorthRetrying(status)) {
      return absl::Status(status.code(),
                          absl::StrCat("joining as node \"", parts.node_id, "\": ", status.message()));
    }
    const absl::Duration pause = Spread(
        std::max(backoff.Next(), rpc::RetryDelayOf(status).value_or(absl::ZeroDuration())), parts.node_id);
    log::Warning("not let in yet; trying again",
                 {{"error", status.ToString()}, {"retry_in", absl::FormatDuration(pause)}});
    parts.clock->SleepFor(pause);
  }
  log::Info("joined: this node has a certificate of its own", {{"node", parts.node_id}});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<NodeEnrolmentParts>> JoinCluster(NodeEnrolmentParts about,
                                                              const std::string& supervisors,
                                                              const std::string& server_name,
                                                              security::SecurityOptions* security) {
  if (!about.options.enabled()) return std::nullopt;
  const absl::StatusOr<std::vector<std::string>> addresses = rpc::ParseEndpoints("--supervisor", supervisors);
  if (!addresses.ok()) return addresses.status();
  about.enrol = CallTo(*addresses, security::ClientSide(*security, server_name));
  if (absl::Status status = EnsureIdentity(about); !status.ok()) return status;
  security->tls.certificate = enrolment::CertificateFile(about.folder);
  security->tls.key = enrolment::KeyFile(about.folder);
  about.renew = CallTo(*addresses, security::ClientSide(*security, server_name));
  return about;
}

IdentityKeeper::IdentityKeeper(NodeEnrolmentParts parts) : renewal_(std::move(parts)) {
  thread_ = std::thread([this] { Run(); });
}

IdentityKeeper::~IdentityKeeper() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.SignalAll();
  thread_.join();
}

void IdentityKeeper::Run() {
  // Steady time stands for wall time as long as nobody sets the clock: it is looked at once in an hour at least.
  const Clock* clock = renewal_.clock();
  while (true) {
    const absl::Duration pause = std::min(renewal_.Step(), kLongestRenewalPause);
    const absl::Time end = clock->Steady() + pause;
    MutexLock lock(&mutex_);
    while (!stopping_ && clock->Steady() < end) wake_.WaitFor(&mutex_, end - clock->Steady());
    if (stopping_) return;
  }
}

absl::Duration IdentityRenewal::Step() {
  const absl::StatusOr<enrolment::Validity> validity = enrolment::ReadIdentity(parts_.folder, parts_.node_id);
  const absl::Time now = parts_.clock->Now();
  absl::Status status = validity.status();
  if (validity.ok()) {
    const absl::Time due = enrolment::RenewalTime(*validity);
    if (now < due) return due - now;
    status = enrolment::RenewOnce(parts_.folder, parts_.node_id, parts_.renew);
  }
  if (status.ok()) {
    pause_ = absl::ZeroDuration();
    log::Info("renewed the certificate of this node", {{"node", parts_.node_id}});
    // Also if the new one is due at once: its authority may be about to end.
    return kFirstPause;
  }
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestRenewalPause);
  log::Error("the certificate of this node can't be renewed; trying again",
             {{"error", status.ToString()},
              {"ends", validity.ok() ? absl::FormatTime(validity->not_after, absl::UTCTimeZone()) : ""},
              {"retry_in", absl::FormatDuration(pause_)}});
  return pause_;
}

}  // namespace adaptdl::worker
