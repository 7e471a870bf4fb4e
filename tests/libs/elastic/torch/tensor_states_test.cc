#include "libs/elastic/torch/tensor_states.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/elastic/checkpoint/safetensors.h"
#include "libs/elastic/torch/optimizer_state.h"
#include "torch/nn/modules/batchnorm.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/adagrad.h"
#include "torch/optim/adam.h"
#include "torch/optim/adamw.h"
#include "torch/optim/lbfgs.h"
#include "torch/optim/rmsprop.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

namespace nn = torch::nn;
namespace optim = torch::optim;

nn::Sequential MakeStatefulModel(uint64_t seed) {
  torch::manual_seed(seed);
  return nn::Sequential(nn::Linear(5, 4), nn::BatchNorm1d(4), nn::Linear(4, 1));
}

void TakeSteps(nn::Sequential& model, optim::Optimizer& optimizer, int steps) {
  const torch::Tensor inputs = torch::linspace(-1, 1, 40).reshape({8, 5});
  for (int i = 0; i < steps; ++i) {
    const auto loss = [&] {
      optimizer.zero_grad();
      const torch::Tensor value = model->forward(inputs * (i + 1)).square().mean();
      value.backward();
      return value;
    };
    optimizer.step(loss);
  }
}

void ExpectSame(nn::Sequential& actual, nn::Sequential& expected) {
  for (const auto& parameter : expected->named_parameters()) {
    EXPECT_TRUE(torch::equal(actual->named_parameters()[parameter.key()], parameter.value()))
        << parameter.key();
  }
  for (const auto& buffer : expected->named_buffers()) {
    EXPECT_TRUE(torch::equal(actual->named_buffers()[buffer.key()], buffer.value())) << buffer.key();
  }
}

TEST(ModuleState, RestoresParametersAndBuffersToTheLastBit) {
  nn::Sequential model = MakeStatefulModel(1);
  model->forward(torch::rand({8, 5}));  // moves the running means
  nn::Sequential other = MakeStatefulModel(2);
  ASSERT_TRUE(ModuleState("m", other.get()).Load(ModuleState("m", model.get()).Save()));
  ExpectSame(other, model);
}

TEST(ModuleState, HoldsTensorsByName) {
  nn::Sequential model = MakeStatefulModel(1);
  const std::string bytes = ModuleState("m", model.get()).Save();
  const auto read = ReadSafetensors(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tensors.size(), 9u);
  EXPECT_THAT(read->tensors.at("0.weight").shape, ::testing::ElementsAre(4, 5));
  EXPECT_EQ(read->tensors.at("1.num_batches_tracked").dtype, "I64");
}

TEST(ModuleState, SavesViewsInOrderOfTheirElements) {
  nn::Linear model(2, 3);
  const torch::Tensor expected = torch::arange(6).reshape({2, 3}).t().to(torch::kFloat);
  model->weight.set_data(expected);
  ASSERT_FALSE(model->weight.is_contiguous());
  nn::Linear other(2, 3);
  ASSERT_TRUE(ModuleState("m", other.get()).Load(ModuleState("m", model.get()).Save()));
  EXPECT_TRUE(torch::equal(other->weight, expected));
}

