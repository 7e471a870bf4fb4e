#include "tests/integration/chaos/chaos_run.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace adaptdl::integration {
namespace {

constexpr int kNodes = 4;
constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr char kJob[] = "chaos";
// Sums of doubles in another order, over thousands of steps.
constexpr double kTolerance = 1e-9;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// A moment for something to get into the midst of what it does. Nothing depends on its length.
void Elapse(int milliseconds) { poll(nullptr, 0, milliseconds); }

// 0: it is gone.
pid_t ParentOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; file >> word;) {
    pid_t parent = 0;
    if (word == "PPid:" && file >> parent) return parent;
  }
  return 0;
}

}  // namespace

ChaosRun::ChaosRun()
    : seed_(FromEnvironment("ADAPTDL_CHAOS_SEED", 1)),
      random_(static_cast<unsigned>(seed_)),
      cluster_({.workers = kNodes, .allocator = false, .max_retry_backoff = absl::Seconds(1)}),
      record_folder_(cluster_.folder() + "/record"),
      undisturbed_folder_(cluster_.folder() + "/undisturbed") {
  std::filesystem::create_directories(record_folder_);
  std::filesystem::create_directories(undisturbed_folder_);
}

void ChaosRun::Submit() {
  v1::Job job = cluster_.CommandJob(kJob, Command(record_folder_, /*epochs=*/0));
  job.mutable_spec()->set_rescale(v1::RESCALE_MODE_IN_PLACE);
  job.mutable_spec()->set_max_restarts(1000);
  const auto submitted = cluster_.Submit(job);
  ASSERT_TRUE(submitted.ok()) << submitted.status();
}

void ChaosRun::Rescale() {
  std::vector<std::string> nodes;
  for (int i = 0; i < kNodes; ++i) nodes.push_back(absl::StrCat("node-", i));
  std::shuffle(nodes.begin(), nodes.end(), random_);
  nodes.resize(1 + Draw(kNodes));
  const absl::Status status = cluster_.Allocate(kJob, nodes);
  std::cout << "  to " << absl::StrJoin(nodes, " ") << (status.ok() ? "" : ": ")
            << (status.ok() ? "" : status.ToString()) << std::endl;
}

std::vector<pid_t> ChaosRun::Replicas() const {
  std::vector<pid_t> replicas = FindProcesses(record_folder_);
  const std::vector<pid_t> shims = FindProcesses(cluster_.folder() + "/node-");
  std::erase_if(replicas,
                [&](pid_t pid) { return std::find(shims.begin(), shims.end(), pid) != shims.end(); });
  return replicas;
}

pid_t ChaosRun::ReplicaOf(pid_t pid, const std::vector<pid_t>& replicas) {
  const pid_t parent = ParentOf(pid);
  return std::find(replicas.begin(), replicas.end(), parent) != replicas.end() ? parent : pid;
}

int64_t ChaosRun::GroupOf(pid_t pid) const {
  std::ifstream file(absl::StrCat(record_folder_, "/", pid, ".steps"));
  int64_t group = -1;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() >= 3 && words[0] == "begin") (void)absl::SimpleAtoi(words[2], &group);
  }
  return group;
}

void ChaosRun::KillReplica() {
  const std::vector<pid_t> replicas = Replicas();
  if (replicas.empty()) return;
  const pid_t victim = replicas[Draw(static_cast<int>(replicas.size()))];
  std::vector<int64_t> groups;
  for (const pid_t pid : replicas) groups.push_back(GroupOf(pid));
  const int64_t newest = *std::max_element(groups.begin(), groups.end());
  const bool last = newest >= 0 && GroupOf(ReplicaOf(victim, replicas)) == newest &&
                    std::count(groups.begin(), groups.end(), newest) == 1;
  std::cout << "  kill replica " << victim << " of " << replicas.size()
            << (last ? ", the last that trains" : "") << std::endl;
  ++kills_;
  if (last) ++kills_of_the_last_;
  kill(victim, SIGKILL);
}

void ChaosRun::KillWorker() {
  const int index = Draw(kNodes);
  std::cout << "  kill worker " << index << std::endl;
  ++kills_;
  cluster_.worker(index).Kill();
  Elapse(Draw(1000));
  cluster_.StartWorker(index);
}

void ChaosRun::KillSupervisor() {
  std::cout << "  kill supervisor" << std::endl;
  ++kills_;
  cluster_.supervisor().Kill();
  Elapse(Draw(1000));
  const absl::Status status = cluster_.StartSupervisor();
  ASSERT_TRUE(status.ok()) << status;
}

