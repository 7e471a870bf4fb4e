// Replays what the published policy computes, with the random numbers that were recorded there.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "simulator/policies/pollux/objectives.h"
#include "simulator/policies/pollux/operators.h"
#include "simulator/policies/pollux/pollux_policy.h"
#include "simulator/policies/pollux/problem.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::simulator::pollux {
namespace {

using nlohmann::json;

State Flat(const json& rows) {
  State state;
  for (const json& row : rows) {
    for (const json& cell : row) state.push_back(cell.get<Cell>());
  }
  return state;
}

template <typename T>
std::vector<T> FlatNumbers(const json& rows) {
  std::vector<T> numbers;
  for (const json& row : rows) {
    for (const json& cell : row) numbers.push_back(cell.get<T>());
  }
  return numbers;
}

// The scenario, without speed-ups.
Problem ReadProblem(const json& c) {
  std::map<std::string, json> capacity;
  std::vector<std::string> names;
  for (const json& node : c["nodes"]) capacity[node["key"]] = node["resources"];
  for (const auto& [name, amount] : c["jobs"][0]["resources"].items()) names.push_back(name);
  Problem problem;
  problem.jobs = static_cast<int>(c["jobs"].size());
  problem.nodes = static_cast<int>(c["node_order"].size());
  problem.resources = static_cast<int>(names.size());
  for (const json& key : c["node_order"]) {
    const auto found = capacity.find(key.get<std::string>());
    const json& amounts = found == capacity.end() ? c["template"] : found->second;
    for (const std::string& name : names) problem.capacity.push_back(amounts.value(name, int64_t{0}));
  }
  for (const json& job : c["jobs"]) {
    for (const std::string& name : names) problem.request.push_back(job["resources"].value(name, int64_t{0}));
    problem.min_replicas.push_back(job["min_replicas"]);
    problem.max_replicas.push_back(job["max_replicas"]);
    problem.pinned.push_back(0);
  }
  for (const int job : c["pinned"]) problem.pinned[job] = 1;
  problem.base = Flat(c["base_state"]);
  problem.one_node.assign(problem.jobs, std::vector<double>(200, NAN));
  problem.several_nodes = problem.one_node;
  for (int job = 0; job < problem.jobs; ++job) problem.one_node[job][0] = problem.several_nodes[job][0] = 0;
  Finish(problem);
  return problem;
}

// Enters the speed-ups that were recorded for these states.
void EnterSpeedups(const json& states, const json& speedups, Problem& problem) {
  for (size_t i = 0; i < states.size(); ++i) {
    const State state = Flat(states[i]);
    for (int job = 0; job < problem.jobs; ++job) {
      const Size size = SizeOf(problem.row(state, job));
      auto& table = size.nodes > 1 ? problem.several_nodes : problem.one_node;
      table[job][size.replicas] = speedups[i][job];
    }
  }
}

class OperatorVectors : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const json vectors = ReadVectors("pollux_ops.json");
    case_ = vectors["cases"][GetParam()];
    problem_ = ReadProblem(case_);
  }

  json case_;
  Problem problem_;
};

TEST_P(OperatorVectors, DerivedQuantities) {
  for (int job = 0; job < problem_.jobs; ++job) {
    EXPECT_DOUBLE_EQ(problem_.dominant_share[job], case_["dominant_share"][job].get<double>());
  }
  EXPECT_EQ(problem_.most, Flat(case_["max_replicas"]));
  EXPECT_EQ(problem_.least, Flat(case_["min_replicas"]));
}

TEST_P(OperatorVectors, Repair) {
  const json& repair = case_["repair"];
  for (size_t i = 0; i < repair["input"].size(); ++i) {
    const std::vector<double> keys = FlatNumbers<double>(repair["random_draws"][0]["value"][i]);
    State state = Flat(repair["input"][i]);
    Repair(
        problem_, {.as_published = true},
        [&](int job) { return absl::Span<const double>(keys).subspan(problem_.at(job, 0), problem_.nodes); },
        state);
    EXPECT_EQ(state, Flat(repair["output"][i])) << i;
  }
}

TEST_P(OperatorVectors, Evaluate) {
  const json& evaluate = case_["evaluate"];
  EnterSpeedups(evaluate["states"], evaluate["speedups"], problem_);
  for (size_t i = 0; i < evaluate["states"].size(); ++i) {
    const State state = Flat(evaluate["states"][i]);
    const Objectives value = EvaluateMaster(problem_, state);
    EXPECT_NEAR(value.benefit, evaluate["F"][i][0].get<double>(), 1e-12);
    EXPECT_EQ(value.cost, evaluate["F"][i][1].get<double>());
    EXPECT_NEAR(Utility(problem_, state), evaluate["utilities"][i].get<double>(), 1e-12);
    EXPECT_EQ(ClusterSize(problem_, state), evaluate["cluster_sizes"][i].get<int>());
  }
}

