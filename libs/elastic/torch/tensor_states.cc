#include "libs/elastic/torch/tensor_states.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
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
#include "libs/elastic/checkpoint/safetensors.h"
#include "libs/elastic/checkpoint/streaming_copy.h"
#include "libs/elastic/data/philox.h"
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

// The tensor itself, or a copy of it whose elements lie one after the other, on the CPU.
at::Tensor Plain(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

bool IsPlain(const at::Tensor& tensor) { return tensor.is_cpu() && tensor.is_contiguous(); }

using NamedTensor = std::pair<std::string, at::Tensor>;

SafetensorsItem ItemOf(const NamedTensor& named) {
  const auto& [name, tensor] = named;
  return {name, TypeName(tensor.scalar_type()), tensor.sizes().vec(), [tensor = tensor](char* to) {
            const at::Tensor plain = Plain(tensor);
            StreamingCopy(to, plain.data_ptr(), plain.nbytes());
          }};
}

class TensorReader final : public StateReader {
 public:
  TensorReader(std::vector<NamedTensor> tensors, SafetensorsMetadata metadata)
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

  const std::string& head() const override { return head_; }
  const std::vector<int64_t>& sizes() const override { return sizes_; }
  const char* Read(size_t index) override {
    current_ = Plain(tensors_[index]);
    return static_cast<const char*>(current_.data_ptr());
  }

  // All of it, in place of what `bytes` holds.
  void CopyInto(std::string* bytes) && { WriteSafetensors(std::move(items_), metadata_, bytes); }

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
  TensorWriter(std::string state, std::vector<at::Tensor> tensors, std::function<void()> commit)
      : state_(std::move(state)), tensors_(std::move(tensors)), commit_(std::move(commit)) {
    for (at::Tensor& tensor : tensors_) {
      tensor = tensor.detach();
      sizes_.push_back(static_cast<int64_t>(tensor.numel() * tensor.element_size()));
    }
  }

  const std::vector<int64_t>& sizes() const override { return sizes_; }

  char* Open(size_t index) override {
    const at::Tensor& tensor = tensors_[index];
    current_ = IsPlain(tensor) ? tensor : at::empty(tensor.sizes(), tensor.scalar_type());
    return static_cast<char*>(current_.data_ptr());
  }

  void Close(size_t index) override {
    if (!IsPlain(tensors_[index])) tensors_[index].copy_(current_);
    current_ = at::Tensor();
  }

  absl::Status Commit() override {
    try {
      commit_();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat("the state \"", state_, "\": ", error.what()));
    }
  }

 private:
  const std::string state_;
  std::vector<at::Tensor> tensors_;
  std::vector<int64_t> sizes_;
  const std::function<void()> commit_;
  at::Tensor current_;
};

// Throws unless `saved` has the type and shape of `like`.
void CheckFits(const SafetensorsLayout::Entry& saved, const at::Tensor& like) {
  if (saved.dtype != TypeName(like.scalar_type()) || at::IntArrayRef(saved.shape) != like.sizes()) {
    throw std::invalid_argument(absl::StrCat("the saved ", saved.name, " has another type or shape"));
  }
}

// `make` gets what a head says, and makes a writer or throws.
template <typename Make>
absl::StatusOr<std::unique_ptr<StateWriter>> MakeWriter(const std::string& state, const std::string& head,
                                                        Make make) {
  absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHead(head);
  if (!layout.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the state \"", state, "\": ", layout.status().message()));
  }
  try {
    torch::NoGradGuard no_gradients;
    return make(*std::move(layout));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("the state \"", state, "\": ", error.what()));
  }
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

// The fields of a parameter's state that the first step makes, as tensors like the parameter.
std::vector<const char*> FieldsOf(const optim::SGDOptions& options) {
  if (options.momentum() == 0) return {};
  return {"momentum_buffer"};
}
template <typename Options>
std::vector<const char*> AdamFieldsOf(const Options& options) {
  std::vector<const char*> fields = {"exp_avg", "exp_avg_sq"};
  if (options.amsgrad()) fields.push_back("max_exp_avg_sq");
  return fields;
}
std::vector<const char*> FieldsOf(const optim::AdamOptions& options) { return AdamFieldsOf(options); }
std::vector<const char*> FieldsOf(const optim::AdamWOptions& options) { return AdamFieldsOf(options); }
std::vector<const char*> FieldsOf(const optim::RMSpropOptions& options) {
  std::vector<const char*> fields = {"square_avg"};
  if (options.momentum() > 0) fields.push_back("momentum_buffer");
  if (options.centered()) fields.push_back("grad_avg");
  return fields;
}
std::vector<const char*> FieldsOf(const optim::AdagradOptions&) { return {"sum"}; }

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

// --- Both ---

std::string TensorState::Save() {
  std::string bytes;
  SaveInto(&bytes);
  return bytes;
}

void TensorState::SaveInto(std::string* bytes) {
  const std::unique_ptr<StateReader> reader = Read();
  std::move(static_cast<TensorReader&>(*reader)).CopyInto(bytes);
}

bool TensorState::Load(const std::string& bytes) {
  return LoadOrSay(name_, [&] {
    const auto layout = ReadSafetensorsHead(bytes);
    if (!layout.ok()) throw std::invalid_argument(std::string(layout.status().message()));
    const auto head_bytes = static_cast<size_t>(layout->head_bytes);
    if (static_cast<int64_t>(bytes.size() - head_bytes) != layout->data_bytes) {
      throw std::invalid_argument("the tensors do not fit the size of the data");
    }
    const auto writer = Write(bytes.substr(0, head_bytes));
    if (!writer.ok()) throw std::invalid_argument(std::string(writer.status().message()));
    const char* from = bytes.data() + head_bytes;
    const std::vector<int64_t>& sizes = (*writer)->sizes();
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] > 0) std::memcpy((*writer)->Open(i), from, static_cast<size_t>(sizes[i]));
      if (sizes[i] > 0) (*writer)->Close(i);
      from += sizes[i];
    }
    const absl::Status committed = (*writer)->Commit();
    if (!committed.ok()) throw std::invalid_argument(std::string(committed.message()));
  });
}

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

// --- Optimiser ---

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

// --- Random generator ---

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
