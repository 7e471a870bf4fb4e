// The worker's certificate where the supervisor gives it one: asked for at the first start, with a join token or as a
// machine that the autoscaler vouches for, and renewed while the worker runs. See libs/enrolment/node_identity.h for the
// files, which are in STATE_DIR/identity.
//
//   start ──▶ identity there? ──no──▶ enrol, again and again while the supervisor is away or says "not yet"
//                  │ yes                    │
//                  ▼                        ▼
//              serve; a thread renews the certificate when a third of its life is left, again and again until it can
//
// Servers and clients read the files again by themselves, so nothing is restarted.

#ifndef ADAPTDL_SERVICES_WORKER_NODE_ENROLMENT_H_
#define ADAPTDL_SERVICES_WORKER_NODE_ENROLMENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/enrolment/node_identity.h"
#include "libs/service/security/server_security.h"

namespace adaptdl::worker {

// At most one of the first two; neither: the worker has a certificate from elsewhere.
struct EnrolmentOptions {
  // File with a join token; read only while there is no identity, so it may be gone later.
  std::string token_file = {};
  // As a machine of a pool of the autoscaler, which is known by what its cloud calls it.
  bool instance = false;
  std::string instance_id = {};

  bool enabled() const { return instance || !token_file.empty(); }
};

// INVALID_ARGUMENT names flags that contradict each other, or are missing.
absl::Status CheckEnrolment(const EnrolmentOptions& options, const security::SecurityOptions& security);

// Where the identity of a worker with this state folder is.
std::string IdentityFolder(const std::string& state_dir);

struct NodeEnrolmentParts {
  EnrolmentOptions options;
  std::string folder;
  std::string node_id;
  // A call without a certificate, and one that shows the one in `folder`, on a connection of its own.
  enrolment::Enrol enrol = nullptr;
  enrolment::Enrol renew = nullptr;
  // Outlives it.
  const Clock* clock = nullptr;
};

// Sees to it that there is an identity. Blocks until there is, or until there can't be: PERMISSION_DENIED and the like
// from the supervisor, or NOT_FOUND: there is neither an identity nor a token.
absl::Status EnsureIdentity(const NodeEnrolmentParts& parts);

// Where the supervisor gives this node its certificate: EnsureIdentity() by calls to `supervisors` ("host:port", or several,
// separated by commas), and `security` names the files from then on. What it answers is for an IdentityKeeper; nothing: the
// certificate comes from elsewhere. `about`: all but the calls.
absl::StatusOr<std::optional<NodeEnrolmentParts>> JoinCluster(NodeEnrolmentParts about,
                                                              const std::string& supervisors,
                                                              const std::string& server_name,
                                                              security::SecurityOptions* security);

// When the identity is to be renewed, and that it is. Not thread-safe.
class IdentityRenewal {
 public:
  // There is an identity.
  explicit IdentityRenewal(NodeEnrolmentParts parts) : parts_(std::move(parts)) {}

  // Renews it if it is time. How long until there is something to do.
  absl::Duration Step();
  const Clock* clock() const { return parts_.clock; }

 private:
  const NodeEnrolmentParts parts_;
  // After a failure.
  absl::Duration pause_ = absl::ZeroDuration();
};

// A thread that does so until it is destroyed. Thread-safe.
class IdentityKeeper {
 public:
  // There is an identity.
  explicit IdentityKeeper(NodeEnrolmentParts parts);
  ~IdentityKeeper();

 private:
  void Run();

  IdentityRenewal renewal_;  // Used by the thread.
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NODE_ENROLMENT_H_