void ChaosRun::Kill() {
  const int kind = Draw(10);
  if (kind < 5) return KillReplica();
  if (kind < 8) return KillWorker();
  KillSupervisor();
}

void ChaosRun::ExpectProgress() {
  const auto now = cluster_.WaitForJob(kJob, StepsReached(0), kPatience);
  ASSERT_TRUE(now.ok()) << now.status() << "\n" << cluster_.Logs(kJob);
  const int64_t steps = now->status().progress().optimizer_steps();
  const auto later = cluster_.WaitForJob(kJob, StepsReached(steps + 10), kPatience);
  ASSERT_TRUE(later.ok()) << later.status() << "\n" << cluster_.Logs(kJob);
  rescales_ = later->status().rescales();
  std::cout << "step " << later->status().progress().optimizer_steps() << ", group "
            << later->status().group() << ", " << rescales_ << " re-scales, " << kills_ << " kills, "
            << later->status().restarts() << " restarts" << std::endl;
}

void ChaosRun::Finish() {
  std::ofstream(record_folder_ + "/finish").close();
  const auto finished = cluster_.WaitForJob(kJob, Finished, kPatience);
  ASSERT_TRUE(finished.ok()) << finished.status() << "\n" << cluster_.Logs(kJob);
  job_ = *finished;
  ASSERT_EQ(job_.status().phase(), v1::JOB_PHASE_SUCCEEDED) << job_.ShortDebugString() << cluster_.Logs(kJob);
}

void ChaosRun::ReadRecords() {
  const auto record = ReadTrainingRecord(record_folder_);
  ASSERT_TRUE(record.ok()) << record.status();
  record_ = *record;
  ASSERT_FALSE(record_.weights.empty());
  for (const std::vector<double>& weights : record_.weights) ASSERT_EQ(weights, record_.weights[0]);
  const absl::Status alike = AllAlike(record_);
  ASSERT_TRUE(alike.ok()) << alike;
  // Steps are repeated only when no replica that had taken them was left.
  EXPECT_LE(Rollbacks(record_), kills_of_the_last_);
}

void ChaosRun::Disturb(int rescales, int kills) {
  while (rescales_ < rescales || kills_ < kills) {
    // A burst of faults and changes that fall into each other, then a look whether training goes on.
    for (int event = 1 + Draw(3); event > 0; --event) {
      if (kills_ < kills && Draw(3) == 0) {
        ASSERT_NO_FATAL_FAILURE(Kill());
      } else {
        Rescale();
      }
      Elapse(Draw(2500));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  }
}

void ChaosRun::TrainDisturbed() {
  const int rescales = FromEnvironment("ADAPTDL_CHAOS_RESCALES", 10);
  const int kills = FromEnvironment("ADAPTDL_CHAOS_KILLS", 6);
  RecordProperty("seed", seed_);
  std::cout << "seed " << seed_ << ": " << rescales << " re-scales, " << kills << " kills" << std::endl;
  const absl::Status started = cluster_.Start();
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_NO_FATAL_FAILURE(Submit());
  Rescale();
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  ASSERT_NO_FATAL_FAILURE(Disturb(rescales, kills));
  ASSERT_NO_FATAL_FAILURE(Finish());
  ASSERT_NO_FATAL_FAILURE(ReadRecords());

  const auto steps = StepsThatCount(record_);
  ASSERT_TRUE(steps.ok()) << steps.status();
  steps_ = *steps;
  std::cout << steps_.size() << " steps, " << Rollbacks(record_) << " rollbacks, " << job_.status().restarts()
            << " restarts, " << kills_of_the_last_ << " kills of the only replica" << std::endl;
}

void ChaosRun::CompareWithUndisturbed() {
  const int epochs = static_cast<int>(record_.weights[0][0]);
  Process alone =
      Process::Start(Command(undisturbed_folder_, epochs), cluster_.folder() + "/undisturbed.log");
  ASSERT_EQ(alone.Wait(absl::Minutes(10)), 0);
  const auto undisturbed = ReadTrainingRecord(undisturbed_folder_);
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();

  const auto expected = StepsThatCount(*undisturbed);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(steps_.size(), expected->size());
  for (const auto& [step, samples] : *expected) ASSERT_EQ(steps_.at(step), samples) << "step " << step;

  const std::vector<double>& weights = undisturbed->weights.at(0);
  for (const std::vector<double>& others : record_.weights) {
    ASSERT_EQ(others.size(), weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_NEAR(others[i], weights[i], kTolerance * std::max(1.0, std::abs(weights[i]))) << "number " << i;
    }
  }
}

}  // namespace adaptdl::integration
