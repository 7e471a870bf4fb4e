#include "simulator/policies/ilp/integer_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::simulator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Option = IntegerProgram::Option;

// By trying all choices.
double BestValue(const IntegerProgram& problem) {
  std::function<double(size_t, std::vector<double>)> best = [&](size_t group,
                                                                std::vector<double> left) -> double {
    if (group == problem.groups.size()) return 0;
    double value = best(group + 1, left);
    for (const Option& option : problem.groups[group]) {
      std::vector<double> rest = left;
      for (const auto& [capacity, amount] : option.usage) rest[capacity] -= amount;
      if (*std::min_element(rest.begin(), rest.end()) < 0) continue;
      value = std::max(value, option.value + best(group + 1, rest));
    }
    return value;
  };
  return best(0, problem.capacities);
}

void ExpectFeasible(const IntegerProgram& problem, const IntegerSolution& solution) {
  std::vector<double> left = problem.capacities;
  double value = 0;
  ASSERT_EQ(solution.chosen.size(), problem.groups.size());
  for (size_t g = 0; g < problem.groups.size(); ++g) {
    if (solution.chosen[g] < 0) continue;
    const Option& option = problem.groups[g][solution.chosen[g]];
    value += option.value;
    for (const auto& [capacity, amount] : option.usage) left[capacity] -= amount;
  }
  EXPECT_NEAR(value, solution.value, 1e-9);
  for (const double rest : left) EXPECT_GE(rest, -1e-6);
}

IntegerProgram RandomProblem(int groups, std::mt19937& random) {
  IntegerProgram problem;
  problem.capacities = {static_cast<double>(random() % 12), static_cast<double>(random() % 12)};
  for (int g = 0; g < groups; ++g) {
    std::vector<Option>& group = problem.groups.emplace_back();
    for (uint32_t i = random() % 5; i > 0; --i) {
      group.push_back({static_cast<double>(random() % 200) / 10 - 2,
                       {{static_cast<int>(random() % 2), static_cast<double>(1 + random() % 6)}}});
    }
  }
  return problem;
}

TEST(MultipleChoice, TakesWhatIsBestTogether) {
  // By value alone the first group would take the option of 10, and leave room for nothing.
  const IntegerProgram problem = {
      .groups = {{{10, {{0, 4}}}, {6, {{0, 2}}}}, {{7, {{0, 2}}}}, {{-1, {}}}},
      .capacities = {4},
  };
  const auto solution = SolveIntegerProgram(problem);
  ASSERT_TRUE(solution.ok()) << solution.status();
  EXPECT_THAT(solution->chosen, ElementsAre(1, 0, -1));
  EXPECT_DOUBLE_EQ(solution->value, 13);
}

TEST(MultipleChoice, IsAsGoodAsTryingEverything) {
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    const IntegerProgram problem = RandomProblem(6, random);
    const auto solution = SolveIntegerProgram(problem);
    ASSERT_TRUE(solution.ok()) << solution.status();
    ExpectFeasible(problem, *solution);
    EXPECT_NEAR(solution->value, BestValue(problem), 1e-6) << round;
  }
}

TEST(MultipleChoice, TheSameProblemHasTheSameAnswerOnAnyThread) {
  std::mt19937 random(2);
  const IntegerProgram problem = RandomProblem(40, random);
  const auto expected = SolveIntegerProgram(problem);
  ASSERT_TRUE(expected.ok());
  std::vector<std::vector<int>> chosen(4);
  std::vector<std::thread> threads;
  for (std::vector<int>& mine : chosen) {
    threads.emplace_back([&] { mine = SolveIntegerProgram(problem)->chosen; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& mine : chosen) EXPECT_EQ(mine, expected->chosen);
}

TEST(MultipleChoice, NothingToChooseIsFine) {
  EXPECT_THAT(SolveIntegerProgram({})->chosen, IsEmpty());
  EXPECT_THAT(SolveIntegerProgram({.groups = {{}, {{1, {{0, 2}}}}}, .capacities = {1}})->chosen,
              ElementsAre(-1, -1));
  EXPECT_THAT(SolveIntegerProgram({.groups = {{{1, {}}}}, .capacities = {}})->chosen, ElementsAre(0));
}

TEST(MultipleChoice, RefusesWhatIsNoProblem) {
  for (const IntegerProgram& problem : std::vector<IntegerProgram>{
           {.groups = {{{NAN, {}}}}, .capacities = {}},
           {.groups = {{{1, {{1, 1}}}}}, .capacities = {1}},
           {.groups = {{{1, {{-1, 1}}}}}, .capacities = {1}},
           {.groups = {{{1, {{0, INFINITY}}}}}, .capacities = {1}},
           {.groups = {}, .capacities = {INFINITY}},
       }) {
    EXPECT_EQ(SolveIntegerProgram(problem).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace adaptdl::simulator
