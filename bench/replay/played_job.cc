// The training program of replay_bench: trains as a recorded application did, by the training library, without its
// model (played_training.h). See --help.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "adaptdl/job.h"
#include "bench/replay/played_training.h"
#include "simulator/traces/application.h"

namespace {

using adaptdl::replay::PlayedTraining;
using adaptdl::simulator::Application;

struct Options {
  std::vector<std::string> traces;
  std::string application;
  double compression = 1;
  // 0: it adapts.
  int64_t batch_size = 0;
  std::string record;
};

Options Parse(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains as a recorded application did, in step times and gradients, without its model."};
  app.add_option("--traces", options.traces, "folders that have traces/<application>")->required();
  app.add_option("--application", options.application)->required();
  app.add_option("--compression", options.compression, "does so many times less work")
      ->check(CLI::Range(1.0, 20.0));
  app.add_option("--batch-size", options.batch_size, "keeps this total batch size; 0: adapts it");
  app.add_option("--record", options.record, "file to append what changes of the group have cost")
      ->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return options;
}

// What is really done ends the training.
void TrainToTheEnd(adaptdl::Job& job, PlayedTraining& training, adaptdl::AdaptiveDataLoader& loader) {
  for ([[maybe_unused]] const int epoch : adaptdl::RemainingEpochsUntil(job, 1)) {
    if (!loader.BeginLoop()) continue;
    while (loader.Next()) {
      training.Step(loader);
      if (loader.is_optimizer_step() && training.StepsDone() >= static_cast<double>(training.TotalSteps())) {
        loader.EndLoop();
        break;
      }
    }
  }
}

// Its batch size is what the library finds best. The library counts what the gradients leave certain, and so never too much.
void TrainAdaptively(adaptdl::Job& job, const Application& application, const Options& options) {
  PlayedTraining training(job, application, options.compression, options.record);
  const int64_t batch_size = application.init_batch_size();
  adaptdl::AdaptiveDataLoader loader(job, training.TotalSteps() * batch_size,
                                     {.batch_size = batch_size, .shuffle = false});
  loader.AutoscaleBatchSize(application.max_batch_size(),
                            {application.min_local[0], application.max_local[0]}, application.accumulation);
  TrainToTheEnd(job, training, loader);
}

// As long as it takes for the same progress.
void TrainWithFixedBatch(adaptdl::Job& job, const Application& application, const Options& options) {
  PlayedTraining training(job, application, options.compression, options.record);
  constexpr int64_t kForever = int64_t{1} << 40;
  adaptdl::AdaptiveDataLoader loader(job, kForever,
                                     {.batch_size = options.batch_size,
                                      .base_batch_size = application.init_batch_size(),
                                      .shuffle = false,
                                      .max_local_batch_size = application.max_local[0]});
  TrainToTheEnd(job, training, loader);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  const auto job = adaptdl::Init();
  const absl::StatusOr<Application> application = adaptdl::simulator::LoadApplication(
      options.traces, options.application, {"aws"}, adaptdl::simulator::TraceRules::kPollux);
  if (!application.ok()) {
    std::cerr << "played_job: error: " << application.status() << '\n';
    return 2;
  }
  if (options.batch_size > 0) {
    TrainWithFixedBatch(*job, *application, options);
  } else {
    TrainAdaptively(*job, *application, options);
  }
}
