#include "libs/elastic/torch/tensor_states.h"

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Context.h"
#include "absl/strings/str_cat.h"
#include "libs/elastic/data/philox.h"
#include "torch/nn/module.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

std::map<std::string, at::Tensor> TensorsOf(const torch::nn::Module& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& parameter : model.named_parameters()) tensors[parameter.key()] = parameter.value();
  for (const auto& buffer : model.named_buffers()) tensors[buffer.key()] = buffer.value();
  std::erase_if(tensors, [](const auto& entry) { return !entry.second.defined(); });
  return tensors;
}

}  // namespace

// --- Model ---

std::unique_ptr<StateReader> ModuleState::Read() {
  std::map<std::string, at::Tensor> tensors = TensorsOf(*model_);
  return std::make_unique<TensorReader>(std::vector<NamedTensor>(tensors.begin(), tensors.end()),
                                        SafetensorsMetadata{{"format", "pt"}});
}

absl::StatusOr<std::unique_ptr<StateWriter>> ModuleState::Write(const std::string& head) {
  return MakeWriter(name(), head, [&](const SafetensorsLayout& layout) {
    std::map<std::string, at::Tensor> tensors = TensorsOf(*model_);
    std::vector<at::Tensor> in_order;
    for (const SafetensorsLayout::Entry& entry : layout.entries) {
      const auto found = tensors.find(entry.name);
      if (found == tensors.end()) throw std::invalid_argument(absl::StrCat("the model has no ", entry.name));
      CheckFits(entry, found->second);
      in_order.push_back(std::move(found->second));
      tensors.erase(found);
    }
    if (!tensors.empty()) {
      throw std::invalid_argument(absl::StrCat(tensors.begin()->first, " was not saved"));
    }
    return std::make_unique<TensorWriter>(name(), std::move(in_order), [] {});
  });
}

// --- Random generator ---

at::Generator RandomState::Generator() const { return at::globalContext().defaultGenerator(device_); }

std::string RandomState::Save() {
  const at::Tensor state = Generator().get_state().contiguous();
  return std::string(static_cast<const char*>(state.data_ptr()), static_cast<size_t>(state.numel()));
}

bool RandomState::Load(const std::string& bytes) {
  return LoadOrSay(name_, [&] {
    at::Tensor state = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
    at::Generator generator = Generator();
    generator.set_state(state);
    if (rank_ > 0) {
      generator.set_current_seed(SplitMix64(std::hash<std::string>{}(bytes) + static_cast<uint64_t>(rank_)));
    }
  });
}

}  // namespace adaptdl::elastic