TEST(ModuleState, ChangesNothingWhenAnyTensorDoesNotFit) {
  const std::string saved = ModuleState("m", MakeStatefulModel(1).get()).Save();
  nn::Sequential wider(nn::Linear(5, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
  nn::Sequential shorter(nn::Linear(5, 4), nn::BatchNorm1d(4));
  nn::Sequential longer(nn::Linear(5, 4), nn::BatchNorm1d(4), nn::Linear(4, 1), nn::Linear(1, 1));
  nn::Sequential wide_type = MakeStatefulModel(3);
  wide_type->to(torch::kDouble);
  for (nn::Sequential* model : {&wider, &shorter, &longer, &wide_type}) {
    const torch::Tensor before = (*model)->parameters()[0].clone();
    EXPECT_FALSE(ModuleState("m", model->get()).Load(saved));
    EXPECT_TRUE(torch::equal((*model)->parameters()[0], before));
  }
}

// Hands `from` over into `to`, piece by piece.
absl::Status HandOver(PiecewiseState& from, PiecewiseState& to) {
  const std::unique_ptr<StateReader> reader = from.Read();
  auto writer = to.Write(reader->head());
  if (!writer.ok()) return writer.status();
  EXPECT_EQ((*writer)->sizes(), reader->sizes());
  for (size_t i = 0; i < reader->sizes().size(); ++i) {
    const char* const piece = reader->Read(i);
    std::copy(piece, piece + reader->sizes()[i], (*writer)->Open(i));
    (*writer)->Close(i);
  }
  return (*writer)->Commit();
}

TEST(ModuleState, IsHandedOverIntoThePlacesOfItsTensors) {
  nn::Sequential model = MakeStatefulModel(1);
  nn::Sequential other = MakeStatefulModel(2);
  ModuleState from("m", model.get());
  ModuleState to("m", other.get());
  const auto reader = from.piecewise()->Read();
  const auto writer = to.piecewise()->Write(reader->head());
  ASSERT_TRUE(writer.ok()) << writer.status();
  // Of the same type as all parameters, and so first, in order of their names.
  const torch::Tensor mine = model->named_parameters()["0.bias"];
  const torch::Tensor others = other->named_parameters()["0.bias"];
  EXPECT_EQ(reader->Read(1), static_cast<const char*>(mine.data_ptr()));
  EXPECT_EQ((*writer)->Open(1), static_cast<char*>(others.data_ptr()));
  ASSERT_TRUE(HandOver(*from.piecewise(), *to.piecewise()).ok());
  ExpectSame(other, model);
}

TEST(ModuleState, HandsViewsOverInOrderOfTheirElements) {
  const torch::Tensor expected = torch::arange(6).reshape({2, 3}).t().to(torch::kFloat);
  nn::Linear model(2, 3);
  model->weight.set_data(expected);
  nn::Linear other(2, 3);
  other->weight.set_data(torch::zeros({2, 3}).t());
  ModuleState from("m", model.get());
  ModuleState to("m", other.get());
  ASSERT_TRUE(HandOver(*from.piecewise(), *to.piecewise()).ok());
  EXPECT_TRUE(torch::equal(other->weight, expected));
}

TEST(ModuleState, RefusesOtherTensorsBeforeAnyIsWritten) {
  nn::Sequential model = MakeStatefulModel(1);
  ModuleState from("m", model.get());
  nn::Sequential wider(nn::Linear(5, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
  ModuleState to("m", wider.get());
  const absl::Status status = HandOver(*from.piecewise(), *to.piecewise());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("2.bias"));
  EXPECT_FALSE(to.piecewise()->Write("garbage").ok());
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(nn::Sequential&)>;

struct Case {
  std::string name;
  MakeOptimizer make;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

template <typename Optimizer, typename Options>
MakeOptimizer With(Options options) {
  return
      [options](nn::Sequential& model) { return std::make_unique<Optimizer>(model->parameters(), options); };
}

class AnyOptimizerState : public ::testing::TestWithParam<Case> {};

// Interrupted and restored training takes the very steps that uninterrupted training takes.
TEST_P(AnyOptimizerState, GoesOnToTheLastBit) {
  nn::Sequential straight = MakeStatefulModel(1);
  const auto straight_optimizer = GetParam().make(straight);
  TakeSteps(straight, *straight_optimizer, 3);
  const std::string model_bytes = ModuleState("m", straight.get()).Save();
  const std::string optimizer_bytes = OptimizerState("o", straight.get(), straight_optimizer.get()).Save();

  nn::Sequential resumed = MakeStatefulModel(2);
  const auto optimizer = GetParam().make(resumed);
  ASSERT_TRUE(ModuleState("m", resumed.get()).Load(model_bytes));
  OptimizerState state("o", resumed.get(), optimizer.get());
  ASSERT_TRUE(state.Load(optimizer_bytes));
  EXPECT_EQ(state.Save().size(), optimizer_bytes.size());
  TakeSteps(straight, *straight_optimizer, 4);
  TakeSteps(resumed, *optimizer, 4);
  ExpectSame(resumed, straight);
}

// As above, of an optimiser that is handed over instead.
TEST_P(AnyOptimizerState, IsHandedOverToTheLastBit) {
  nn::Sequential straight = MakeStatefulModel(1);
  const auto straight_optimizer = GetParam().make(straight);
  TakeSteps(straight, *straight_optimizer, 3);

  for (const bool reserved : {false, true}) {
    nn::Sequential joined = MakeStatefulModel(2);
    const auto optimizer = GetParam().make(joined);
    ModuleState from_model("m", straight.get());
    ModuleState to_model("m", joined.get());
    OptimizerState from("o", straight.get(), straight_optimizer.get());
    OptimizerState to("o", joined.get(), optimizer.get());
    if (reserved) to.piecewise()->Reserve();
    ASSERT_TRUE(HandOver(*from_model.piecewise(), *to_model.piecewise()).ok());
    ASSERT_TRUE(HandOver(*from.piecewise(), *to.piecewise()).ok());
    to.piecewise()->Release();
    EXPECT_EQ(to.Save(), from.Save());
    TakeSteps(straight, *straight_optimizer, 2);
    TakeSteps(joined, *optimizer, 2);
    ExpectSame(joined, straight);
  }
}

// Nothing of the optimiser changes before all has come.
TEST(OptimizerState, KeepsWhatItHasUntilAnotherIsComplete) {
  nn::Sequential model = MakeStatefulModel(1);
  optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.1).momentum(0.9));
  TakeSteps(model, optimizer, 2);
  OptimizerState from("o", model.get(), &optimizer);
  nn::Sequential other = MakeStatefulModel(2);
  optim::SGD others(other->parameters(), optim::SGDOptions(0.2).momentum(0.5));
  TakeSteps(other, others, 2);
  OptimizerState to("o", other.get(), &others);
  const std::string before = to.Save();
  {
    const auto reader = from.piecewise()->Read();
    const auto writer = to.piecewise()->Write(reader->head());
    ASSERT_TRUE(writer.ok());
    std::fill_n((*writer)->Open(0), (*writer)->sizes()[0], '\1');
    (*writer)->Close(0);
  }
  EXPECT_EQ(to.Save(), before);
}

// Before the first step there is nothing to keep yet, and restoring takes back what came after.
TEST_P(AnyOptimizerState, RestoresAFreshOne) {
  nn::Sequential model = MakeStatefulModel(1);
  const auto optimizer = GetParam().make(model);
  const std::string model_bytes = ModuleState("m", model.get()).Save();
  const std::string fresh = OptimizerState("o", model.get(), optimizer.get()).Save();
  TakeSteps(model, *optimizer, 2);
  ASSERT_TRUE(ModuleState("m", model.get()).Load(model_bytes));
  ASSERT_TRUE(OptimizerState("o", model.get(), optimizer.get()).Load(fresh));
  TakeSteps(model, *optimizer, 2);

  nn::Sequential straight = MakeStatefulModel(1);
  TakeSteps(straight, *GetParam().make(straight), 2);
  ExpectSame(model, straight);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, AnyOptimizerState,
    ::testing::Values(
        Case{"Sgd", With<optim::SGD>(optim::SGDOptions(0.01))},
        Case{"Momentum", With<optim::SGD>(optim::SGDOptions(0.01).momentum(0.9).nesterov(true))},
        Case{"Adam", With<optim::Adam>(optim::AdamOptions(0.01))},
        Case{"AmsGrad", With<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true))},
        Case{"AdamW", With<optim::AdamW>(optim::AdamWOptions(0.01).betas({0.8, 0.9}))},
        Case{"RmsProp", With<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true))},
        Case{"Adagrad", With<optim::Adagrad>(optim::AdagradOptions(0.01).lr_decay(0.1))}),
    [](const auto& info) { return info.param.name; });