TEST_P(OperatorVectors, CrossOver) {
  const json& cross = case_["crossover"];
  const json& cuts = cross["random_draws"][0]["value"];
  const json& draws = cross["random_draws"][1]["value"];
  for (size_t i = 0; i < cuts.size(); ++i) {
    State a = cross["parents"][0][i].get<State>();
    State b = cross["parents"][1][i].get<State>();
    CrossOverMaster(problem_, cuts[i][0], draws[0][i], draws[1][i], a, b);
    EXPECT_EQ(a, cross["output"][0][i].get<State>()) << i;
    EXPECT_EQ(b, cross["output"][1][i].get<State>()) << i;
  }
}

TEST_P(OperatorVectors, Mutation) {
  const json& mutation = case_["mutation"];
  for (size_t i = 0; i < mutation["input"].size(); ++i) {
    const std::vector<double> uniform = FlatNumbers<double>(mutation["random_draws"][0]["value"][i]);
    const std::vector<int> values = FlatNumbers<int>(mutation["random_draws"][1]["value"][i]);
    State state = Flat(mutation["input"][i]);
    MutateMaster(
        problem_, uniform, [&](size_t cell, int, int) { return values[cell]; }, /*force_least=*/true, state);
    EXPECT_EQ(state, Flat(mutation["output"][i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, OperatorVectors, testing::Range(0, 3));

TEST(SelectionVectors, DesiredNodesAndTheCandidateTaken) {
  const json vectors = ReadVectors("pollux_select.json");
  for (const json& c : vectors["select"]) {
    const int nodes = c["num_nodes"];
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < c["values"].size(); ++i) {
      candidates.push_back({{c["values"][i][0], c["values"][i][1]}, c["utilities"][i]});
    }
    const auto index = [](const json& value) {
      return value.is_null() ? std::nullopt : std::optional<int>(value.get<int>());
    };
    EXPECT_EQ(BestWithin(candidates, nodes), index(c["select_result"])) << c;
    const int desired = DesiredNodes(candidates, nodes);
    EXPECT_EQ(desired, c["desired_nodes"].get<int>()) << c;
    EXPECT_EQ(BestWithin(candidates, std::min(nodes, desired)), index(c["final_index"])) << c;
  }
}

TEST(SelectionVectors, WarmStartForOtherJobsAndNodes) {
  const json vectors = ReadVectors("pollux_select.json");
  const json& adapt = vectors["adapt_prev"];
  Population population{adapt["prev_jobs"], adapt["prev_nodes"], {}};
  for (const json& state : adapt["prev_states"]) population.states.push_back(Flat(state));
  for (const json& c : adapt["cases"]) {
    // The recorded rows are in order of key.
    std::vector<std::string> jobs = c["jobs"];
    std::sort(jobs.begin(), jobs.end());
    const std::vector<std::string> nodes = c["nodes"];
    const std::vector<State> states = Remap(population, jobs, nodes, 2 * static_cast<int>(nodes.size()));
    ASSERT_EQ(states.size(), c["states"].size());
    for (size_t i = 0; i < states.size(); ++i) EXPECT_EQ(states[i], Flat(c["states"][i])) << c;
  }
}

TEST(OsdiVectors, Evaluate) {
  const json vectors = ReadVectors("pollux_osdi_evaluate.json");
  for (const json& c : vectors["cases"]) {
    Problem problem;
    problem.jobs = 4;
    problem.nodes = 3;
    problem.resources = 1;
    problem.capacity = {4, 4, 4};
    problem.request = {1, 1, 1, 1};
    problem.pinned = {0, 0, 0, 0};
    problem.min_replicas = {0, 0, 0, 0};
    problem.max_replicas = {12, 12, 12, 12};
    problem.base = Flat(vectors["base_state"]);
    problem.one_node.assign(4, std::vector<double>(20, NAN));
    problem.several_nodes = problem.one_node;
    for (int job = 0; job < 4; ++job) {
      problem.one_node[job][0] = 0;
      const double age = vectors["age"][job];
      const double restarts = vectors["num_restarts"][job];
      problem.restart_factor.push_back(std::max(age - 30 * restarts, 0.0) / (age + 30));
    }
    Finish(problem);
    EnterSpeedups(c["states"], c["speedups"], problem);
    for (size_t i = 0; i < c["states"].size(); ++i) {
      const State state = Flat(c["states"][i]);
      const Objectives value = EvaluateOsdi(problem, -1, state);
      EXPECT_NEAR(value.benefit, c["F"][i][0].get<double>(), 1e-12) << i;
      EXPECT_NEAR(value.cost, c["F"][i][1].get<double>(), 1e-12) << i;
      EXPECT_NEAR(Utility(problem, state), c["utilities"][i].get<double>(), 1e-12) << i;
    }
  }
}

}  // namespace
}  // namespace adaptdl::simulator::pollux
