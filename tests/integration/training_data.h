// What the integration tests train on: real digits when they are there, the example's own drawn ones when
// not.

#ifndef ADAPTDL_TESTS_INTEGRATION_TRAINING_DATA_H_
#define ADAPTDL_TESTS_INTEGRATION_TRAINING_DATA_H_

#include <filesystem>
#include <string>
#include <vector>

namespace adaptdl::integration {

inline std::vector<std::string> TrainingData() {
  const std::string folder = std::string(ADAPTDL_SOURCE_DIR) + "/../shared/data/mnist";
  if (std::filesystem::exists(folder)) return {"--data", std::filesystem::canonical(folder).string()};
  return {"--samples", "10000"};
}

// Arguments of examples/mnist for a run over so many epochs at batch size 64.
inline std::vector<std::string> MnistArguments(int epochs) {
  std::vector<std::string> arguments = {"--epochs", std::to_string(epochs), "--batch-size", "64"};
  for (const std::string& argument : TrainingData()) arguments.push_back(argument);
  return arguments;
}

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_TRAINING_DATA_H_