std::unique_ptr<optim::Optimizer> MakeGroups(nn::Sequential& model, size_t first) {
  std::vector<torch::Tensor> all = model->parameters();
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>(all.begin(), middle));
  groups.emplace_back(std::vector<torch::Tensor>(middle, all.end()));
  return std::make_unique<optim::Adam>(groups, optim::AdamOptions(0.01));
}

TEST(OptimizerState, RestoresTheLearningRateOfEachGroup) {
  nn::Sequential model = MakeStatefulModel(1);
  const auto optimizer = MakeGroups(model, 2);
  optimizer->param_groups()[0].options().set_lr(0.5);
  optimizer->param_groups()[1].options().set_lr(1.0 / 3);
  const std::string saved = OptimizerState("o", model.get(), optimizer.get()).Save();
  const auto other = MakeGroups(model, 2);
  optim::OptimizerOptions* const options = &other->param_groups()[1].options();
  ASSERT_TRUE(OptimizerState("o", model.get(), other.get()).Load(saved));
  EXPECT_EQ(other->param_groups()[0].options().get_lr(), 0.5);
  EXPECT_EQ(other->param_groups()[1].options().get_lr(), 1.0 / 3);
  EXPECT_EQ(&other->param_groups()[1].options(), options);
}

TEST(OptimizerState, RefusesAnotherKindOrOtherGroups) {
  nn::Sequential model = MakeStatefulModel(1);
  const auto optimizer = MakeGroups(model, 2);
  TakeSteps(model, *optimizer, 1);
  const std::string saved = OptimizerState("o", model.get(), optimizer.get()).Save();
  const auto regrouped = MakeGroups(model, 3);
  optim::Adam single(model->parameters(), optim::AdamOptions(0.01));
  optim::SGD sgd(model->parameters(), optim::SGDOptions(0.01));
  for (optim::Optimizer* other : std::vector<optim::Optimizer*>{regrouped.get(), &single, &sgd}) {
    EXPECT_FALSE(OptimizerState("o", model.get(), other).Load(saved));
    EXPECT_TRUE(other->state().empty());
  }
  EXPECT_FALSE(OptimizerState("o", model.get(), optimizer.get()).Load("garbage"));
}

