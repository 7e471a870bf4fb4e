// A job that is re-scaled in place all the time while its replicas, workers and supervisor are killed at
// random moments trains as one that nothing happens to: each step once, with the same samples, to the same
// weights. With batch sizes that depend on the replicas, or are chosen while it trains, there is nothing to
// compare it with; but all replicas have the same parameters after each step, bit for bit, and each sample is
// used once in a pass.
//
// scripts/test-chaos.sh runs it at full length.

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
  void ExpectEachSampleOncePerPass() const {
    const absl::Status once = EachSampleOncePerPass(steps(), kSamples, /*whole=*/GetParam() != "goodput");
    EXPECT_TRUE(once.ok()) << once;
    std::set<size_t> batches;
    for (const auto& [step, samples] : steps()) batches.insert(samples.size());
    EXPECT_GT(batches.size(), 1u);
    EXPECT_GT(steps().size(), kSamples);
  }
};

INSTANTIATE_TEST_SUITE_P(BatchSizes, ChaosTest, testing::Values("fixed", "band", "goodput"),
                         [](const auto& info) { return info.param; });

TEST_P(ChaosTest, TrainsAsIfNothingHappened) {
  ASSERT_NO_FATAL_FAILURE(TrainDisturbed());
  if (GetParam() == "fixed") return CompareWithUndisturbed();
  ExpectEachSampleOncePerPass();
}

}  // namespace
}  // namespace adaptdl::integration
