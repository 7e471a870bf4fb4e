#include "libs/elastic/tensor_states.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/elastic/philox.h"
#include "libs/elastic/safetensors.h"
#include "libs/elastic/streaming_copy.h"
#include "nlohmann/json.hpp"
#include "torch/nn/module.h"
#include "torch/optim/adagrad.h"
#include "torch/optim/adam.h"
#include "torch/optim/adamw.h"
#include "torch/optim/optimizer.h"
#include "torch/optim/rmsprop.h"
#include "torch/optim/sgd.h"
#include "torch/serialize.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

namespace optim = torch::optim;

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

void Copy(const at::Tensor& tensor, char* to) {
  const at::Tensor plain = tensor.detach().to(at::kCPU).contiguous();
  StreamingCopy(to, plain.data_ptr(), plain.nbytes());
}

SafetensorsItem ItemOf(const std::string& name, const at::Tensor& tensor) {
  return {name, TypeName(tensor.scalar_type()), tensor.sizes().vec(),
          [tensor](char* to) { Copy(tensor, to); }};
}

// Throws unless `saved` has the type and shape of `like`.
void CheckFits(const std::string& name, const SafetensorsTensor& saved, const at::Tensor& like) {
  if (saved.dtype != TypeName(like.scalar_type()) || at::IntArrayRef(saved.shape) != like.sizes()) {
    throw std::invalid_argument(absl::StrCat("the saved ", name, " has another type or shape"));
  }
}

// On the CPU.
at::Tensor TensorOf(const SafetensorsTensor& saved, at::ScalarType type) {
  at::Tensor tensor = at::empty(saved.shape, type);
  std::memcpy(tensor.data_ptr(), saved.data.data(), saved.data.size());
  return tensor;
}

Safetensors ReadOrThrow(const std::string& bytes) {
  auto read = ReadSafetensors(bytes);
  if (!read.ok()) throw std::invalid_argument(std::string(read.status().message()));
  return *std::move(read);
}

// Runs `load`, which throws when it cannot.
template <typename Load>
bool LoadOrSay(const std::string& state, Load load) {
  try {
    torch::NoGradGuard no_gradients;
    load();
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adaptdl: %s: %s\n", state.c_str(), error.what());
    return false;
  }
}

std::map<std::string, at::Tensor> TensorsOf(const torch::nn::Module& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& parameter : model.named_parameters()) tensors[parameter.key()] = parameter.value();
  for (const auto& buffer : model.named_buffers()) tensors[buffer.key()] = buffer.value();
  std::erase_if(tensors, [](const auto& entry) { return !entry.second.defined(); });
  return tensors;
}

// Every field of an optimiser's options, and of what it keeps per parameter, by name.

template <typename Visit>
void VisitFields(optim::SGDOptions& options, Visit visit) {
  visit("lr", options.lr());
  visit("momentum", options.momentum());
  visit("dampening", options.dampening());
  visit("weight_decay", options.weight_decay());
  visit("nesterov", options.nesterov());
}

template <typename Visit>
void VisitFields(optim::SGDParamState& state, Visit visit) {
  visit("momentum_buffer", state.momentum_buffer());
}

template <typename Options, typename Visit>
void VisitAdamOptions(Options& options, Visit visit) {
  visit("lr", options.lr());
  visit("betas", options.betas());
  visit("eps", options.eps());
  visit("weight_decay", options.weight_decay());
  visit("amsgrad", options.amsgrad());
}

