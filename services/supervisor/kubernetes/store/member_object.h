// One replica in the status of an AdaptDLJob (job_status_object.h): an entry of `members`.
//
// Plain functions; thread-safe. Inside this folder only.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_MEMBER_OBJECT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_MEMBER_OBJECT_H_

#include "libs/kube/json/json.h"
#include "services/supervisor/kubernetes/store/fields.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// `job`: its own. Leaves the replica's name out where it is the one that all get, and group and rank of today where they
// are those of its launch.
kube::Json MemberObject(const ReplicaRecord& replica, const JobRecord& job);

// What was soft is as of one that was launched just now.
ReplicaRecord ReadMember(const JobRecord& job, FieldReader* fields);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_MEMBER_OBJECT_H_
