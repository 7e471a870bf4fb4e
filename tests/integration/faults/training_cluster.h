// A cluster that trains one chaos_job in place, and what its record must say: the base of tests that break
// something and look whether all steps were taken once.

#ifndef ADAPTDL_TESTS_INTEGRATION_FAULTS_TRAINING_CLUSTER_H_
#define ADAPTDL_TESTS_INTEGRATION_FAULTS_TRAINING_CLUSTER_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "tests/integration/chaos/training_record.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {

class TrainingCluster {
 public:
  // Shorter than any of the library's own timeouts of collectives.
  static constexpr absl::Duration kPatience = absl::Minutes(2);

  // What docs/rescale.md promises, on an idle machine and with the periods of this cluster: its workers'
  // heartbeats come each half second and its replicas' each third, but nobody is silent before 5 s; the
  // patience is 10 s.
  static constexpr absl::Duration kSilence = absl::Seconds(8);
  static constexpr absl::Duration kHang = absl::Seconds(15);

  explicit TrainingCluster(TestClusterOptions options) : cluster_(std::move(options)) {
    std::filesystem::create_directories(folder());
  }

  // Trains by another program than chaos_job, which notes the same, in folder().
  void SetCommand(std::vector<std::string> command) { command_ = std::move(command); }
  // How its replicas are changed. Default: in place.
  void SetMode(v1::RescaleMode mode) { mode_ = mode; }
  // How often its replicas may fail by themselves. Default: as often as any job's.
  void SetMaxRestarts(int failures) { max_restarts_ = failures; }

  TestCluster& cluster() { return cluster_; }
  std::string folder() const { return cluster_.folder() + "/record"; }

  // Trains on all these nodes.
  void Start(const std::vector<std::string>& nodes) {
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
    v1::Job job = cluster_.CommandJob("job", command_);
    job.mutable_spec()->set_rescale(mode_);
    if (max_restarts_) job.mutable_spec()->set_max_restarts(*max_restarts_);
    ASSERT_TRUE(cluster_.Submit(job).ok());
    Rescale(nodes);
  }

  // How long this machine, with all that it does beside, took for the last change of the replica set.
  absl::Duration usual() const { return usual_; }

  // `took` is no more than what is promised, and some changes as this machine makes them: however loaded it
  // is, what is waited for by the clock is not longer, and what is worked on takes as long as such work
  // takes.
  static void ExpectWithin(absl::Duration promised, absl::Duration usual, absl::Duration took,
                           const std::string& what) {
    const absl::Duration most = promised + kChanges * usual;
    std::cout << what << ": the others went on after " << absl::FormatDuration(took) << ", at most "
              << absl::FormatDuration(promised) << " and " << kChanges << " times the "
              << absl::FormatDuration(usual) << " of a planned change" << std::endl;
    EXPECT_LE(took, most) << what;
  }

  void Rescale(const std::vector<std::string>& nodes) {
    const absl::Time start = SteadyNow();
    const absl::Status allocated = cluster_.Allocate("job", nodes);
    ASSERT_TRUE(allocated.ok()) << allocated;
    AwaitTrainingOn(static_cast<int>(nodes.size()));
    usual_ = SteadyNow() - start;
  }

  // Until the job takes steps with so many replicas.
  void AwaitTrainingOn(int replicas) {
    const auto runs = cluster_.WaitForJob("job", RunningWith(replicas), kPatience);
    ASSERT_TRUE(runs.ok()) << runs.status() << "\n" << cluster_.Logs("job");
    group_ = runs->status().group();
    int64_t steps = runs->status().progress().optimizer_steps();
    const absl::Time end = SteadyNow() + kPatience;
    do {
      // What was known of the steps is some time old: these may all be of the group before.
      steps += 20;
      const auto trains = cluster_.WaitForJob("job", StepsReached(steps), kPatience);
      ASSERT_TRUE(trains.ok()) << trains.status() << "\n" << cluster_.Logs("job");
      ASSERT_LT(SteadyNow(), end) << "not all replicas train";
    } while (Replicas().size() < static_cast<size_t>(replicas));
  }
  int64_t group() const { return group_; }

  // Lets the job end, and looks at all that it did: nothing was lost. So many steps may have been taken more than
  // once: by a replica alone that was given up, and by the others later, or because the job went on from a
  // checkpoint. `failures`: replicas that failed by themselves; `restarts`: of the job, in order.
  void ExpectOneTraining(int64_t most_repeated = 0, int failures = 0, int restarts = 0) {
    std::ofstream(folder() + "/finish").close();
    const auto job = cluster_.WaitForJob("job", Finished, kPatience);
    ASSERT_TRUE(job.ok()) << job.status() << "\n" << cluster_.Logs("job");
    EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << job->status().ShortDebugString();
    EXPECT_EQ(job->status().restarts(), restarts) << cluster_.Logs("job");
    EXPECT_EQ(job->status().failures(), failures) << cluster_.Logs("job");
    const auto record = ReadTrainingRecord(folder());
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_LE(Rollbacks(*record), most_repeated);
    const auto repeated = std::count_if(record->taken.begin(), record->taken.end(),
                                        [](const auto& taken) { return taken.second.size() > 1; });
    EXPECT_LE(repeated, most_repeated);
    const absl::Status alike = AllAlike(*record);
    EXPECT_TRUE(alike.ok()) << alike;
    const auto steps = StepsThatCount(*record);
    ASSERT_TRUE(steps.ok()) << steps.status();
    ASSERT_FALSE(record->weights.empty());
    EXPECT_EQ(job->status().progress().optimizer_steps(), static_cast<int64_t>(steps->size()));
    ExpectEachSampleOncePerEpoch(*steps, static_cast<size_t>(record->weights[0][0]));
  }

  // Processes that train, which note it: a shim's command line holds its state folder as well, and those that read
  // data for a replica have its command line.
  std::vector<pid_t> Replicas() const {
    std::vector<pid_t> replicas = FindProcesses(folder());
    const std::vector<pid_t> shims = FindProcesses(cluster_.folder() + "/node-");
    std::erase_if(replicas, [&](pid_t pid) {
      return std::find(shims.begin(), shims.end(), pid) != shims.end() ||
             !std::filesystem::exists(absl::StrCat(folder(), "/", pid, ".steps"));
    });
    return replicas;
  }

 private:
  // Epochs may differ in their number of steps, and no step has samples of two.
  static void ExpectEachSampleOncePerEpoch(const std::map<int64_t, Samples>& steps, size_t epochs) {
    size_t in_all = 0;
    for (const auto& [step, samples] : steps) in_all += samples.size();
    ASSERT_EQ(in_all % epochs, 0u);
    Samples all(in_all / epochs);
    std::iota(all.begin(), all.end(), 0);
    Samples epoch;
    for (const auto& [step, samples] : steps) {
      epoch.insert(epoch.end(), samples.begin(), samples.end());
      if (epoch.size() < all.size()) continue;
      std::sort(epoch.begin(), epoch.end());
      ASSERT_EQ(epoch, all) << "up to step " << step;
      epoch.clear();
    }
  }

  TestCluster cluster_;
  v1::RescaleMode mode_ = v1::RESCALE_MODE_IN_PLACE;
  std::optional<int> max_restarts_;
  std::vector<std::string> command_ = {absl::StrCat(ADAPTDL_BINARY_DIR, "/tests/chaos_job"), folder(),
                                       "fixed"};
  // With the start of the processes, and some steps.
  static constexpr int kChanges = 2;
  absl::Duration usual_;
  int64_t group_ = 0;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_FAULTS_TRAINING_CLUSTER_H_