template <typename State, typename Visit>
void VisitAdamState(State& state, Visit visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename Visit>
void VisitFields(optim::AdamOptions& options, Visit visit) {
  VisitAdamOptions(options, visit);
}
template <typename Visit>
void VisitFields(optim::AdamParamState& state, Visit visit) {
  VisitAdamState(state, visit);
}
template <typename Visit>
void VisitFields(optim::AdamWOptions& options, Visit visit) {
  VisitAdamOptions(options, visit);
}
template <typename Visit>
void VisitFields(optim::AdamWParamState& state, Visit visit) {
  VisitAdamState(state, visit);
}

template <typename Visit>
void VisitFields(optim::RMSpropOptions& options, Visit visit) {
  visit("lr", options.lr());
  visit("alpha", options.alpha());
  visit("eps", options.eps());
  visit("weight_decay", options.weight_decay());
  visit("momentum", options.momentum());
  visit("centered", options.centered());
}

template <typename Visit>
void VisitFields(optim::RMSpropParamState& state, Visit visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

template <typename Visit>
void VisitFields(optim::AdagradOptions& options, Visit visit) {
  visit("lr", options.lr());
  visit("lr_decay", options.lr_decay());
  visit("weight_decay", options.weight_decay());
  visit("initial_accumulator_value", options.initial_accumulator_value());
  visit("eps", options.eps());
}

template <typename Visit>
void VisitFields(optim::AdagradParamState& state, Visit visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}

// Options and per-parameter state of one kind of optimiser.
template <typename OptionsType, typename StateType>
struct Kind {
  using Options = OptionsType;
  using State = StateType;
  const char* name;
};

// Calls `act` with the kind of `options`, and the options as such. False: the kind is not known.
template <typename Act>
bool WithKind(optim::OptimizerOptions& options, Act act) {
  const auto attempt = [&](auto kind) {
    auto* as = dynamic_cast<typename decltype(kind)::Options*>(&options);
    if (as != nullptr) act(kind, *as);
    return as != nullptr;
  };
  return attempt(Kind<optim::SGDOptions, optim::SGDParamState>{"SGD"}) ||
         attempt(Kind<optim::AdamOptions, optim::AdamParamState>{"Adam"}) ||
         attempt(Kind<optim::AdamWOptions, optim::AdamWParamState>{"AdamW"}) ||
         attempt(Kind<optim::RMSpropOptions, optim::RMSpropParamState>{"RMSprop"}) ||
         attempt(Kind<optim::AdagradOptions, optim::AdagradParamState>{"Adagrad"});
}

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
void SaveParameter(const std::string& name, State& state, std::vector<SafetensorsItem>* items,
                   nlohmann::json* numbers) {
  VisitFields(state, [&](const char* field, const auto& value) {
    const std::string full_name = FieldName(name, field);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
      if (value.defined()) items->push_back(ItemOf(full_name, value));
    } else {
      (*numbers)[full_name] = value;
    }
  });
}

// Null if nothing is saved for the parameter.
template <typename State>
std::unique_ptr<optim::OptimizerParamState> LoadParameter(const std::string& name,
                                                          const at::Tensor& parameter,
                                                          const Safetensors& saved,
                                                          const nlohmann::json& numbers) {
  auto state = std::make_unique<State>();
  bool found = false;
  VisitFields(*state, [&](const char* field, auto& value) {
    const std::string full_name = FieldName(name, field);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
      const auto tensor = saved.tensors.find(full_name);
      if (tensor == saved.tensors.end()) return;
      CheckFits(full_name, tensor->second, parameter);
      value = TensorOf(tensor->second, parameter.scalar_type()).to(parameter.device());
      found = true;
    } else if (numbers.contains(full_name)) {
      value = numbers.at(full_name).get<std::decay_t<decltype(value)>>();
      found = true;
    }
  });
  if (!found) return nullptr;
  return state;
}

}  // namespace

std::string ModuleState::Save() {
  std::string bytes;
  SaveInto(&bytes);
  return bytes;
}

void ModuleState::SaveInto(std::string* bytes) {
  std::vector<SafetensorsItem> items;
  for (const auto& [name, tensor] : TensorsOf(*model_)) items.push_back(ItemOf(name, tensor));
  WriteSafetensors(std::move(items), {{"format", "pt"}}, bytes);
}

bool ModuleState::Load(const std::string& bytes) {
  return LoadOrSay(name_, [&] {
    const Safetensors saved = ReadOrThrow(bytes);
    std::map<std::string, at::Tensor> tensors = TensorsOf(*model_);
    for (const auto& [name, tensor] : tensors) {
      const auto found = saved.tensors.find(name);
      if (found == saved.tensors.end()) throw std::invalid_argument(absl::StrCat(name, " was not saved"));
      CheckFits(name, found->second, tensor);
    }
    for (const auto& [name, tensor] : saved.tensors) {
      if (!tensors.contains(name)) throw std::invalid_argument(absl::StrCat("the model has no ", name));
    }
    for (auto& [name, tensor] : tensors) {
      tensor.copy_(TensorOf(saved.tensors.at(name), tensor.scalar_type()));
    }
  });
}

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

