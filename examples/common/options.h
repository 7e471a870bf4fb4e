// Command line of the examples.

#ifndef ADAPTDL_EXAMPLES_COMMON_OPTIONS_H_
#define ADAPTDL_EXAMPLES_COMMON_OPTIONS_H_

#include <cstdint>
#include <string>

namespace examples {

struct Options {
  // Folder or file to learn from. Empty: data are made up.
  std::string data = {};
  // Samples to make up when there is no data.
  int64_t samples = 10'000;
  int epochs = 5;
  // Samples per step, over all replicas.
  int64_t batch_size = 64;
  // To which the elastic program may let it grow. 0: it stays.
  int64_t max_batch_size = 0;
  double learning_rate = 1e-3;
  // Size of the network's layers.
  int64_t width = 32;
  uint64_t seed = 1;
  // Where it trains: "auto", "cpu" or "cuda". DeviceOf() knows what that is here.
  std::string device = "auto";
  // Of matrix products and convolutions: "fp32", "bf16" or "fp16".
  std::string precision = "fp32";
};

// What --help says of a program.
struct Description {
  std::string what;
  std::string data = {};
  std::string samples;
  // Empty: there is no such option.
  std::string width = {};
  // Whether --max-batch-size means something, and --precision.
  bool batch_may_grow = true;
  bool mixed_precision = false;
};

// The same example, without AdaptDL and with it.
enum class Program { kPlain, kElastic };

// `options`: the defaults. Ends the process on --help and on wrong arguments.
Options ParseOptions(int argc, char** argv, const Description& description, Options options);

}  // namespace examples

#endif  // ADAPTDL_EXAMPLES_COMMON_OPTIONS_H_
