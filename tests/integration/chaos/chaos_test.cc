// A job that is re-scaled in place all the time while its replicas, workers and supervisor are killed at
// random moments trains as one that nothing happens to: each step once, with the same samples, to the same
// weights. With batch sizes that depend on the replicas, or are chosen while it trains, there is nothing to
// compare it with; but all replicas have the same parameters after each step, bit for bit, and each sample is
// used once in a pass.
//
// ADAPTDL_CHAOS_RESCALES, ADAPTDL_CHAOS_KILLS and ADAPTDL_CHAOS_SEED set the number of re-scales and kills
// and what is drawn; scripts/test-chaos.sh runs it at full length.

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/integration/chaos/training_record.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

constexpr int kNodes = 4;
constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr char kJob[] = "chaos";
// Sums of doubles in another order, over thousands of steps.
constexpr double kTolerance = 1e-9;
// Of the job.
constexpr size_t kSamples = 120;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// A moment for something to get into the midst of what it does. Nothing depends on its length.
void Elapse(int milliseconds) { poll(nullptr, 0, milliseconds); }

class ChaosTest : public testing::TestWithParam<std::string> {
 protected:
  ChaosTest() {
    std::filesystem::create_directories(record_folder_);
    std::filesystem::create_directories(undisturbed_folder_);
  }

  int Draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  void Submit() {
    v1::Job job = cluster_.CommandJob(kJob, {Program(), record_folder_, GetParam()});
    job.mutable_spec()->set_rescale(v1::RESCALE_MODE_IN_PLACE);
    job.mutable_spec()->set_max_restarts(1000);
    const auto submitted = cluster_.Submit(job);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
  }

  // Other nodes than before, of those that are up. Refused when one of them is lost meanwhile.
  void Rescale() {
    std::vector<std::string> nodes;
    for (int i = 0; i < kNodes; ++i) nodes.push_back(absl::StrCat("node-", i));
    std::shuffle(nodes.begin(), nodes.end(), random_);
    nodes.resize(1 + Draw(kNodes));
    const absl::Status status = cluster_.Allocate(kJob, nodes);
    std::cout << "  to " << absl::StrJoin(nodes, " ") << (status.ok() ? "" : ": ")
              << (status.ok() ? "" : status.ToString()) << std::endl;
  }

  // Replicas' processes: a shim's command line holds its state folder as well.
  std::vector<pid_t> Replicas() const {
    std::vector<pid_t> replicas = FindProcesses(record_folder_);
    const std::vector<pid_t> shims = FindProcesses(cluster_.folder() + "/node-");
    std::erase_if(replicas,
                  [&](pid_t pid) { return std::find(shims.begin(), shims.end(), pid) != shims.end(); });
    return replicas;
  }

  // Whether it has begun a step. Others are on their way to the job, and have no state.
  bool Trains(pid_t pid) const {
    std::error_code error;
    return std::filesystem::file_size(absl::StrCat(record_folder_, "/", pid, ".steps"), error) > 0 && !error;
  }

  void KillReplica() {
    const std::vector<pid_t> replicas = Replicas();
    if (replicas.empty()) return;
    const pid_t victim = replicas[Draw(static_cast<int>(replicas.size()))];
    const auto training =
        std::count_if(replicas.begin(), replicas.end(), [&](pid_t pid) { return Trains(pid); });
    const bool last = training == 1 && Trains(victim);
    std::cout << "  kill replica " << victim << " of " << replicas.size()
              << (last ? ", the last that trains" : "") << std::endl;
    ++kills_;
    if (last) ++kills_of_the_last_;
    kill(victim, SIGKILL);
  }

  void KillWorker() {
    const int index = Draw(kNodes);
    std::cout << "  kill worker " << index << std::endl;
    ++kills_;
    cluster_.worker(index).Kill();
    Elapse(Draw(1000));
    cluster_.StartWorker(index);
  }

  void KillSupervisor() {
    std::cout << "  kill supervisor" << std::endl;
    ++kills_;
    cluster_.supervisor().Kill();
    Elapse(Draw(1000));
    const absl::Status status = cluster_.StartSupervisor();
    ASSERT_TRUE(status.ok()) << status;
  }

