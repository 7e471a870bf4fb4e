// Which attempt at a job a group belongs to: an attempt begins whenever all replicas are launched, and what changes in place
// stays within it.
//
// Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_ATTEMPTS_H_
#define ADAPTDL_CLI_ATTEMPTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"

namespace adaptdl::cli {

struct Attempt {
  // From 1.
  int number = 1;
  // Its groups are those from this one to the next attempt's first.
  int64_t first_group = 0;
  absl::Time begin = absl::InfinitePast();
  // What was launched, and why: "group 3: 2 replicas on n0, n1".
  std::string what;
};

// In order, of all the job's events. `restarts`: the job's, by which attempts whose events are long forgotten count.
std::vector<Attempt> AttemptsOf(const v1::ListEventsResponse& events, int restarts);

// Null: nobody knows.
const Attempt* FindAttempt(const std::vector<Attempt>& attempts, int64_t group);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_ATTEMPTS_H_