std::string OptimizerState::Save() {
  std::string bytes;
  SaveInto(&bytes);
  return bytes;
}

void OptimizerState::SaveInto(std::string* bytes) {
  if (!IsKnown()) return SaveArchive(bytes);
  std::vector<SafetensorsItem> items;
  nlohmann::json groups = nlohmann::json::array();
  nlohmann::json numbers = nlohmann::json::object();
  const std::vector<std::vector<std::string>> names = Names();
  const auto& states = optimizer_->state();
  for (size_t g = 0; g < names.size(); ++g) {
    optim::OptimizerParamGroup& group = optimizer_->param_groups()[g];
    WithKind(group.options(), [&](auto kind, auto& options) {
      groups.push_back({{"options", OptionsToJson(kind.name, options)}, {"parameters", names[g]}});
      for (size_t p = 0; p < names[g].size(); ++p) {
        const auto state = states.find(KeyOf(group.params()[p], states));
        if (state == states.end()) continue;
        SaveParameter(names[g][p], static_cast<typename decltype(kind)::State&>(*state->second), &items,
                      &numbers);
      }
    });
  }
  WriteSafetensors(std::move(items), {{kGroups, groups.dump()}, {kNumbers, numbers.dump()}}, bytes);
}

void OptimizerState::SaveArchive(std::string* bytes) const {
  torch::serialize::OutputArchive archive;
  optimizer_->save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string content = std::move(stream).str();
  WriteSafetensors({{kArchive,
                     "U8",
                     {static_cast<int64_t>(content.size())},
                     [&](char* to) { content.copy(to, content.size()); }}},
                   {}, bytes);
}

bool OptimizerState::Load(const std::string& bytes) {
  return LoadOrSay(name_, [&] {
    const Safetensors saved = ReadOrThrow(bytes);
    if (!IsKnown()) {
      const absl::string_view archive = saved.tensors.at(kArchive).data;
      return LoadArchive(std::string(archive));
    }
    const std::vector<std::vector<std::string>> names = Names();
    const nlohmann::json groups = nlohmann::json::parse(saved.metadata.at(kGroups));
    const nlohmann::json numbers = nlohmann::json::parse(saved.metadata.at(kNumbers));
    if (groups.size() != names.size()) throw std::invalid_argument("there are more or fewer groups now");
    // All is read before any is changed.
    std::vector<std::unique_ptr<optim::OptimizerOptions>> all_options;
    std::vector<std::unique_ptr<optim::OptimizerParamState>> all_states;
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
        all_options.push_back(std::move(loaded));
        for (size_t p = 0; p < names[g].size(); ++p) {
          all_states.push_back(
              LoadParameter<typename decltype(kind)::State>(names[g][p], group.params()[p], saved, numbers));
        }
      });
    }
    auto next_state = all_states.begin();
    auto& states = optimizer_->state();
    for (size_t g = 0; g < names.size(); ++g) {
      optim::OptimizerParamGroup& group = optimizer_->param_groups()[g];
      // In place, as schedulers may hold on to the object.
      WithKind(group.options(), [&](auto kind, auto& options) {
        options = static_cast<typename decltype(kind)::Options&>(*all_options[g]);
      });
      for (const at::Tensor& parameter : group.params()) {
        const auto key = KeyOf(parameter, states);
        states.erase(key);
        if (*next_state) states[key] = std::move(*next_state);
        ++next_state;
      }
    }
  });
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

void OptimizerState::LoadArchive(const std::string& bytes) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size());
  optimizer_->load(archive);
}

std::string RandomState::Save() {
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state().contiguous();
  return std::string(static_cast<const char*>(state.data_ptr()), static_cast<size_t>(state.numel()));
}

bool RandomState::Load(const std::string& bytes) {
  return LoadOrSay(name_, [&] {
    at::Tensor state = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_state(state);
    if (rank_ > 0) {
      torch::manual_seed(SplitMix64(std::hash<std::string>{}(bytes) + static_cast<uint64_t>(rank_)));
    }
  });
}

}  // namespace adaptdl::elastic
