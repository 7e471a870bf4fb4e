// What the supervisor remembers, as it is kept in memory and on disk. Plain values.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_RECORDS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_RECORDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/event.pb.h"
#include "adaptdl/v1/hints.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "libs/jobs/job.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {

// What the allocator decided last for a job.
struct AllocationDecision {
  // Node of each replica. Empty: none.
  std::vector<std::string> nodes;
  // Why, and more about it, one sentence each: for people.
  std::string reason;
  std::vector<std::string> explanation;
  // Whether it said that no node could ever hold a replica.
  bool unschedulable = false;

  bool operator==(const AllocationDecision&) const = default;
};

// What the wall showed when something happened to a job, or is to happen: it stays, whatever is done to the
// clock since. InfinitePast: it did not, or nobody knows.
struct JobTimes {
  absl::Time submitted = absl::InfinitePast();
  // When the first group ran, and when the job ended.
  absl::Time started = absl::InfinitePast();
  absl::Time completed = absl::InfinitePast();
  // Nothing is launched before.
  absl::Time retry = absl::InfinitePast();
  absl::Time estimated_completion = absl::InfinitePast();

  bool operator==(const JobTimes&) const = default;
};

// The truth of a job. What users are told (v1::JobStatus) is made of it (state/job_status.h), and what the
// store keeps (job_codec.h); nothing is decided on either.
struct JobRecord {
  // Place in the order of submission; never used twice.
  int64_t sequence = 0;
  // What the user asks for: everything but the status. Immutable, and shared by copies of the record; an update
  // puts another one in its place (TakeUpdate()).
  std::shared_ptr<const v1::Job> job;
  // What the state machine works on, in steady times (libs/base/clock.h); SetState() replaces it. In what is
  // stored, they are what the wall showed when the record was written.
  jobs::Job state;
  AllocationDecision decision;
  JobTimes times;
  // The latest ones, if it sent any. Whoever sets them sets state.tells_progress (TellsProgress()).
  std::optional<v1::Hints> hints;
  std::optional<v1::TrainingProgress> progress;
  // Why the newest checkpoint could not be written. Empty: it could, or there was none.
  std::string checkpoint_error;
  // Secrets of the newest groups and plans, by number.
  std::map<int64_t, std::string> tokens;

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

inline absl::Time TimeOf(const v1::Event& event) { return messages::ToTime(event.time()); }

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_RECORDS_H_