// As well as LibTorch can.
TEST(OptimizerState, TakesOptimisersThatItDoesNotKnow) {
  nn::Sequential model = MakeStatefulModel(1);
  optim::LBFGS optimizer(model->parameters(), optim::LBFGSOptions(0.25));
  const std::string saved = OptimizerState("o", model.get(), &optimizer).Save();
  optim::LBFGS other(model->parameters(), optim::LBFGSOptions(0.5));
  ASSERT_TRUE(OptimizerState("o", model.get(), &other).Load(saved));
  optim::SGD sgd(model->parameters(), optim::SGDOptions(0.5));
  EXPECT_FALSE(OptimizerState("o", model.get(), &sgd).Load(saved));
}

// The order in which the model lists its parameters is no part of what is saved.
TEST(OptimizerState, NamesParametersOfTheModelAndOthers) {
  nn::Sequential model = MakeStatefulModel(1);
  torch::Tensor extra = torch::ones({2}, torch::requires_grad());
  optim::SGD optimizer({model->parameters()[0], extra}, optim::SGDOptions(0.1).momentum(0.9));
  (model->parameters()[0].sum() + extra.sum()).backward();
  optimizer.step();
  const std::string bytes = OptimizerState("o", model.get(), &optimizer).Save();
  const auto read = ReadSafetensors(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->tensors.count("0.weight/momentum_buffer"), 1u);
  EXPECT_EQ(read->tensors.count("group-0/1/momentum_buffer"), 1u);
}

}  // namespace
}  // namespace adaptdl::elastic
