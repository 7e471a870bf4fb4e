// A job that is re-scaled in place all the time while its replicas, workers and supervisor are killed at random
// moments, on a cluster of its own: the base of tests that say what the job is, and what its record must say.
//
// ADAPTDL_CHAOS_RESCALES, ADAPTDL_CHAOS_KILLS and ADAPTDL_CHAOS_SEED set the number of re-scales and kills and
// what is drawn. Thread-safety: one thread at a time.

#ifndef ADAPTDL_TESTS_INTEGRATION_CHAOS_CHAOS_RUN_H_
#define ADAPTDL_TESTS_INTEGRATION_CHAOS_CHAOS_RUN_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/chaos/training_record.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {

class ChaosRun : public testing::Test {
 protected:
  ChaosRun();

  // What the job runs: notes what it does in `folder`, as chaos_job does, until it is told to finish; or for
  // `epochs`, if they are not 0.
  virtual std::vector<std::string> Command(const std::string& folder, int epochs) const = 0;

  // Trains on the cluster while it is disturbed, to the job's end, and reads what its processes noted: all of
  // them had the same parameters, and no step was taken again without need.
  void TrainDisturbed();
  // The samples of each step that counts.
  const std::map<int64_t, Samples>& steps() const { return steps_; }

  // Trains alone as long as the job did, and compares: the same samples in each step, the same parameters.
  void CompareWithUndisturbed();

 private:
  int Draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  void Submit();
  // Other nodes than before, of those that are up. Refused when one of them is lost meanwhile.
  void Rescale();
  void KillReplica();
  void KillWorker();
  void KillSupervisor();
  // Half of them replicas.
  void Kill();
  void Disturb(int rescales, int kills);
  void ExpectProgress();
  void Finish();
  void ReadRecords();

  // Replicas' processes, and those that read data for them: a shim's command line holds its state folder as well.
  std::vector<pid_t> Replicas() const;
  // The one that ends with this process: itself, or the one that it reads for.
  static pid_t ReplicaOf(pid_t pid, const std::vector<pid_t>& replicas);
  // The group of the step that it has begun last; one that leaves stays in an earlier one. -1: it is on its way to the
  // job, and has no state.
  int64_t GroupOf(pid_t pid) const;

  const int seed_;
  std::mt19937 random_;
  TestCluster cluster_;
  const std::string record_folder_;
  const std::string undisturbed_folder_;
  int rescales_ = 0;
  int kills_ = 0;
  int kills_of_the_last_ = 0;
  v1::Job job_;
  TrainingRecord record_;
  std::map<int64_t, Samples> steps_;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_CHAOS_CHAOS_RUN_H_
