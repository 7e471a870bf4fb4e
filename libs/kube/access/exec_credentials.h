// Credentials that a program prints (client.authentication.k8s.io/v1 or v1beta1), as cloud providers' logins
// work: `aws eks get-token`, `gke-gcloud-auth-plugin`. They are kept until they expire or are refused. The
// program is given nothing to read: one that must ask a person can't be used.
//
// Thread-safe: the program runs once at a time, and whoever needs credentials meanwhile waits for it.

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_EXEC_CREDENTIALS_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_EXEC_CREDENTIALS_H_

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/kube/access/credentials.h"

namespace adaptdl::kube {

struct ExecOptions {
  // "client.authentication.k8s.io/v1".
  std::string api_version;
  // Program and arguments.
  std::vector<std::string> command;
  // Further variables of its environment.
  std::vector<std::pair<std::string, std::string>> environment = {};
  // JSON that it is told as `spec.cluster`. Empty: nothing.
  std::string cluster_json = {};
  // For people who lack the program.
  std::string install_hint = {};
  absl::Duration timeout = absl::Seconds(60);
};

class ExecCredentials final : public CredentialSource {
 public:
  // The clock outlives it; null: the machine's.
  explicit ExecCredentials(ExecOptions options, const Clock* clock = nullptr);

  absl::StatusOr<Credentials> Get(const std::stop_token& stop) override;
  void Refused(const Credentials& credentials) override;

 private:
  struct Kept {
    Credentials credentials;
    absl::Time expires;
  };

  absl::StatusOr<Kept> Run(const std::stop_token& stop) const;
  absl::StatusOr<Kept> Parse(const std::string& output) const;
  bool IsGood(absl::Time now) const;

  const ExecOptions options_;
  const RealClock real_clock_;
  const Clock& clock_;

  // Guards what follows. Of the standard library, whose waits a stop request ends.
  std::mutex mutex_;
  std::condition_variable_any ended_;
  bool running_ = false;
  std::optional<Kept> kept_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_EXEC_CREDENTIALS_H_
