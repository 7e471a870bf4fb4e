// What the ends of a group of replicas mean. Plain functions, thread-safe.

#ifndef ADAPTDL_CLI_RUN_OUTCOME_H_
#define ADAPTDL_CLI_RUN_OUTCOME_H_

#include <string>
#include <vector>

namespace adaptdl::cli {

// How a replica's process ended.
struct ReplicaEnd {
  int rank = 0;
  // Exit code, or 128 + the signal's number.
  int code = 0;
  // Of a process that was killed. 0: it exited.
  int signal = 0;
};

enum class GroupResult { kSucceeded, kStopped, kFailed };

struct GroupOutcome {
  GroupResult result = GroupResult::kSucceeded;
  // 0, 143, or that of the culprit.
  int code = 0;
  // The replica that failed first, of those that did not end because of another one.
  ReplicaEnd culprit;
};

// `ends` in the order in which they were seen; `stop_signal`: passed on to the replicas before, 0: none.
GroupOutcome Judge(const std::vector<ReplicaEnd>& ends, int stop_signal);

// "was killed by signal 9 (Killed)", "exited with 3".
std::string EndText(const ReplicaEnd& end);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_RUN_OUTCOME_H_
