#include "libs/scheduling/goodput/priorities.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::SizeIs;

// Sizes 1 to `most` in pool 0, worth `first` for the first unit and `next` for each further one.
std::vector<Option> Sizes(int most, double first, double next) {
  std::vector<Option> options;
  for (int k = 1; k <= most; ++k) options.push_back({first + (k - 1) * next, 0, k});
  return options;
}

int UnitsTaken(const ChoiceProblem& problem, const std::vector<int>& chosen) {
  int units = 0;
  for (size_t g = 0; g < chosen.size(); ++g) {
    if (chosen[g] >= 0) units += problem.groups[g][chosen[g]].amount;
  }
  return units;
}

TEST(Priorities, AHighPriorityStartsBeforeALowOneHoweverLittleItIsWorth) {
  const ChoiceProblem problem = {{Sizes(1, 100, 0), Sizes(1, 1e-3, 0)}, {1}};
  EXPECT_THAT(SolveByPriority(problem, {0, 1}, {}).choice.chosen, ElementsAre(-1, 0));
  EXPECT_THAT(SolveByPriority(problem, {0, 0}, {}).choice.chosen, ElementsAre(0, -1));
}

TEST(Priorities, GrowthIsSharedOutByValue) {
  // The second unit of the first job is worth less than the first one of the other.
  const ChoiceProblem problem = {{Sizes(4, 3, 1), Sizes(4, 2, 1.5)}, {4}};
  const PrioritisedChoice result = SolveByPriority(problem, {7, -7}, {});
  EXPECT_THAT(result.choice.chosen, ElementsAre(0, 2));
  EXPECT_THAT(result.let_in, ElementsAre(1, 0));
  EXPECT_DOUBLE_EQ(result.choice.value, 8);
  EXPECT_DOUBLE_EQ(result.choice.bound, 8);
}

TEST(Priorities, WhoIsLetInMayHaveAnyPool) {
  // The first job likes pool 0 best, but the second can only have that.
  ChoiceProblem problem = {{{{5, 0, 1}, {4, 1, 1}}, {{3, 0, 1}}}, {1, 1}};
  EXPECT_THAT(SolveByPriority(problem, {2, 1}, {}).choice.chosen, ElementsAre(1, 0));
}

// As many levels as there can be, on a cluster with room for everybody: all of it is used. Without a table,
// too: there prices and repair have to find the same.
TEST(Priorities, ThousandsOfLevelsLeaveNothingIdle) {
  for (const int64_t updates : {int64_t{4'000'000}, int64_t{0}}) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> value(1, 50);
    ChoiceProblem problem;
    std::vector<int> priority;
    for (int g = 0; g < 2001; ++g) {
      problem.groups.push_back(Sizes(4, value(random), 0.9));
      priority.push_back(g - 1000);
    }
    problem.capacity = {2001 * 2};
    const PrioritisedChoice result = SolveByPriority(problem, priority, {.table_updates = updates});
    EXPECT_THAT(result.choice.chosen, Each(Ge(0)));
    EXPECT_EQ(UnitsTaken(problem, result.choice.chosen), 2001 * 2);
    EXPECT_LE(result.choice.value, result.choice.bound * (1 + 1e-9));
    EXPECT_GE(result.choice.value, result.choice.bound * (1 - 1e-3));
  }
}

// Whoever was let in has something, whatever the solver does; what it says to be the bound is one.
TEST(Priorities, WhoIsLetInHasSomething) {
  std::mt19937_64 random(2);
  const auto any = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 300; ++i) {
    ChoiceProblem problem = {{}, {any(4, 24), any(4, 24)}};
    std::vector<int> priority;
    for (int g = any(2, 20); g > 0; --g) {
      problem.groups.emplace_back();
      for (int o = any(1, 8); o > 0; --o) {
        problem.groups.back().push_back({any(-1, 40) / 4.0, any(0, 1), any(1, 9)});
      }
      priority.push_back(any(-2, 2));
    }
    const PrioritisedChoice exact = SolveByPriority(problem, priority, {});
    const PrioritisedChoice priced = SolveByPriority(problem, priority, {.table_updates = 0});
    for (const PrioritisedChoice* result : {&exact, &priced}) {
      std::vector<int> left = problem.capacity;
      for (size_t g = 0; g < priority.size(); ++g) {
        const int chosen = result->choice.chosen[g];
        if (result->let_in[g]) {
          EXPECT_GE(chosen, 0) << i;
        }
        if (chosen >= 0) left[problem.groups[g][chosen].pool] -= problem.groups[g][chosen].amount;
      }
      EXPECT_THAT(left, Each(Ge(0))) << i;
      EXPECT_LE(result->choice.value, result->choice.bound * (1 + 1e-9) + 1e-9) << i;
    }
  }
}

