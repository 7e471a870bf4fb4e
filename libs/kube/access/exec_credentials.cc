#include "libs/kube/access/exec_credentials.h"

#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/process/environment.h"
#include "libs/kube/access/run_program.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kube {
namespace {

// Credentials that end on the way to the server are of no use.
constexpr absl::Duration kMargin = absl::Seconds(10);

}  // namespace

ExecCredentials::ExecCredentials(ExecOptions options, const Clock* clock)
    : options_(std::move(options)), clock_(clock == nullptr ? real_clock_ : *clock) {}

bool ExecCredentials::IsGood(absl::Time now) const {
  return kept_.has_value() && now < kept_->expires - kMargin;
}

absl::StatusOr<Credentials> ExecCredentials::Get(const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, stop, [this] { return !running_; });
  if (stop.stop_requested()) return absl::CancelledError("a stop was requested");
  if (IsGood(clock_.Now())) return kept_->credentials;
  running_ = true;
  lock.unlock();
  absl::StatusOr<Kept> made = Run(stop);
  lock.lock();
  running_ = false;
  ended_.notify_all();
  if (!made.ok()) return made.status();
  kept_ = *std::move(made);
  return kept_->credentials;
}

void ExecCredentials::Refused(const Credentials& credentials) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Somebody else may have renewed them.
  if (kept_.has_value() && kept_->credentials == credentials) kept_.reset();
}

absl::StatusOr<ExecCredentials::Kept> ExecCredentials::Run(const std::stop_token& stop) const {
  Json info = {
      {"apiVersion", options_.api_version}, {"kind", "ExecCredential"}, {"spec", {{"interactive", false}}}};
  if (!options_.cluster_json.empty())
    info["spec"]["cluster"] = ParseJson(options_.cluster_json).value_or(Json());
  std::map<std::string, std::string> variables(options_.environment.begin(), options_.environment.end());
  variables["KUBERNETES_EXEC_INFO"] = Dump(info);
  const absl::StatusOr<std::string> output = RunForOutput({.command = options_.command,
                                                           .environment = OwnEnvironmentWith(variables),
                                                           .timeout = options_.timeout},
                                                          stop);
  if (absl::IsCancelled(output.status())) return output.status();
  const absl::StatusOr<Kept> kept = output.ok() ? Parse(*output) : output.status();
  if (kept.ok()) return kept;
  return absl::UnauthenticatedError(absl::StrCat(
      "the login program ", options_.command[0], " gave no credentials: ", kept.status().message(),
      options_.install_hint.empty() ? "" : "; ", options_.install_hint));
}

absl::StatusOr<ExecCredentials::Kept> ExecCredentials::Parse(const std::string& output) const {
  const absl::StatusOr<Json> answer = ParseJson(output);
  if (!answer.ok()) return answer.status();
  if (TextAt(*answer, {"kind"}) != "ExecCredential" ||
      TextAt(*answer, {"apiVersion"}) != options_.api_version) {
    return absl::InvalidArgumentError(absl::StrCat("it printed no ExecCredential of ", options_.api_version));
  }
  Kept kept = {.credentials = {.bearer_token = TextAt(*answer, {"status", "token"}),
                               .certificate_pem = TextAt(*answer, {"status", "clientCertificateData"}),
                               .key_pem = TextAt(*answer, {"status", "clientKeyData"})},
               .expires = absl::InfiniteFuture()};
  if (kept.credentials.bearer_token.empty() && kept.credentials.certificate_pem.empty()) {
    return absl::InvalidArgumentError("it printed neither a token nor a certificate");
  }
  const std::string expires = TextAt(*answer, {"status", "expirationTimestamp"});
  if (!expires.empty()) {
    const absl::StatusOr<absl::Time> time = TimeFromText(expires);
    if (!time.ok()) return time.status();
    kept.expires = *time;
  }
  return kept;
}

}  // namespace adaptdl::kube
