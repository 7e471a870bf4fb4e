// What AdaptDL's controller makes of ended pods (controller.json), and what ours makes of them through the state machine:
// a job that is not started again after any failure of its own.

#include <cctype>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/jobs/state_machine.h"
#include "libs/kubejobs/pod_state.h"
#include "tests/libs/jobs/replicas.h"
#include "tests/libs/kubejobs/pods.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::kubejobs {
namespace {

using kube::Json;

constexpr char kRetried[] =
    "not preemptible: AdaptDL gives the job up; that its pod was taken is no fault of its own";

// Where we differ on purpose, by the name and whether the job is preemptible.
const std::map<std::pair<std::string, bool>, std::string>& Differences() {
  static const auto* differences = new std::map<std::pair<std::string, bool>, std::string>{
      {{"exit 143", true},
       "nobody had deleted it: a program that stops by itself would be started again for ever"},
      {{"OutOfcpu", true}, "AdaptDL knows \"Outof\" alone, as old kubelets wrote it"},
      {{"OutOfcpu", false}, "the same"},
      {{"Evicted by kubelet (no terminated state)", true}, "the node's need is no fault of the job"},
      {{"Evicted by kubelet (no terminated state)", false}, "the same"},
      {{"Unknown phase, no deletion ts", true},
       "what the node can't tell now is not lost; its lease decides"},
      {{"Unknown phase, no deletion ts", false}, "the same"},
      {{"Unknown with deletion ts", false}, "the same"},
      {{"exit 137 with deletion ts", false}, kRetried},
  };
  return *differences;
}

Json Unknown(Json pod) {
  pod["status"]["phase"] = "Unknown";
  return pod;
}

// The pods of the cases, by their names. One more runs where the case does not say otherwise.
std::map<std::string, std::vector<Json>> Cases() {
  const Json runs = RunningPod();
  return {{"none", {}},
          {"all succeeded", {EndedPod(0), EndedPod(0)}},
          {"one of two succeeded, other running", {EndedPod(0), runs}},
          {"one succeeded pod only, replicas=2", {EndedPod(0)}},
          {"exit 143", {EndedPod(143), runs}},
          {"exit 1", {EndedPod(1), runs}},
          {"exit 137 no deletion ts", {EndedPod(137), runs}},
          {"exit 137 with deletion ts", {Deleted(EndedPod(137)), runs}},
          {"UnexpectedAdmissionError", {FailedPod("UnexpectedAdmissionError"), runs}},
          {"OutOfcpu", {FailedPod("OutOfcpu"), runs}},
          {"Outofpods", {FailedPod("Outofpods"), runs}},
          {"Evicted by kubelet (no terminated state)",
           {FailedPod("Evicted", "The node was low on resource: memory."), runs}},
          {"Unknown phase, no deletion ts", {Unknown(runs), runs}},
          {"Unknown with deletion ts", {Deleted(Unknown(runs)), runs}}};
}

jobs::Cause CauseOf(v1::EndCause cause) {
  if (cause == v1::END_CAUSE_NODE) return jobs::Cause::kNode;
  if (cause == v1::END_CAUSE_PREEMPTION) return jobs::Cause::kPreemption;
  return cause == v1::END_CAUSE_JOB ? jobs::Cause::kJob : jobs::Cause::kUnknown;
}

jobs::Replica Observe(const Json& pod, int rank) {
  const v1::Replica seen = ReportOf(pod)->replica();
  jobs::Replica replica = jobs::Running(rank);
  replica.cause = CauseOf(seen.end_cause());
  replica.message = seen.message();
  if (seen.state() == v1::REPLICA_STATE_EXITED) replica.state = jobs::ReplicaState::kExited;
  replica.exit_code = seen.exit_code();
  replica.signal = seen.signal();
  if (seen.state() != v1::REPLICA_STATE_LOST) return replica;
  // None of these pods came to run.
  replica.state = jobs::ReplicaState::kLost;
  replica.loss = jobs::LossCause::kNotStarted;
  return replica;
}

// The phase of the job when all has come of it that will, without anything new: "" if it goes on in some way.
std::string Completion(const std::vector<Json>& pods, bool preemptible) {
  jobs::Job job;
  job.preemptible = preemptible;
  job.max_restarts = 0;
  job.phase = jobs::Phase::kRunning;
  job.group = 2;
  job.allocation = {"n1", "n2"};
  std::vector<jobs::Replica> replicas;
  for (size_t rank = 0; rank < pods.size(); ++rank)
    replicas.push_back(Observe(pods[rank], static_cast<int>(rank)));
  const jobs::Desired desired = jobs::Wants(job.allocation);
  for (int step = 0; step < 3 && !jobs::IsTerminal(job.phase); ++step) {
    const jobs::Outcome outcome =
        jobs::Advance(job, replicas, desired, absl::FromUnixSeconds(10), jobs::Policy());
    job = outcome.job;
    if (outcome.launch.has_value()) break;
    for (jobs::Replica& replica : replicas) {
      for (const jobs::StopOrder& stop : outcome.stops) {
        if (stop.replica_id == replica.id) replica = jobs::Asked(jobs::Exited(replica.rank, 143));
      }
    }
  }
  return jobs::IsTerminal(job.phase) ? std::string(jobs::PhaseName(job.phase)) : "";
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

TEST(CompletionTest, PodsEndJobsAsAdaptdlSaysTheyDo) {
  const std::map<std::string, std::vector<Json>> cases = Cases();
  const Json vectors = ReadVectors("controller.json")["detect_completion"];
  int differ = 0;
  for (const Json& vector : vectors) {
    const std::string name = vector["name"];
    const bool preemptible = vector["preemptible"];
    const auto found = cases.find(name);
    ASSERT_NE(found, cases.end()) << name;
    const std::string ours = Upper(Completion(found->second, preemptible));
    const std::string theirs = Upper(vector["result"].value("phase", ""));
    const bool listed = Differences().count({name, preemptible}) > 0;
    EXPECT_EQ(ours != theirs, listed) << name << (preemptible ? "" : ", not preemptible") << ": " << ours;
    differ += listed ? 1 : 0;
  }
  EXPECT_EQ(differ, static_cast<int>(Differences().size())) << "each difference is of a case that there is";
}

}  // namespace
}  // namespace adaptdl::kubejobs