// Numbers of states beyond 64 bits, and a capacity to which one can't be added.
TEST(Priorities, NoCapacityIsTooLargeToCount) {
  constexpr int kMost = std::numeric_limits<int>::max();
  for (const std::vector<int>& capacity :
       {std::vector<int>{kMost, 5, 5}, std::vector<int>{(1 << 20) - 1, (1 << 20) - 1, (1 << 24) - 1}}) {
    const ChoiceProblem problem = {{{{1, 0, 3}, {3, 1, 4}}, {{2, 1, 3}}, {{1, 2, 5}}}, capacity};
    const ChoiceResult result = SolveMultipleChoice(problem, {});
    EXPECT_THAT(result.chosen, SizeIs(3));
    EXPECT_GE(result.value, 4);
    EXPECT_LE(result.value, result.bound + 1e-9);
  }
}

JobInfo GpuJob(int index, int most) {
  JobInfo job = Job(absl::StrCat("job-", index), most);
  job.request = {{kGpu, 1}};
  return job;
}

// 16 levels of ten jobs, two GPUs for each: with bonuses that outbid all lower levels together, a quarter of
// the GPUs stayed idle while jobs waited.
TEST(GoodputPolicyPriorities, ManyLevelsLeaveNoGpuIdle) {
  ClusterView view;
  for (int n = 0; n < 40; ++n) view.nodes.push_back(Node(absl::StrCat("node-", 100 + n), 64000, 8));
  for (int j = 0; j < 160; ++j) {
    view.jobs.push_back(GpuJob(j, 8));
    view.jobs.back().priority = j / 10;
  }
  const Decision decision = GoodputPolicy({}).Decide(view, 1);
  size_t gpus = 0;
  for (int j = 0; j < 160; ++j) {
    // The lowest level is not let in by itself.
    EXPECT_THAT(decision.jobs[j].allocation, SizeIs(Ge(j < 10 ? 0 : 1))) << j;
    gpus += decision.jobs[j].allocation.size();
  }
  EXPECT_EQ(gpus, 320);
}

TEST(GoodputPolicyPriorities, AQuotaAsLargeAsCanBeSaidBoundsNothing) {
  ClusterView view = View({Node("a", 64000, 8)}, {GpuJob(0, 8)});
  view.jobs[0].name_space = "team";
  view.namespaces["team"].gpu_quota = std::numeric_limits<int>::max();
  EXPECT_THAT(GoodputPolicy({}).Decide(view, 1).jobs[0].allocation, SizeIs(8));
}

// Full cluster, low priorities first in line: those above take their smallest sizes, and no more, before the
// rest is shared out.
TEST(GoodputPolicyPriorities, OnAFullClusterTheLowestLevelWaits) {
  ClusterView view = View({Node("a", 64000, 4), Node("b", 64000, 4)}, {});
  for (int j = 0; j < 12; ++j) {
    view.jobs.push_back(GpuJob(j, 1));
    view.jobs.back().priority = j < 4 ? -5 : j < 8 ? 0 : 5;
  }
  const Decision decision = GoodputPolicy({}).Decide(view, 1);
  for (int j = 0; j < 12; ++j) EXPECT_EQ(decision.jobs[j].allocation.size(), j < 4 ? 0 : 1) << j;
}

}  // namespace
}  // namespace adaptdl::scheduling
