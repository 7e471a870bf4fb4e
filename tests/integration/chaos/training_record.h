// What the processes of a chaos_job noted, and whether that is one training: each step taken once, with the
// samples that it has in an undisturbed run.

#ifndef ADAPTDL_TESTS_INTEGRATION_CHAOS_TRAINING_RECORD_H_
#define ADAPTDL_TESTS_INTEGRATION_CHAOS_TRAINING_RECORD_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::integration {

using Samples = std::vector<int64_t>;

struct TrainingRecord {
  // By step and group: the shares that the group's members computed of it, together, sorted.
  std::map<std::pair<int64_t, int64_t>, Samples> shares;
  // By step: the groups that took it. More than one only if a restart undid the earlier ones.
  std::map<int64_t, std::set<int64_t>> taken;
  // By step and group: checksums of the parameters after it, of all that took it.
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> states;
  // Of each process that ended as the job did: epochs, then its parameters.
  std::vector<std::vector<double>> weights;
};

// Reads all of `folder`. DATA_LOSS: a file is damaged.
absl::StatusOr<TrainingRecord> ReadTrainingRecord(const std::string& folder);

// The samples of each step that counts. FAILED_PRECONDITION: steps are missing.
absl::StatusOr<std::map<int64_t, Samples>> StepsThatCount(const TrainingRecord& record);

// FAILED_PRECONDITION: replicas came out of a step with different parameters.
absl::Status AllAlike(const TrainingRecord& record);

// FAILED_PRECONDITION: a sample was used twice in a step, or in a pass over `samples` of them before the pass was over. It
// is over with its last sample; or, unless it is to be whole, when a sample comes again.
absl::Status EachSampleOncePerPass(const std::map<int64_t, Samples>& steps, size_t samples, bool whole);

// How often a group began with steps that the group before it had taken.
int Rollbacks(const TrainingRecord& record);

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_CHAOS_TRAINING_RECORD_H_
