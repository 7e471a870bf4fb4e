// How the status of one AdaptDLJob is written, and its object deleted: in the version that is known, and so that it is
// known afterwards what stands there, whatever became of the answer (kube_job_store.h).
//
// Thread-safe, but for two calls about the same object at once. Client and lease outlive it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_JOB_OBJECT_WRITER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_JOB_OBJECT_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/lease/leader_lease.h"

namespace adaptdl::supervisor {

// An object as this process knows it. A plain value.
struct KnownObject {
  // As it was seen or written last.
  std::shared_ptr<const kube::Json> object;
  // The status that this process has read at its start or written last; that of a new object is empty.
  kube::Json written = kube::Json::object();
  // Statuses of writes of which nobody knows whether they were done.
  std::vector<kube::Json> attempted = {};
};

// The same as that of `object`.
KnownObject JustRead(std::shared_ptr<const kube::Json> object);

class JobObjectWriter {
 public:
  JobObjectWriter(const kube::Client* client, LeaderLease* lease) : client_(*client), lease_(*lease) {}

  // Makes it the object's status. `known` is true afterwards, also after an error.
  // NOT_FOUND    the object is gone
  // ABORTED      its spec is another one than the known one's
  // UNAVAILABLE  it could not be written; or it is somebody else's, who leads, and the lease was given up
  // INTERNAL     the server finds it wrong
  absl::Status Write(const kube::Json& status, KnownObject* known) const;

  // NOT_FOUND: it is gone. OK: it goes when its finalizers allow it.
  absl::Status Delete(const kube::Json& object) const;

 private:
  // What stands there. NOT_FOUND: another object of that name, too.
  absl::StatusOr<kube::Json> Read(const kube::Json& object) const;
  absl::Status GiveUp(const kube::Json& object, const std::string& why) const;
  // What a write of `status` that was refused, or had no answer, has come to, now that this stands there. OK: nothing yet,
  // it can be tried again. ALREADY_EXISTS: it was done.
  absl::Status Judge(const kube::Json& found, const kube::Json& status, KnownObject* known) const;

  const kube::Client& client_;
  LeaderLease& lease_;
};

// The merge patch that makes `to` of `from`.
kube::Json MergePatchOf(const kube::Json& from, const kube::Json& to);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_JOB_OBJECT_WRITER_H_
