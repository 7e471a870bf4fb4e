// Command line of the MNIST example.

#ifndef ADAPTDL_EXAMPLES_MNIST_OPTIONS_H_
#define ADAPTDL_EXAMPLES_MNIST_OPTIONS_H_

#include <cstdint>
#include <string>

namespace mnist {

struct Options {
  // Folder with MNIST's IDX files. Empty: digits are drawn.
  std::string data;
  // Digits to draw when there is no data.
  int64_t samples = 10'000;
  int epochs = 5;
  // Samples per step, over all replicas.
  int64_t batch_size = 64;
  double learning_rate = 1e-3;
  uint64_t seed = 1;
};

// Ends the process on --help and on wrong arguments.
Options ParseOptions(int argc, char** argv);

}  // namespace mnist

#endif  // ADAPTDL_EXAMPLES_MNIST_OPTIONS_H_
