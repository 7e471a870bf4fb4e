#include "adaptdl/weights.h"

#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "libs/base/file.h"
#include "libs/base/say.h"
#include "libs/elastic/torch/tensor_states.h"

namespace adaptdl {
namespace {

bool Say(const absl::Status& status) {
  if (!status.ok()) Say(Severity::kError, status.ToString());
  return status.ok();
}

}  // namespace

bool ExportWeights(const torch::nn::Module& model, const std::string& path) {
  try {
    return Say(WriteFileAtomically(path, elastic::ModuleState(path, &model).Save()));
  } catch (const std::exception& error) {
    return Say(absl::InvalidArgumentError(error.what()));
  }
}

bool ImportWeights(torch::nn::Module& model, const std::string& path) {
  const auto bytes = ReadWholeFile(path, std::numeric_limits<int64_t>::max());
  return bytes.ok() ? elastic::ModuleState(path, &model).Load(*bytes) : Say(bytes.status());
}

}  // namespace adaptdl
