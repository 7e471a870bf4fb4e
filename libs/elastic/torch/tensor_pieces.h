// LibTorch's tensors as pieces of states (checkpoint/tensor_state.h): what model and optimiser have in common.
//
// The pieces of piecewise_state.h are the tensors' own memory where that is in one piece, on whatever device.
// Saving copies each tensor once, into memory that is used again by the next checkpoint. Loading checks
// names, types and shapes of all tensors before it changes any.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_PIECES_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/elastic/checkpoint/piecewise_state.h"
#include "libs/elastic/checkpoint/safetensors.h"
#include "libs/elastic/checkpoint/tensor_state.h"

namespace adaptdl::elastic {

using NamedTensor = std::pair<std::string, at::Tensor>;

class TensorReader final : public TensorStateReader {
 public:
  // Throws when safetensors has no such type.
  TensorReader(std::vector<NamedTensor> tensors, SafetensorsMetadata metadata);

  const std::string& head() const override { return head_; }
  const std::vector<int64_t>& sizes() const override { return sizes_; }
  const char* Read(size_t index) override;
  std::optional<DevicePiece> OnDevice(size_t index) override;

  void CopyInto(std::string* bytes) override { WriteSafetensors(std::move(items_), metadata_, bytes); }

 private:
  const SafetensorsMetadata metadata_;
  std::vector<SafetensorsItem> items_;
  std::vector<at::Tensor> tensors_;
  std::vector<int64_t> sizes_;
  std::string head_;
  at::Tensor current_;
};

class TensorWriter final : public StateWriter {
 public:
  // `commit` is called when all tensors are written, and may throw.
  TensorWriter(std::string state, std::vector<at::Tensor> tensors, std::function<void()> commit);

  const std::vector<int64_t>& sizes() const override { return sizes_; }
  char* Open(size_t index) override;
  std::optional<DevicePiece> OpenOnDevice(size_t index) override;
  void Close(size_t index) override;
  absl::Status Commit() override;

 private:
  const std::string state_;
  std::vector<at::Tensor> tensors_;
  std::vector<int64_t> sizes_;
  const std::function<void()> commit_;
  at::Tensor current_;
};

// Throws unless `saved` has the type and shape of `like`.
void CheckFits(const SafetensorsLayout::Entry& saved, const at::Tensor& like);

// `make` gets what a head says, and makes a writer or throws.
absl::StatusOr<std::unique_ptr<StateWriter>> MakeWriter(
    const std::string& state, const std::string& head,
    const std::function<std::unique_ptr<StateWriter>(const SafetensorsLayout& layout)>& make);

// Runs `load`, which throws when it cannot: says so, and gives false then.
bool LoadOrSay(const std::string& state, const std::function<void()>& load);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_TENSOR_PIECES_H_
