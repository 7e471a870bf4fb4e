// What LibTorch's optimisers consist of, field by field: their options, and what they keep per parameter.
// Included by optimizer_state.cc alone.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_OPTIMIZER_FIELDS_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_OPTIMIZER_FIELDS_H_

#include <vector>

#include "torch/optim/adagrad.h"
#include "torch/optim/adam.h"
#include "torch/optim/adamw.h"
#include "torch/optim/optimizer.h"
#include "torch/optim/rmsprop.h"
#include "torch/optim/sgd.h"

namespace adaptdl::elastic {

namespace optim = torch::optim;

// VisitFields() calls `visit` with the name of every field of an optimiser's options, or of what it keeps per
// parameter, and the field.

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

// The fields of a parameter's state that the first step makes, as tensors like the parameter.
inline std::vector<const char*> FieldsOf(const optim::SGDOptions& options) {
  if (options.momentum() == 0) return {};
  return {"momentum_buffer"};
}
template <typename Options>
std::vector<const char*> AdamFieldsOf(const Options& options) {
  std::vector<const char*> fields = {"exp_avg", "exp_avg_sq"};
  if (options.amsgrad()) fields.push_back("max_exp_avg_sq");
  return fields;
}
inline std::vector<const char*> FieldsOf(const optim::AdamOptions& options) { return AdamFieldsOf(options); }
inline std::vector<const char*> FieldsOf(const optim::AdamWOptions& options) { return AdamFieldsOf(options); }
inline std::vector<const char*> FieldsOf(const optim::RMSpropOptions& options) {
  std::vector<const char*> fields = {"square_avg"};
  if (options.momentum() > 0) fields.push_back("momentum_buffer");
  if (options.centered()) fields.push_back("grad_avg");
  return fields;
}
inline std::vector<const char*> FieldsOf(const optim::AdagradOptions&) { return {"sum"}; }

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_OPTIMIZER_FIELDS_H_
