// The status of an AdaptDLJob: what of a job and its replicas outlives a supervisor, as JSON.
//
//   phase, reason, message      as of all jobs: "Pending", "Starting", "Running", "Rescaling", "Stopping", "Succeeded",
//                               "Failed", "Cancelled"
//   group                       number of the replica set; 0 before the first
//   allocation                  node of each replica of it; the index is the rank
//   replicas, readyReplicas     how many they are, and how many of them ran when the status was written last
//   selector                    of the pods, as text
//   restarts, failures, rescales, checkpointError
//   submitTimestamp, startTimestamp, completionTimestamp, retryTimestamp
//   train                       hints, by the names of AdaptDL's Python package (train_object.h)
//   conditions                  Running, Suspended, Succeeded, Failed (conditions.h)
// and for the operator alone:
//   term                        of the leader that wrote it
//   sequence                    place in the order of submission, from 1
//   decision                    {nodes, reason, explanation, unschedulable}: what the allocator decided last
//   plans                       [{group, committed, broken, offered, since, readyAfter, members: [{replica, node}]}]
//   members                     [{replica, node, launchGroup, launchRank, group, rank, stopRequested, nodeLeaving,
//                               masterPort, endHandled, end: {state: "Exited"|"Lost", exitCode, signal, loss, cause,
//                               message, startTimestamp, endTimestamp}}]: replicas of the current group, in order of
//                               rank, and others that may still be there
//   rescalesInPlace             whether all members that live have joined and can change in place
//   lastGroup, newcomerFailures, rescaleNote, cancelRequested, startExpired, tellsProgress, runningSince, runningTime,
//   rescalingSince, rescaleDuration
// Fields that have their default are left out, but for phase, group, replicas, readyReplicas, selector, sequence and term. Times are
// RFC 3339 with microseconds, by the wall; durations are text such as "2.5s".
//
// Soft, and so not in it: of jobs, progress, the estimated completion, and what no store keeps (store/job_codec.h); of
// replicas, that they run, since when, that they have joined, their address, and what each says of re-scaling in place.
// Replicas and pods say so again to each new leader, which leaves a job alone that rescalesInPlace until they have. Tokens are made again (group_tokens.h).
//
// Plain functions; thread-safe. What is read is anybody's: whatever is not as it would be written (a type, a bound, an
// unknown field) is INVALID_ARGUMENT, which names the field.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_JOB_STATUS_OBJECT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_JOB_STATUS_OBJECT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// A job as its object has it.
struct StoredInStatus {
  JobRecord record;
  // Those of the current group in order of rank, then others.
  std::vector<ReplicaRecord> replicas;
  int64_t term = 0;
};

// Whether the state machine has to do with the replica still: it is a member of the current group, or may be there.
bool Counts(const ReplicaRecord& replica, const jobs::Job& state);

// `replicas`: any of the job, in any order; those that count no more are left out. Has no conditions.
kube::Json StatusOf(const JobRecord& record, const std::vector<ReplicaRecord>& replicas, int64_t term);

// `job`: what the object's metadata and spec ask for.
absl::StatusOr<StoredInStatus> ReadStatus(const kube::Json& status, std::shared_ptr<const v1::Job> job);

// Whether it has one that StatusOf() has made: an object that is new, or was found wrong (kubernetes/jobs), has none.
bool HasStatus(const kube::Json& object);

// Times that are counted on the steady clock are not the same to the microsecond when they are told again: where they
// differ from `before` by less than a second they are set to what that says.
void KeepSteadyTimes(const kube::Json& before, kube::Json* status);

// Whether there is a reason to write `status` in place of `before`: something differs besides the term and the number of
// ready replicas.
bool DiffersForGood(const kube::Json& before, const kube::Json& status);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_JOB_STATUS_OBJECT_H_
