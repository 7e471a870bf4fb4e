#include "libs/elastic/checkpoint/tensor_state.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/say.h"
#include "libs/elastic/checkpoint/safetensors.h"

namespace adaptdl::elastic {
namespace {

absl::Status WriteAll(const std::string& bytes, PiecewiseState* state) {
  const absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHead(bytes);
  if (!layout.ok()) return layout.status();
  const auto head_bytes = static_cast<size_t>(layout->head_bytes);
  if (static_cast<int64_t>(bytes.size() - head_bytes) != layout->data_bytes) {
    return absl::InvalidArgumentError("the tensors do not fit the size of the data");
  }
  const absl::StatusOr<std::unique_ptr<StateWriter>> writer = state->Write(bytes.substr(0, head_bytes));
  if (!writer.ok()) return writer.status();
  const char* from = bytes.data() + head_bytes;
  const std::vector<int64_t>& sizes = (*writer)->sizes();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) {
      std::memcpy((*writer)->Open(i), from, static_cast<size_t>(sizes[i]));
      (*writer)->Close(i);
    }
    from += sizes[i];
  }
  return (*writer)->Commit();
}

}  // namespace

std::string TensorState::Save() {
  std::string bytes;
  SaveInto(&bytes);
  return bytes;
}

void TensorState::SaveInto(std::string* bytes) {
  const std::unique_ptr<StateReader> reader = Read();
  static_cast<TensorStateReader&>(*reader).CopyInto(bytes);
}

bool TensorState::Load(const std::string& bytes) {
  const absl::Status status = WriteAll(bytes, this);
  if (!status.ok()) {
    Say(Severity::kError, absl::StrCat(name_, ": ", status.message()));
  }
  return status.ok();
}

}  // namespace adaptdl::elastic