  // Half of them replicas.
  void Kill() {
    const int kind = Draw(10);
    if (kind < 5) return KillReplica();
    if (kind < 8) return KillWorker();
    KillSupervisor();
  }

  void ExpectProgress() {
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

  void Finish() {
    std::ofstream(record_folder_ + "/finish").close();
    const auto finished = cluster_.WaitForJob(kJob, Finished, kPatience);
    ASSERT_TRUE(finished.ok()) << finished.status() << "\n" << cluster_.Logs(kJob);
    job_ = *finished;
    ASSERT_EQ(job_.status().phase(), v1::JOB_PHASE_SUCCEEDED)
        << job_.ShortDebugString() << cluster_.Logs(kJob);
  }

  void ReadRecords() {
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

  // What a run of one process alone notes.
  void TrainUndisturbed() {
    const int epochs = static_cast<int>(record_.weights[0][0]);
    Process alone = Process::Start({Program(), undisturbed_folder_, GetParam(), absl::StrCat(epochs)},
                                   cluster_.folder() + "/undisturbed.log");
    ASSERT_EQ(alone.Wait(absl::Minutes(10)), 0);
    const auto undisturbed = ReadTrainingRecord(undisturbed_folder_);
    ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
    undisturbed_ = *undisturbed;
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

  static std::string Program() { return absl::StrCat(ADAPTDL_BINARY_DIR, "/tests/chaos_job"); }

  const int seed_ = FromEnvironment("ADAPTDL_CHAOS_SEED", 1);
  std::mt19937 random_{static_cast<unsigned>(seed_)};
  TestCluster cluster_{{.workers = kNodes, .allocator = false, .max_retry_backoff = absl::Seconds(1)}};
  const std::string record_folder_ = cluster_.folder() + "/record";
  const std::string undisturbed_folder_ = cluster_.folder() + "/undisturbed";
  int rescales_ = 0;
  int kills_ = 0;
  int kills_of_the_last_ = 0;
  v1::Job job_;
  TrainingRecord record_;
  TrainingRecord undisturbed_;
};

INSTANTIATE_TEST_SUITE_P(BatchSizes, ChaosTest, testing::Values("fixed", "band", "goodput"),
                         [](const auto& info) { return info.param; });

TEST_P(ChaosTest, TrainsAsIfNothingHappened) {
  const int rescales = FromEnvironment("ADAPTDL_CHAOS_RESCALES", 10);
  const int kills = FromEnvironment("ADAPTDL_CHAOS_KILLS", 6);
  RecordProperty("seed", seed_);
  std::cout << "seed " << seed_ << ": " << rescales << " re-scales, " << kills << " kills" << std::endl;
  const absl::Status started = cluster_.Start();
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_NO_FATAL_FAILURE(Submit());
  Rescale();
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
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
  ASSERT_NO_FATAL_FAILURE(Finish());
  ASSERT_NO_FATAL_FAILURE(ReadRecords());

  const auto steps = StepsThatCount(record_);
  ASSERT_TRUE(steps.ok()) << steps.status();
  std::cout << steps->size() << " steps, " << Rollbacks(record_) << " rollbacks, " << job_.status().restarts()
            << " restarts, " << kills_of_the_last_ << " kills of the only replica" << std::endl;
  if (GetParam() != "fixed") return ExpectEachSampleOncePerPass(*steps);

  ASSERT_NO_FATAL_FAILURE(TrainUndisturbed());
  const auto expected = StepsThatCount(undisturbed_);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(steps->size(), expected->size());
  for (const auto& [step, samples] : *expected) ASSERT_EQ(steps->at(step), samples) << "step " << step;

  const std::vector<double>& weights = undisturbed_.weights.at(0);
  for (const std::vector<double>& others : record_.weights) {
    ASSERT_EQ(others.size(), weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_NEAR(others[i], weights[i], kTolerance * std::max(1.0, std::abs(weights[i]))) << "number " << i;
    }
  }
}

}  // namespace
}  // namespace adaptdl::integration
