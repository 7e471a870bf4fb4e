// The training program of replay_bench: trains as a recorded application did, by the training library, without its
// model (played_training.h). See --help.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "adaptdl/job.h"
#include "bench/replay/played_training.h"
#include "simulator/traces/application.h"

namespace {

using adaptdl::replay::PlayedTraining;
using adaptdl::simulator::Application;

struct Options {
  adaptdl::replay::Played played;
  // 0: it adapts.
  int64_t batch_size = 0;
  std::string record;
};

Options Parse(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains as a recorded application did, in step times and gradients, without its model."};
  options.played.AddOptions(&app);
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
    training.TrainUntil(static_cast<double>(training.TotalSteps()), &loader);
  }
}

// Its batch size is what the library finds best.
void TrainAdaptively(adaptdl::Job& job, const Application& application, const Options& options) {
  PlayedTraining training(job, application, options.played.compression, options.record);
  const int64_t batch_size = application.init_batch_size();
  adaptdl::AdaptiveDataLoader loader(job, training.TotalSteps() * batch_size,
                                     {.batch_size = batch_size, .shuffle = false});
  loader.AutoscaleBatchSize(application.max_batch_size(),
                            {application.min_local[0], application.max_local[0]}, application.accumulation);
  TrainToTheEnd(job, training, loader);
}

// As long as it takes for the same progress.
void TrainWithFixedBatch(adaptdl::Job& job, const Application& application, const Options& options) {
  PlayedTraining training(job, application, options.played.compression, options.record);
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
  const Application application = options.played.Load();
  if (options.batch_size > 0) {
    TrainWithFixedBatch(*job, application, options);
  } else {
    TrainAdaptively(*job, application, options);
  }
}
