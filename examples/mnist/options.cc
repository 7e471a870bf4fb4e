#include "examples/mnist/options.h"

#include <cstdlib>

#include "CLI/CLI.hpp"

namespace mnist {

Options ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains a CNN on handwritten digits: the first 80 % of the images, tested on the rest."};
  app.add_option("--data", options.data,
                 "folder with MNIST's IDX files, plain or .gz; without it digits are drawn")
      ->check(CLI::ExistingDirectory);
  app.add_option("--samples", options.samples, "digits to draw when there is no --data")
      ->check(CLI::Range(int64_t{10}, int64_t{10'000'000}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training images")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "images per step, over all replicas")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of everything random")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return options;
}

}  // namespace mnist
