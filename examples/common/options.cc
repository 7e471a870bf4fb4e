#include "examples/common/options.h"

#include <cstdlib>

#include "CLI/CLI.hpp"

namespace examples {

Options ParseOptions(int argc, char** argv, const Description& description, Options options) {
  CLI::App app{description.what};
  app.add_option("--data", options.data, description.data)->check(CLI::ExistingPath);
  app.add_option("--samples", options.samples, description.samples)
      ->check(CLI::Range(int64_t{10}, int64_t{100'000'000}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the data")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "samples per step, over all replicas")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (description.batch_may_grow) {
    app.add_option("--max-batch-size", options.max_batch_size,
                   "what the elastic program may let the batch grow to; 0: it stays")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  }
  app.add_option("--lr", options.learning_rate, "learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (!description.width.empty()) {
    app.add_option("--width", options.width, description.width)
        ->check(CLI::Range(int64_t{4}, int64_t{4096}))
        ->capture_default_str();
  }
  app.add_option("--seed", options.seed, "seed of everything random")->capture_default_str();
  app.add_option("--device", options.device,
                 "where to train; auto: on a GPU if there is one, else on the CPU")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  if (description.mixed_precision) {
    app.add_option("--precision", options.precision,
                   "type of matrix products and convolutions; fp16 needs a GPU, and scales the loss")
        ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
        ->capture_default_str();
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return options;
}

}  // namespace examples
