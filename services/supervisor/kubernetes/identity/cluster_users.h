// Users of the cluster: their tokens and what its rules (RBAC) let them do, for the guard.
//
// Answers count for seconds, so that a caller who makes many calls costs the API server little, and one whose rights
// were taken away is soon without. Tokens that nobody is known to have can make us ask, too: no more often than
// `strangers_per_second`, all together; those that somebody had lately always can.
//
// Whoever calls waits for as long as the client's session is patient: it is to be one of their own, with seconds of
// patience.
//
// Thread-safe. The client and the clock outlive them. Errors as authority.h has them.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_CLUSTER_USERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_CLUSTER_USERS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"
#include "libs/kube/client/client.h"
#include "libs/service/security/authority.h"
#include "services/supervisor/kubernetes/identity/answers.h"

namespace adaptdl::supervisor {

struct ClusterUsersOptions {
  // Whom users' tokens are for: us, and not the API server, where we could use them in the user's name.
  std::string audience = "adaptdl";
  // How long an answer counts.
  absl::Duration lifetime = absl::Seconds(10);
  // How long it is remembered who had a token.
  absl::Duration memory = absl::Minutes(10);
  size_t most_remembered = 10'000;
  int strangers_per_second = 20;
};

class ClusterTokens final : public security::TokenAuthority {
 public:
  ClusterTokens(const kube::Client* client, const Clock* clock, const ClusterUsersOptions& options);

  absl::StatusOr<security::Caller> Ask(const std::string& token) override;
  std::optional<security::Caller> Recall(const std::string& token) override;

 private:
  absl::StatusOr<security::Caller> Review(const std::string& token) const;

  const kube::Client& client_;
  const Clock& clock_;
  const ClusterUsersOptions options_;
  Mutex mutex_;
  TokenBuckets strangers_ ABSL_GUARDED_BY(mutex_);
  // By the token's SHA-256. An error: nobody has it.
  Answers<absl::StatusOr<security::Caller>> known_ ABSL_GUARDED_BY(mutex_);
};

class ClusterAccess final : public security::AccessAuthority {
 public:
  ClusterAccess(const kube::Client* client, const Clock* clock, const ClusterUsersOptions& options);

  absl::Status Check(const security::Caller& caller, const security::ClusterRule& rule,
                     const std::string& name_space) override;

 private:
  const kube::Client& client_;
  const Clock& clock_;
  Mutex mutex_;
  // By all that the question is made of.
  Answers<absl::Status> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_CLUSTER_USERS_H_
