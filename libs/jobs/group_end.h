// How a group of replicas ended, and whether that was the job's own fault.
//
// Exit codes: 0 = done; 143 or SIGTERM = stopped on request after a checkpoint; 75 = a peer was lost
// ("restart me"); anything else = the job's own failure. A failure is attributed once per group, when all
// members have ended, because only then is it known whether a 75 had a cause outside of the job, and likewise
// a 143: the members of a group stop at the same step, also when only one of them was told to (by the shim of
// a node that has lost its worker, say).
//
// Where the node says whose fault an end was (Cause), that decides.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_JOBS_GROUP_END_H_
#define ADAPTDL_LIBS_JOBS_GROUP_END_H_

#include <string>
#include <vector>

#include "libs/jobs/job.h"

namespace adaptdl::jobs {

inline constexpr int kExitStopped = 143;
inline constexpr int kExitPeerLost = 75;

// What became of one replica.
enum class Fate {
  kLive,
  // Exited with 0.
  kDone,
  // Ended because it was told to, or because its node is going away.
  kStopped,
  // Its node or its process was lost from under it.
  kLost,
  // Exited with 75 without having been told to stop.
  kPeerLost,
  // Exited with 143 without having been told to stop.
  kStoppedUnasked,
  // Crashed, exited by itself, or could not be started.
  kFailed,
};

Fate FateOf(const Replica& replica);

// "exited with code 1", "was killed by signal 9", "was lost: node n1 fell silent", ...
std::string DescribeEnd(const Replica& replica);

struct GroupEnd {
  // All members exited with 0.
  bool completed = false;
  // The end counts against max_restarts.
  bool own_failure = false;
  // Members were lost, and none failed.
  bool lost = false;
  // A node or the storage is to blame for some end: the next attempt may well meet the same.
  bool fault = false;
  // The replica that the failure is attributed to, or the first lost one; empty when there is none.
  std::string replica_id;
  std::string node;
  // For people.
  std::string message;
};

// Whether something outside of the job explains why members have ended as those do that follow others.
bool IsExplanation(const Replica& replica);

// Judges a group of `size` of which all given `members` have ended. Members that are not given count as lost.
// Those whose end was handled before explain how others ended, and count no more.
GroupEnd ClassifyGroupEnd(const std::vector<Replica>& members, int size);

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_GROUP_END_H_
