// What the supervisor remembers, as it is kept in memory and on disk. Plain values.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_RECORDS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_RECORDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/event.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "libs/jobs/job.h"

namespace adaptdl::supervisor {

// Times outside of `status` are steady ones (libs/base/clock.h); in the store they are what the wall showed
// when the record was written.
struct JobRecord {
  // Place in the order of submission; never used twice.
  int64_t sequence = 0;
  // What the user asked for: everything but the status. Never changes, and is shared by all copies of the
  // record.
  std::shared_ptr<const v1::Job> job;
  // Without replicas: see ReplicaRecord.
  v1::JobStatus status;
  // Since when the current group is being started, to this process's knowledge: not stored, so that a restart
  // gives it the whole time again.
  absl::Time starting_since = absl::InfinitePast();
  // Nothing is launched before. status.retry_time is the same for people. InfinitePast: no such limit.
  absl::Time retry_time = absl::InfinitePast();
  // Since when the current group runs. InfinitePast: it does not.
  absl::Time running_since = absl::InfinitePast();
  // Since when the job is being re-scaled (libs/jobs/job.h). InfinitePast: it is not.
  absl::Time rescaling_since = absl::InfinitePast();
  // Whether the allocator said that no node could ever hold a replica.
  bool unschedulable = false;
  // Secrets of the newest groups and plans, by number.
  std::map<int64_t, std::string> tokens;
  // Changes in place that are under way (libs/jobs/job.h).
  std::vector<jobs::Plan> plans;
  std::string rescale_note;
  int newcomer_failures = 0;
  // Ends by faults of nodes or of the storage (libs/jobs/job.h). Not stored: a restart tries again at once.
  int faults = 0;

  const std::string& uid() const { return job->uid(); }
};

struct ReplicaRecord {
  std::string job_uid;
  // What it was launched as. Both together are never used twice within a job.
  int64_t launch_group = 0;
  int launch_rank = 0;
  // With its group and rank of today.
  v1::Replica replica;
  bool stop_requested = false;
  // Whether its node was being drained or taken away when it ended.
  bool node_leaving = false;
  jobs::LossCause loss = jobs::LossCause::kNone;
  // Where it serves the rendezvous of its collectives; empty before it joined.
  std::string address;
  // Whether it said then that it can go on in another group.
  bool rescales_in_place = false;
  // Whether its end was dealt with (libs/jobs/job.h).
  bool end_handled = false;
  // Port that it was told to listen on, as rank 0 of a program of AdaptDL's Python package. 0: none.
  int master_port = 0;
};

struct NodeRecord {
  v1::Node node;
  int64_t session_id = 0;
};

// What tells a mutating call from all others (request_key.h): an id counts within a caller and a namespace,
// for the method and the content that it was made up for.
struct RequestKey {
  // Empty: where everybody may do everything.
  std::string caller;
  // Empty: it is about the cluster.
  std::string name_space;
  std::string request_id;
  std::string method;
  // SHA-256 of the request. Empty: it was answered by a version that kept neither this nor caller and
  // namespace.
  std::string content;
};

// The answer of a mutating call, for a repetition of it.
struct RequestRecord {
  RequestKey key;
  std::string response;
  absl::Time time;
};

// Files of a deleted job that may still be on a node.
struct FileDeletion {
  std::string node_id;
  std::string name_space;
  std::string job;
  std::string job_uid;
};

inline absl::Time TimeOf(const v1::Event& event) {
  return absl::FromUnixSeconds(event.time().seconds()) + absl::Nanoseconds(event.time().nanos());
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_RECORDS_H_
