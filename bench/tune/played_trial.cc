// The training program of tune_bench.py: a trial that trains as a recorded application did, by the training library, without
// its model (bench/replay/played_training.h), and after each epoch reports a loss that is made up: see LossAfter. See --help.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "CLI/CLI.hpp"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "adaptdl/job.h"
#include "bench/replay/played_training.h"
#include "simulator/traces/application.h"

namespace {

using adaptdl::simulator::Application;

struct Options {
  adaptdl::replay::Played played;
  int epochs = 9;
  double learning_rate = 0.1;
  double decay = 5e-4;
  int64_t seed = 0;
};

Options Parse(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Trains as a recorded application did, in step times and gradients, and reports a loss that is made "
      "up."};
  options.played.AddOptions(&app);
  app.add_option("--epochs", options.epochs, "parts of the training, after each of which it reports")
      ->check(CLI::Range(1, 1000));
  app.add_option("--learning-rate", options.learning_rate)->check(CLI::PositiveNumber);
  app.add_option("--decay", options.decay)->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "of what scatters in the loss");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return options;
}

// After a part of the training, from 0 to 1. What is reached in the end is worst far from a rate of 0.1 and a decay of 5e-4,
// in orders of magnitude; the way there is steep at first; and it scatters by 0.01, so that early losses mislead at times.
double LossAfter(double part, const Options& options) {
  const double rate_off = std::log10(options.learning_rate / 0.1);
  const double decay_off = std::log10(options.decay / 5e-4);
  const double end = 0.2 + 0.08 * rate_off * rate_off + 0.02 * decay_off * decay_off;
  const double way = 2.1 * (std::pow(1 + 9 * part, -1.5) - std::pow(10, -1.5));
  std::seed_seq seeds = {options.seed, static_cast<int64_t>(std::lround(1e6 * part))};
  std::mt19937 random(seeds);
  return end + way + std::normal_distribution<double>(0, 0.01)(random);
}

void Train(adaptdl::Job& job, const Application& application, const Options& options) {
  adaptdl::replay::PlayedTraining training(job, application, options.played.compression, /*record=*/"");
  const int64_t batch_size = application.init_batch_size();
  const double epoch_steps = static_cast<double>(training.TotalSteps()) / options.epochs;
  adaptdl::AdaptiveDataLoader loader(job, static_cast<int64_t>(std::ceil(epoch_steps)) * batch_size,
                                     {.batch_size = batch_size, .shuffle = false});
  loader.AutoscaleBatchSize(application.max_batch_size(),
                            {application.min_local[0], application.max_local[0]}, application.accumulation);
  for (const int epoch : adaptdl::RemainingEpochsUntil(job, options.epochs)) {
    training.TrainUntil((epoch + 1) * epoch_steps, &loader);
    job.Report("loss", LossAfter((epoch + 1.0) / options.epochs, options));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  const auto job = adaptdl::Init();
  const Application application = options.played.Load();
  Train(*job, application, options);
}
