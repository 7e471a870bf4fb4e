// Training that is played: by the training library, in the step times and with the gradients that were recorded of an
// application, without its model.
//
// Each step takes as long as the traces say for the nodes that the job runs on and its batch size: computation is time that
// the process sleeps, and the last rank begins to exchange its gradients later by the recorded time of that, so that
// all others wait for it as long as the exchange took. (So what the last rank itself measures has no exchange in it,
// should it ever become the first.) Its gradients are drawn such that their norm and variance are those that were
// recorded at this point of the training. Compressed by C it has C times less to do, at the recorded speed.
//
// Not thread-safe.

#ifndef ADAPTDL_BENCH_REPLAY_PLAYED_TRAINING_H_
#define ADAPTDL_BENCH_REPLAY_PLAYED_TRAINING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "adaptdl/data_loader.h"
#include "adaptdl/job.h"
#include "simulator/traces/application.h"

namespace adaptdl::replay {

// What a program plays, by its command line.
struct Played {
  std::vector<std::string> traces;
  std::string application;
  double compression = 1;

  void AddOptions(CLI::App* app);
  // Ends the program with a message if there are no such traces.
  simulator::Application Load() const;
};

class PlayedTraining {
 public:
  // `job` and `application` must outlive it. `record`: a file to which a line of JSON is appended whenever a group's first
  // step is done: "time" (Unix, s), "group", "replicas", and "lost" (s): what the change to it has cost beyond the step
  // itself; absent of the process's first group. Empty: nothing is recorded.
  PlayedTraining(Job& job, const simulator::Application& application, double compression,
                 const std::string& record);
  ~PlayedTraining();
  PlayedTraining(const PlayedTraining&) = delete;
  PlayedTraining& operator=(const PlayedTraining&) = delete;

  // Scale-invariant steps of the whole job, at least 1; and those that it has really come, which its gradients only let the
  // library estimate.
  int64_t TotalSteps() const;
  double StepsDone() const;

  // Loops until so many of its steps are really done, or the loader ends: the library counts what the gradients leave certain,
  // and so never too much.
  void TrainUntil(double steps, AdaptiveDataLoader* loader);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl::replay

#endif  // ADAPTDL_BENCH_REPLAY_PLAYED_TRAINING_H_
