// The reference's own transitions (controller.json), where they are not among its known defects.

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/jobs/state_machine.h"
#include "nlohmann/json.hpp"
#include "tests/libs/jobs/replicas.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::jobs {
namespace {

using nlohmann::json;

// Where we differ on purpose.
const std::map<std::string, std::string>& Differences() {
  static const auto* differences = new std::map<std::string, std::string>{
      {"starting no pods", "we launch with the step to STARTING; a group without replicas is a lost one"},
      {"starting no pods second group", "the same"},
      {"pending with allocation but old pods", "they are stopped as strays; the phase is the same"},
      {"starting allocation changed, all scheduled", "we need not wait for RUNNING to stop"},
      {"running lost ONE pod (deleted externally)", "defect 25"},
      {"running all pods exited 143, allocation unchanged", "defect 25"},
  };
  return *differences;
}

Phase ParsePhase(const std::string& name) {
  if (name == "Starting") return Phase::kStarting;
  if (name == "Running") return Phase::kRunning;
  if (name == "Stopping") return Phase::kStopping;
  if (name == "Succeeded") return Phase::kSucceeded;
  if (name == "Failed") return Phase::kFailed;
  return Phase::kPending;
}

Replica ParsePod(const json& pod) {
  const int rank = pod["rank"];
  Replica replica = Running(rank);
  replica.node = pod["node"];
  if (!pod["exit_code"].is_null()) {
    replica.state = ReplicaState::kExited;
    replica.exit_code = pod["exit_code"];
  } else if (!pod["ready"].get<bool>()) {
    replica.state = ReplicaState::kLaunching;
  }
  return replica;
}

TEST(ReferenceVectorsTest, TransitionsAgreeWhereTheReferenceIsRight) {
  const json vectors = ReadVectors("controller.json");
  int compared = 0;
  for (const json& vector : vectors["transitions"]) {
    const std::string name = vector["name"];
    if (Differences().count(name) > 0) continue;
    const json& before = vector["status_before"];
    Job job;
    job.preemptible = vector["preemptible"];
    job.phase = ParsePhase(before.value("phase", "Pending"));
    job.group = 2;
    // As there, where nothing is tried again and all changes are restarts.
    job.max_restarts = 0;
    std::vector<Replica> replicas;
    for (const json& pod : vector["pods"]) replicas.push_back(ParsePod(pod));
    Desired desired;
    if (before.contains("allocation")) desired.nodes = before["allocation"].get<std::vector<std::string>>();
    // The reference keeps no record of where a group was launched: it is where its pods are.
    if (job.phase == Phase::kStarting || job.phase == Phase::kRunning || job.phase == Phase::kStopping) {
      for (const Replica& replica : replicas) job.allocation.push_back(replica.node);
      job.allocation.resize(before.value("replicas", 0), "n1");
      if (replicas.empty()) replicas = {Lost(0), Lost(1)};
    }
    Outcome outcome = Advance(job, replicas, desired, absl::FromUnixSeconds(1), Policy());
    const Phase expected =
        vector["status_patch"].contains("phase") ? ParsePhase(vector["status_patch"]["phase"]) : job.phase;
    // The reference gives a job up at once; ours first sees its other replicas end.
    if (expected == Phase::kFailed && outcome.job.phase == Phase::kStopping) {
      for (Replica& replica : replicas) replica = Exited(replica.rank, 143);
      outcome = Advance(outcome.job, replicas, desired, absl::FromUnixSeconds(2), Policy());
    }
    EXPECT_EQ(PhaseName(outcome.job.phase), PhaseName(expected)) << name;
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

TEST(ReferenceVectorsTest, RestartIsNeededForTheSameAllocations) {
  const json vectors = ReadVectors("controller.json");
  for (const json& vector : vectors["detect_restart"]) {
    // Incomplete groups are restarted whatever the allocation (defect 25).
    if (vector["pods"].size() != 2) continue;
    Job job;
    job.phase = Phase::kRunning;
    job.group = 2;
    std::vector<Replica> replicas;
    for (const json& pod : vector["pods"]) {
      replicas.push_back(Running(std::stoi(pod["rank"].get<std::string>())));
      job.allocation.push_back(pod["node"]);
    }
    const Desired desired = Wants(vector["allocation"].get<std::vector<std::string>>());
    const Outcome outcome = Advance(job, replicas, desired, absl::FromUnixSeconds(1), Policy());
    EXPECT_EQ(outcome.job.phase == Phase::kStopping, vector["detect_restart"].get<bool>()) << vector;
  }
}

}  // namespace
}  // namespace adaptdl::jobs
