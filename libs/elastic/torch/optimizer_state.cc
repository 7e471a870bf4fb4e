#include "libs/elastic/torch/optimizer_state.h"

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/elastic/checkpoint/streaming_copy.h"
#include "libs/elastic/torch/optimizer_fields.h"
#include "nlohmann/json.hpp"
#include "torch/nn/module.h"
#include "torch/serialize.h"

namespace adaptdl::elastic {
namespace {

// LibTorch 1.13 knows parameters by their address as text, 2.x by the address.
template <typename States>
typename States::key_type KeyOf(const at::Tensor& parameter, const States&) {
  if constexpr (std::is_same_v<typename States::key_type, std::string>) {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return std::move(text).str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

std::string FieldName(const std::string& parameter, const char* field) {
  return absl::StrCat(parameter, "/", field);
}

// Metadata of a saved optimiser: its groups' options, and the numbers that it keeps per parameter.
constexpr char kGroups[] = "groups";
constexpr char kNumbers[] = "numbers";
// The one tensor of a state that is LibTorch's archive.
constexpr char kArchive[] = "libtorch-archive";

template <typename Options>
nlohmann::json OptionsToJson(const char* kind, Options& options) {
  nlohmann::json json = {{"optimizer", kind}};
  VisitFields(options, [&](const char* field, const auto& value) { json[field] = value; });
  return json;
}

template <typename State>
void SaveParameter(const std::string& name, State& state, std::vector<NamedTensor>* tensors,
                   nlohmann::json* numbers) {
  VisitFields(state, [&](const char* field, const auto& value) {
    const std::string full_name = FieldName(name, field);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
      if (value.defined()) tensors->emplace_back(full_name, value);
    } else {
      (*numbers)[full_name] = value;
    }
  });
}

// What is saved of an optimiser, by name.
struct SavedParameters {
  std::map<std::string, const SafetensorsLayout::Entry*> tensors;
  nlohmann::json numbers;
};

// Null if nothing is saved for the parameter. Its tensors come from `new_tensor`, and are to be written.
template <typename State, typename NewTensor>
std::unique_ptr<optim::OptimizerParamState> MakeParameter(const std::string& name,
                                                          const at::Tensor& parameter,
                                                          const SavedParameters& saved,
                                                          NewTensor new_tensor) {
  auto state = std::make_unique<State>();
  bool found = false;
  VisitFields(*state, [&](const char* field, auto& value) {
    const std::string full_name = FieldName(name, field);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
      const auto tensor = saved.tensors.find(full_name);
      if (tensor == saved.tensors.end()) return;
      CheckFits(*tensor->second, parameter);
      value = new_tensor(full_name, parameter);
      found = true;
    } else if (saved.numbers.contains(full_name)) {
      value = saved.numbers.at(full_name).template get<std::decay_t<decltype(value)>>();
      found = true;
    }
  });
  if (!found) return nullptr;
  return state;
}

// Memory that is new to the process, if it is large.
at::Tensor EmptyLike(const at::Tensor& tensor) {
  at::Tensor empty = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  if (empty.is_cpu()) PreferHugePages(empty.data_ptr(), empty.nbytes());
  return empty;
}

// Lets the system find the pages of the tensor's memory.
void Touch(at::Tensor& tensor) {
  constexpr size_t kPage = 4096;
  auto* const bytes = static_cast<volatile char*>(tensor.data_ptr());
  for (size_t at = 0; at < tensor.nbytes(); at += kPage) bytes[at] = 0;
}

}  // namespace

std::vector<std::vector<std::string>> OptimizerState::Names() const {
  std::unordered_map<const void*, std::string> of_model;
  for (const auto& parameter : model_->named_parameters()) {
    of_model.try_emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
  }
  std::vector<std::vector<std::string>> names;
  for (const optim::OptimizerParamGroup& group : optimizer_->param_groups()) {
    std::vector<std::string>& of_group = names.emplace_back();
    for (const at::Tensor& parameter : group.params()) {
      const auto known = of_model.find(parameter.unsafeGetTensorImpl());
      of_group.push_back(known != of_model.end()
                             ? known->second
                             : absl::StrCat("group-", names.size() - 1, "/", of_group.size()));
    }
  }
  return names;
}

bool OptimizerState::IsKnown() const {
  for (optim::OptimizerParamGroup& group : optimizer_->param_groups()) {
    if (!group.has_options() || !WithKind(group.options(), [](auto, auto&) {})) return false;
  }
  return true;
}

std::unique_ptr<StateReader> OptimizerState::Read() {
  if (!IsKnown()) return ReadArchive();
  std::vector<NamedTensor> tensors;
  nlohmann::json groups = nlohmann::json::array();
  nlohmann::json numbers = nlohmann::json::object();
  const std::vector<std::vector<std::string>> names = Names();
  const auto& states = optimizer_->state();
  // A parameter of a module that the model has twice may be in a group twice.
  std::set<std::string> saved;
  for (size_t g = 0; g < names.size(); ++g) {
    optim::OptimizerParamGroup& group = optimizer_->param_groups()[g];
    WithKind(group.options(), [&](auto kind, auto& options) {
      groups.push_back({{"options", OptionsToJson(kind.name, options)}, {"parameters", names[g]}});
      for (size_t p = 0; p < names[g].size(); ++p) {
        const auto state = states.find(KeyOf(group.params()[p], states));
        if (state == states.end() || !saved.insert(names[g][p]).second) continue;
        SaveParameter(names[g][p], static_cast<typename decltype(kind)::State&>(*state->second), &tensors,
                      &numbers);
      }
    });
  }
  return std::make_unique<TensorReader>(
      std::move(tensors), SafetensorsMetadata{{kGroups, groups.dump()}, {kNumbers, numbers.dump()}});
}

std::unique_ptr<StateReader> OptimizerState::ReadArchive() const {
  torch::serialize::OutputArchive archive;
  optimizer_->save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string content = std::move(stream).str();
  at::Tensor bytes = at::empty({static_cast<int64_t>(content.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), content.data(), content.size());
  return std::make_unique<TensorReader>(std::vector<NamedTensor>{{kArchive, bytes}}, SafetensorsMetadata());
}

absl::StatusOr<std::unique_ptr<StateWriter>> OptimizerState::Write(const std::string& head) {
  return MakeWriter(name(), head, [&](const SafetensorsLayout& layout) {
    if (IsKnown()) return WriteKnown(layout);
    return WriteArchive(layout);
  });
}

std::unique_ptr<StateWriter> OptimizerState::WriteArchive(const SafetensorsLayout& layout) {
  if (layout.entries.size() != 1 || layout.entries[0].name != kArchive || layout.entries[0].dtype != "U8") {
    throw std::invalid_argument("it is no archive of LibTorch's");
  }
  at::Tensor bytes = at::empty({layout.entries[0].bytes}, at::kByte);
  return std::make_unique<TensorWriter>(name(), std::vector<at::Tensor>{bytes}, [this, bytes] {
    torch::serialize::InputArchive archive;
    archive.load_from(static_cast<const char*>(bytes.data_ptr()), bytes.nbytes());
    optimizer_->load(archive);
  });
}

// What comes in place of options and states, once all of it is written.
struct OptimizerState::Replacement {
  std::vector<std::unique_ptr<optim::OptimizerOptions>> options;
  // Of all groups' parameters, in order.
  std::vector<std::unique_ptr<optim::OptimizerParamState>> states;
};

std::unique_ptr<StateWriter> OptimizerState::WriteKnown(const SafetensorsLayout& layout) {
  const std::vector<std::vector<std::string>> names = Names();
  const nlohmann::json groups = nlohmann::json::parse(layout.metadata.at(kGroups));
  if (groups.size() != names.size()) throw std::invalid_argument("there are more or fewer groups now");
  SavedParameters saved;
  saved.numbers = nlohmann::json::parse(layout.metadata.at(kNumbers));
  for (const SafetensorsLayout::Entry& entry : layout.entries) saved.tensors[entry.name] = &entry;
  auto replacement = std::make_shared<Replacement>();
  std::map<std::string, at::Tensor> made;
  for (size_t g = 0; g < names.size(); ++g) {
    if (groups[g].at("parameters") != nlohmann::json(names[g])) {
      throw std::invalid_argument(absl::StrCat("group ", g, " has other parameters now"));
    }
    optim::OptimizerParamGroup& group = optimizer_->param_groups()[g];
    WithKind(group.options(), [&](auto kind, auto& options) {
      const nlohmann::json& fields = groups[g].at("options");
      if (fields.at("optimizer") != kind.name) throw std::invalid_argument("it is of another kind now");
      auto loaded = std::make_unique<typename decltype(kind)::Options>(options);
      VisitFields(*loaded, [&](const char* field, auto& value) {
        value = fields.at(field).get<std::decay_t<decltype(value)>>();
      });
      replacement->options.push_back(std::move(loaded));
      for (size_t p = 0; p < names[g].size(); ++p) {
        replacement->states.push_back(MakeParameter<typename decltype(kind)::State>(
            names[g][p], group.params()[p], saved,
            [&](const std::string& tensor, const at::Tensor& parameter) {
              return made[tensor] = NewTensor(tensor, parameter);
            }));
      }
    });
  }
  std::vector<at::Tensor> in_order;
  for (const SafetensorsLayout::Entry& entry : layout.entries) {
    const auto found = made.find(entry.name);
    // What this version does not know goes nowhere.
    in_order.push_back(found != made.end() ? found->second : at::empty({entry.bytes}, at::kByte));
  }
  return std::make_unique<TensorWriter>(name(), std::move(in_order),
                                        [this, replacement] { Replace(replacement.get()); });
}

void OptimizerState::Replace(Replacement* replacement) {
  auto next_state = replacement->states.begin();
  auto& states = optimizer_->state();
  for (size_t g = 0; g < replacement->options.size(); ++g) {
    optim::OptimizerParamGroup& group = optimizer_->param_groups()[g];
    // In place, as schedulers may hold on to the object.
    WithKind(group.options(), [&](auto kind, auto& options) {
      options = static_cast<typename decltype(kind)::Options&>(*replacement->options[g]);
    });
    for (const at::Tensor& parameter : group.params()) {
      const auto key = KeyOf(parameter, states);
      states.erase(key);
      if (*next_state) states[key] = std::move(*next_state);
      ++next_state;
    }
  }
}

void OptimizerState::Reserve() {
  if (!IsKnown()) return;
  const std::vector<std::vector<std::string>> names = Names();
  for (size_t g = 0; g < names.size(); ++g) {
    optim::OptimizerParamGroup& group = optimizer_->param_groups()[g];
    WithKind(group.options(), [&](auto, auto& options) {
      for (const char* field : FieldsOf(options)) {
        for (size_t p = 0; p < names[g].size(); ++p) {
          if (!group.params()[p].is_cpu()) continue;
          at::Tensor& reserved = reserved_[FieldName(names[g][p], field)];
          reserved = EmptyLike(group.params()[p]);
          Touch(reserved);
        }
      }
    });
  }
}

at::Tensor OptimizerState::NewTensor(const std::string& tensor, const at::Tensor& parameter) {
  const auto reserved = reserved_.extract(tensor);
  return reserved.empty() ? EmptyLike(parameter) : reserved.mapped();
}

bool OptimizerState::LoadStep(const std::string& bytes) {
  std::vector<double> rates;
  for (optim::OptimizerParamGroup& group : optimizer_->param_groups()) {
    rates.push_back(group.options().get_lr());
  }
  if (!Load(bytes)) return false;
  for (size_t i = 0; i < rates.size(); ++i) optimizer_->param_groups()[i].options().set_lr(rates[i]);
  return true;
}

}  // namespace adaptdl::elastic
