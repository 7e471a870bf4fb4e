// A job that is re-scaled in place all the time while its replicas, workers and supervisor are killed at
// random moments trains as one that nothing happens to: each step once, with the same samples, to the same
// weights. With batch sizes that depend on the replicas, or are chosen while it trains, there is nothing to
// compare it with; but all replicas have the same parameters after each step, bit for bit, and each sample is
// used once in a pass.
//
// scripts/test-chaos.sh runs it at full length.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/chaos/chaos_run.h"

namespace adaptdl::integration {
namespace {

// Of the job.
constexpr size_t kSamples = 120;

class ChaosTest : public ChaosRun, public testing::WithParamInterface<std::string> {
 protected:
  std::vector<std::string> Command(const std::string& folder, int epochs) const override {
    std::vector<std::string> command = {absl::StrCat(ADAPTDL_BINARY_DIR, "/tests/chaos_job"), folder,
                                        GetParam()};
    if (epochs > 0) command.push_back(absl::StrCat(epochs));
    return command;
  }

  // A pass ends with its last sample, or, by goodput, where the epoch's progress is made.
  static void ExpectEachSampleOncePerPass(const std::map<int64_t, Samples>& steps) {
    std::set<int64_t> pass;
    size_t sizes = 0;
    std::set<size_t> batches;
    for (const auto& [step, samples] : steps) {
      const std::set<int64_t> distinct(samples.begin(), samples.end());
      ASSERT_EQ(distinct.size(), samples.size()) << "step " << step;
      batches.insert(samples.size());
      sizes += samples.size();
      const bool repeats =
          std::any_of(samples.begin(), samples.end(), [&](int64_t sample) { return pass.contains(sample); });
      if (repeats || pass.size() == kSamples) {
        ASSERT_TRUE(GetParam() == "goodput" || pass.size() == kSamples) << "step " << step;
        pass.clear();
      }
      pass.insert(samples.begin(), samples.end());
    }
    EXPECT_GT(batches.size(), 1u);
    EXPECT_GT(sizes, kSamples);
  }
};

INSTANTIATE_TEST_SUITE_P(BatchSizes, ChaosTest, testing::Values("fixed", "band", "goodput"),
                         [](const auto& info) { return info.param; });

TEST_P(ChaosTest, TrainsAsIfNothingHappened) {
  ASSERT_NO_FATAL_FAILURE(TrainDisturbed());
  if (GetParam() == "fixed") return CompareWithUndisturbed();
  ExpectEachSampleOncePerPass(steps());
}

}  // namespace
}  // namespace adaptdl::integration
