#include "libs/elastic/torch/tensor_pieces.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "ATen/core/grad_mode.h"
#include "absl/strings/str_cat.h"
#include "libs/base/say.h"
#include "libs/elastic/checkpoint/streaming_copy.h"
#include "libs/elastic/torch/torch_devices.h"

namespace adaptdl::elastic {
namespace {

constexpr std::pair<at::ScalarType, const char*> kTypes[] = {
    {at::kFloat, "F32"}, {at::kDouble, "F64"}, {at::kHalf, "F16"},  {at::kBFloat16, "BF16"},
    {at::kLong, "I64"},  {at::kInt, "I32"},    {at::kShort, "I16"}, {at::kChar, "I8"},
    {at::kByte, "U8"},   {at::kBool, "BOOL"}};

const char* TypeName(at::ScalarType type) {
  for (const auto& [known, name] : kTypes) {
    if (known == type) return name;
  }
  throw std::invalid_argument(
      absl::StrCat("tensors of type ", c10::toString(type), " cannot be saved as safetensors"));
}

// The tensor itself, or a copy of it whose elements lie one after the other, on the CPU.
at::Tensor HostCopy(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

// Nothing: it is on the CPU, or not in one piece.
std::optional<DevicePiece> PieceOf(const at::Tensor& tensor) {
  if (tensor.is_cpu() || !tensor.is_contiguous()) return std::nullopt;
  const absl::StatusOr<device::Device*> device = DeviceFor(tensor.device());
  if (!device.ok()) return std::nullopt;
  return DevicePiece{tensor.data_ptr(), *device, CurrentStream(tensor.device())};
}

bool IsOnHost(const at::Tensor& tensor) { return tensor.is_cpu() && tensor.is_contiguous(); }

SafetensorsItem ItemOf(const NamedTensor& named) {
  const auto& [name, tensor] = named;
  return {name, TypeName(tensor.scalar_type()), tensor.sizes().vec(), [tensor = tensor](char* to) {
            const at::Tensor plain = HostCopy(tensor);
            StreamingCopy(to, plain.data_ptr(), plain.nbytes());
          }};
}

}  // namespace

// --- Reading and writing ---

TensorReader::TensorReader(std::vector<NamedTensor> tensors, SafetensorsMetadata metadata)
    : metadata_(std::move(metadata)) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return SafetensorsBefore(TypeName(a.second.scalar_type()), TypeName(b.second.scalar_type()));
  });
  for (const NamedTensor& tensor : tensors) {
    items_.push_back(ItemOf(tensor));
    sizes_.push_back(static_cast<int64_t>(tensor.second.numel() * tensor.second.element_size()));
    tensors_.push_back(tensor.second);
  }
  head_ = SafetensorsHead(items_, metadata_);
}

const char* TensorReader::Read(size_t index) {
  current_ = HostCopy(tensors_[index]);
  return static_cast<const char*>(current_.data_ptr());
}

std::optional<DevicePiece> TensorReader::OnDevice(size_t index) { return PieceOf(tensors_[index]); }

TensorWriter::TensorWriter(std::string state, std::vector<at::Tensor> tensors, std::function<void()> commit)
    : state_(std::move(state)), tensors_(std::move(tensors)), commit_(std::move(commit)) {
  for (at::Tensor& tensor : tensors_) {
    tensor = tensor.detach();
    sizes_.push_back(static_cast<int64_t>(tensor.numel() * tensor.element_size()));
  }
}

char* TensorWriter::Open(size_t index) {
  const at::Tensor& tensor = tensors_[index];
  current_ = IsOnHost(tensor) ? tensor : at::empty(tensor.sizes(), tensor.scalar_type());
  return static_cast<char*>(current_.data_ptr());
}

std::optional<DevicePiece> TensorWriter::OpenOnDevice(size_t index) { return PieceOf(tensors_[index]); }

void TensorWriter::Close(size_t index) {
  if (current_.defined() && !IsOnHost(tensors_[index])) tensors_[index].copy_(current_);
  current_ = at::Tensor();
}

absl::Status TensorWriter::Commit() {
  try {
    commit_();
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("the state \"", state_, "\": ", error.what()));
  }
}

void CheckFits(const SafetensorsLayout::Entry& saved, const at::Tensor& like) {
  if (saved.dtype != TypeName(like.scalar_type()) || at::IntArrayRef(saved.shape) != like.sizes()) {
    throw std::invalid_argument(absl::StrCat("the saved ", saved.name, " has another type or shape"));
  }
}

absl::StatusOr<std::unique_ptr<StateWriter>> MakeWriter(
    const std::string& state, const std::string& head,
    const std::function<std::unique_ptr<StateWriter>(const SafetensorsLayout& layout)>& make) {
  const absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHead(head);
  if (!layout.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the state \"", state, "\": ", layout.status().message()));
  }
  try {
    at::NoGradGuard no_gradients;
    return make(*layout);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("the state \"", state, "\": ", error.what()));
  }
}

bool LoadOrSay(const std::string& state, const std::function<void()>& load) {
  try {
    at::NoGradGuard no_gradients;
    load();
    return true;
  } catch (const std::exception& error) {
    Say(Severity::kError, absl::StrCat(state, ": ", error.what()));
    return false;
  }
}

}  // namespace adaptdl::elastic
