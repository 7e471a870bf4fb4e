// The operator is killed at each change that it makes of the cluster in the course of a re-scale, before it is done and after: the
// next one brings the re-scale about, and the job trains as if nothing had happened. The points are found by trying: the n-th
// change, for each n until a re-scale has fewer. Of all of them (ADAPTDL_FAULTS=all), or of some, by ADAPTDL_FAULTS_SEED.

#include <cstdlib>
#include <future>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/kubernetes/faults/fault_run.h"

namespace adaptdl::integration {
namespace {

constexpr char kJob[] = "trains";
constexpr int kPointsOfSome = 2;

struct Change {
  std::string name;
  std::vector<std::string> nodes;
  // Whether it has points that were not tried: of changes that are not done, and of those that are.
  bool left[2] = {true, true};
};

class RescalePointsTest : public FaultRun, public testing::WithParamInterface<std::string> {
 protected:
  // How many changes it makes where nothing goes wrong.
  int CountChanges(const Change& change) {
    Halt(1'000'000, false);
    Rescale(kJob, change.nodes);
    AwaitSteps(kJob);
    const auto count = static_cast<int>(kube::IntegerAt(Control("GET", "halt"), {"changes"}));
    LetGo();
    return count;
  }

  // Kills it at the change number `n`, from 0, of this re-scale. False: it has fewer.
  void KillAt(const Change& change, int n, bool done, bool* is_there) {
    const int64_t before = GroupOf(kJob);
    Halt(n, done);
    auto decision = std::async(std::launch::async, [&] { return cluster_.Allocate(kJob, change.nodes); });
    const std::string at = AwaitHalt(kJob, change.nodes, before);
    *is_there = !at.empty();
    if (*is_there) cluster_.supervisor().Kill();
    LetGo();
    if (*is_there) {
      std::cout << change.name << ": killed at change " << n << ", " << at << (done ? ", done" : ", not done")
                << std::endl;
      const absl::Status started = cluster_.StartSupervisor();
      ASSERT_TRUE(started.ok()) << started;
    }
    decision.wait();
    ASSERT_NO_FATAL_FAILURE(Decide(kJob, change.nodes));
    ASSERT_NO_FATAL_FAILURE(AwaitGroup(kJob, change.nodes, before));
    AwaitSteps(kJob);
  }

  void TryAll(std::vector<Change>* changes) {
    bool any = true;
    for (int n = 0; any; ++n) {
      any = false;
      for (const bool done : {false, true}) {
        for (Change& change : *changes) {
          bool* left = &change.left[done];
          if (*left) {
            ASSERT_NO_FATAL_FAILURE(KillAt(change, n, done, left));
          } else {
            ASSERT_NO_FATAL_FAILURE(Rescale(kJob, change.nodes));
            AwaitSteps(kJob);
          }
          points_ += *left;
          any = any || *left;
        }
      }
    }
  }

  void TrySome(const std::vector<Change>& changes) {
    const char* text = std::getenv("ADAPTDL_FAULTS_SEED");
    const int seed = text == nullptr ? 1 : std::atoi(text);
    RecordProperty("seed", seed);
    std::mt19937 random(seed);
    std::vector<int> counts;
    for (const Change& change : changes) counts.push_back(CountChanges(change));
    for (int i = 0; i < kPointsOfSome; ++i) {
      for (size_t c = 0; c < changes.size(); ++c) {
        bool is_there = false;
        ASSERT_GT(counts[c], 0);
        ASSERT_NO_FATAL_FAILURE(
            KillAt(changes[c], static_cast<int>(random() % counts[c]), random() % 2 == 0, &is_there));
        points_ += is_there;
      }
    }
  }

  int points_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Jobs, RescalePointsTest, testing::Values("in-place", "restart"),
                         [](const auto& info) {
                           return info.param == "restart" ? "ThatRestart" : "ThatChangeInPlace";
                         });

TEST_P(RescalePointsTest, AnotherGoesOn) {
  const std::vector<std::string> one = {"node-0"};
  const std::vector<std::string> two = {"node-0", "node-1"};
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, GetParam(), one));
  std::vector<Change> changes = {{"grow", two}, {"shrink", one}};
  if (TriesAll()) {
    ASSERT_NO_FATAL_FAILURE(TryAll(&changes));
  } else {
    ASSERT_NO_FATAL_FAILURE(TrySome(changes));
  }
  EXPECT_GT(points_, 0);
  std::cout << "faults: killed at " << points_ << " points of re-scales, " << GetParam() << std::endl;
  if (GetParam() == "in-place") {
    EXPECT_EQ(cluster_.GetJob(kJob)->status().restarts(), 0);
  }
  FinishJob(kJob);
}

}  // namespace
}  // namespace adaptdl::integration
