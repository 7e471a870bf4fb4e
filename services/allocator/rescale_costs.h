// What jobs have lost by being re-scaled here: what one that never was is to expect.
//
//   RescaleCosts costs;
//   costs.Learn("uid-1", {.in_place = true, .seconds = 0.4});
//   costs.Expect(/*in_place=*/true);  // 0.4
//
// Jobs that have ended are remembered, too: the newest ones, as long as the process lives.
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_RESCALE_COSTS_H_
#define ADAPTDL_SERVICES_ALLOCATOR_RESCALE_COSTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace adaptdl::allocator {

class RescaleCosts {
 public:
  struct Measured {
    // Whether its changes were made while training went on, or by starting it again.
    bool in_place = false;
    // Time without progress that one of them took, at least 0.
    double seconds = 0;
  };

  // Replaces what was known of this job.
  void Learn(const std::string& uid, const Measured& measured);

  // Time without progress, in seconds: the median of the jobs that were changed in this way. If there is
  // none, what small jobs take: 1 s in place, 10 s to write and read a checkpoint and to start the processes.
  double Expect(bool in_place) const;

 private:
  struct Entry {
    Measured measured;
    int64_t place = 0;
  };

  absl::flat_hash_map<std::string, Entry> jobs_;  // by uid
  std::map<int64_t, std::string> order_;          // uids, as they were first heard of
  int64_t last_place_ = 0;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_RESCALE_COSTS_H_
