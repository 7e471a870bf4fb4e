// What the exchange makes of gradients, by their definition: on main memory, and on a device that the host
// cannot touch.

#include "libs/elastic/gradients/gradient_exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/gradients/exchange_member.h"

namespace adaptdl::elastic {
namespace {

using device::DataType;
using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Four parameters of two groups, and a buffer. Sizes that are no multiple of anything, and one without
// numbers.
ModelTensors::Layout LayoutOf(DataType type) {
  return {.parameters = {{7, type, 0}, {33, type, 1}, {0, type, 0}, {130, type, 0}},
          .num_groups = 2,
          .buffers = {3}};
}

Gradients RandomGradients(const ModelTensors::Layout& layout, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  Gradients gradients;
  for (const ModelTensors::Parameter& parameter : layout.parameters) {
    Numbers numbers;
    for (int64_t i = 0; i < parameter.count; ++i) numbers.push_back(random() / 4294967296.0 - 0.5);
    gradients.emplace_back(device::Rounded(numbers, parameter.type));
  }
  return gradients;
}

// By definition, of passes of all replicas: averages, and sums by group.
struct Expected {
  Gradients averages;
  Numbers local_sqr;
  Numbers total_sqr;
  int64_t micro_batches = 0;
};

Expected Define(const ModelTensors::Layout& layout,
                const std::vector<std::vector<MicroBatchPass>>& replicas) {
  Expected expected;
  expected.averages.resize(layout.parameters.size());
  expected.local_sqr.assign(static_cast<size_t>(layout.num_groups), 0);
  expected.total_sqr = expected.local_sqr;
  for (const auto& passes : replicas) {
    for (const MicroBatchPass& pass : passes) {
      if (pass.weight == 0) continue;
      ++expected.micro_batches;
      for (size_t i = 0; i < pass.gradients.size(); ++i) {
        if (!pass.gradients[i]) continue;
        auto& average = expected.averages[i];
        if (!average) average = Numbers(pass.gradients[i]->size(), 0);
        for (size_t k = 0; k < average->size(); ++k) {
          const double number = (*pass.gradients[i])[k];
          (*average)[k] += pass.weight * number;
          expected.local_sqr[static_cast<size_t>(layout.parameters[i].group)] +=
              pass.weight * number * number;
        }
      }
    }
  }
  for (size_t i = 0; i < expected.averages.size(); ++i) {
    if (!expected.averages[i]) continue;
    for (const double number : *expected.averages[i]) {
      expected.total_sqr[static_cast<size_t>(layout.parameters[i].group)] += number * number;
    }
  }
  return expected;
}

// Of numbers of about this size, in one of these types.
double Tolerance(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return 1e-12;
    case DataType::kFloat16:
      return 2e-3;
    case DataType::kBFloat16:
      return 1.6e-2;
    default:
      return 1e-6;
  }
}

void ExpectAverages(const Gradients& actual, const Gradients& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(actual[i].has_value(), expected[i].has_value());
    if (!actual[i]) continue;
    ASSERT_EQ(actual[i]->size(), expected[i]->size());
    for (size_t k = 0; k < actual[i]->size(); ++k) EXPECT_NEAR((*actual[i])[k], (*expected[i])[k], tolerance);
  }
}

void ExpectSums(const Numbers& actual, const Numbers& expected, double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t group = 0; group < actual.size(); ++group) {
    EXPECT_NEAR(actual[group], expected[group], relative * std::max(1.0, expected[group])) << group;
  }
}

class Exchange : public testing::TestWithParam<DeviceKind> {};

// --- Averages of all shapes of steps ---

using Dealt = std::vector<Numbers>;  // weights by replica, then micro-batch

class Averages : public testing::TestWithParam<std::tuple<DeviceKind, DataType, Dealt>> {
 protected:
  void Check(const GradientExchange::Options& options, double tolerance) {
    const auto [kind, type, dealt] = GetParam();
    const ModelTensors::Layout layout = LayoutOf(type);
    std::vector<std::vector<MicroBatchPass>> passes;
    int seed = 0;
    for (const Numbers& weights : dealt) {
      passes.emplace_back();
      for (const double weight : weights) {
        passes.back().push_back({weight, RandomGradients(layout, ++seed)});
        // A share of nothing counts for nothing, whatever it is.
        if (weight == 0) (*passes.back().back().gradients[1])[5] = kNan;
      }
    }
    const Expected expected = Define(layout, passes);
    ExchangeGroup group(kind, static_cast<int>(dealt.size()), layout, options);
    group.Run([&](ExchangeMember& member, size_t rank) {
      member.model().SetBuffer(0, Numbers(3, static_cast<double>(rank)));
      for (int step = 0; step < 2; ++step) {
        member.exchange().ClearGradients();
        const auto result = member.Step(passes[rank]);
        ASSERT_TRUE(result.ok()) << result.status();
        ExpectAverages(member.Averages(), expected.averages, tolerance);
        EXPECT_EQ(result->micro_batches, expected.micro_batches);
        EXPECT_TRUE(result->measured);
        ExpectSums(result->total_sqr, expected.total_sqr, tolerance);
        if (expected.micro_batches > 1)
          ExpectSums(result->local_sqr, expected.local_sqr, std::max(tolerance, 1e-6));
        const auto size = static_cast<double>(dealt.size());
        EXPECT_THAT(result->signals, ElementsAre(3 * size, 4 * size));
        EXPECT_TRUE(result->finite);
      }
      EXPECT_EQ(member.sent, dealt.size() > 1 ? 2 : 0) << "once per step";
    });
  }
};

TEST_P(Averages, AreTheWholeBatchs) {
  const DataType type = std::get<1>(GetParam());
  for (const int64_t bytes : {int64_t{1}, int64_t{160}, int64_t{1} << 20}) {
    for (const bool overlap : {true, false}) {
      for (const bool as_they_are : {false, true}) {
        SCOPED_TRACE(testing::Message() << bytes << " " << overlap << " " << as_they_are);
        // Where each addition is rounded.
        const double tolerance = Tolerance(type) * (as_they_are ? 2 : 1);
        Check({.buckets = {.bytes = bytes, .reduce_halves_as_they_are = as_they_are}, .overlap = overlap},
              tolerance);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Dealt, Averages,
    testing::Combine(testing::ValuesIn(DeviceKinds()),
                     testing::Values(DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                                     DataType::kBFloat16),
                     testing::Values(Dealt{{1}}, Dealt{{.5, .5}}, Dealt{{.625, .25, .125}}, Dealt{{.5}, {.5}},
                                     Dealt{{.25}, {.75}}, Dealt{{.25, .125}, {.25, .375}},
                                     Dealt{{.125, .125}, {0, .5}, {.25, 0}}, Dealt{{.5}, {.5}, {0}})),
    [](const auto& info) {
      return NameOf(std::get<0>(info.param)) + "_" + device::NameOf(std::get<1>(info.param)) + "_" +
             std::to_string(info.index % 8);
    });

// --- What a step can be, else ---

TEST_P(Exchange, BuffersAreAveragedBySamples) {
  ExchangeGroup group(GetParam(), 2, LayoutOf(DataType::kFloat32));
  group.Run([&](ExchangeMember& member, size_t rank) {
    member.model().SetBuffer(0, rank == 0 ? Numbers{8, 1, 2} : Numbers{4, 5, 2});
    const double weight = rank == 0 ? 0.25 : 0.75;
    const auto result = member.Step({{weight, RandomGradients(member.model().layout(), 1)}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(member.model().Buffer(0), ElementsAre(5, 4, 2));
  });
}

TEST_P(Exchange, AGradientThatNobodyHasIsNone) {
  const ModelTensors::Layout layout = LayoutOf(DataType::kFloat32);
  ExchangeGroup group(GetParam(), 2, layout);
  const std::vector<std::vector<MicroBatchPass>> passes = {{{.5, RandomGradients(layout, 1)}},
                                                           {{.5, RandomGradients(layout, 2)}}};
  group.Run([&](ExchangeMember& member, size_t rank) {
    std::vector<std::vector<MicroBatchPass>> partly = passes;
    partly[0][0].gradients[1].reset();
    partly[1][0].gradients[1].reset();
    partly[1][0].gradients[3].reset();
    for (const auto& step : {passes, partly, passes}) {
      member.exchange().ClearGradients();
      const auto result = member.Step(step[rank]);
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectAverages(member.Averages(), Define(layout, step).averages, 1e-6);
    }
  });
}

TEST_P(Exchange, AStepMayHaveNoBackwardPassHere) {
  const ModelTensors::Layout layout = LayoutOf(DataType::kFloat32);
  ExchangeGroup group(GetParam(), 2, layout);
  const std::vector<std::vector<MicroBatchPass>> passes = {{{1, RandomGradients(layout, 1)}}, {}};
  group.Run([&](ExchangeMember& member, size_t rank) {
    member.pass.weight = 0;
    const auto result = member.Step(passes[rank]);
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectAverages(member.Averages(), Define(layout, passes).averages, 1e-6);
    EXPECT_EQ(result->micro_batches, 1);
  });
}

TEST_P(Exchange, FollowsWhatIsFrozenAndTrainedAgain) {
  const ModelTensors::Layout layout = LayoutOf(DataType::kFloat32);
  ExchangeGroup group(GetParam(), 2, layout, {.buckets = {.bytes = 160}});
  group.Run([&](ExchangeMember& member, size_t rank) {
    for (const size_t frozen : {size_t{1}, size_t{3}, size_t{1}, size_t{9}}) {
      std::vector<std::vector<MicroBatchPass>> passes = {{{.5, RandomGradients(layout, 1)}},
                                                         {{.5, RandomGradients(layout, 2)}}};
      for (size_t i = 0; i < layout.parameters.size(); ++i) {
        member.model().SetTrained(i, i != frozen);
        if (i == frozen) passes[0][0].gradients[i].reset();
        if (i == frozen) passes[1][0].gradients[i].reset();
      }
      member.exchange().ClearGradients();
      const auto result = member.Step(passes[rank]);
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectAverages(member.Averages(), Define(layout, passes).averages, 1e-6);
    }
  });
}

TEST_P(Exchange, HooksMayRunOnSeveralStreams) {
  const ModelTensors::Layout layout = LayoutOf(DataType::kFloat32);
  for (const int size : {1, 2}) {
    ExchangeGroup group(GetParam(), size, layout, {.buckets = {.bytes = 300}});
    group.Run([&](ExchangeMember& member, size_t rank) {
      const auto one = member.device().CreateStream().value();
      const auto other = member.device().CreateStream().value();
      member.model().SetStreams({one->get(), other->get()});
      std::vector<std::vector<MicroBatchPass>> passes;
      for (int k = 0; k < size; ++k) passes.push_back({{1.0 / size, RandomGradients(layout, k)}});
      for (int step = 0; step < 3; ++step) {
        member.exchange().ClearGradients();
        const auto result = member.Step(passes[rank]);
        ASSERT_TRUE(result.ok()) << result.status();
        ExpectAverages(member.Averages(), Define(layout, passes).averages, 1e-6);
        ExpectSums(result->total_sqr, Define(layout, passes).total_sqr, 1e-6);
      }
      member.model().SetStreams({});
    });
  }
}

// --- Loss scaling ---

TEST_P(Exchange, TheLossScaleIsTakenOutOfAllThatIsTold) {
  const ModelTensors::Layout layout = LayoutOf(DataType::kFloat32);
  for (const int size : {1, 2}) {
    std::vector<std::vector<MicroBatchPass>> passes;
    std::vector<std::vector<MicroBatchPass>> scaled;
    for (int k = 0; k < size; ++k) {
      passes.push_back(
          {{.5 / size, RandomGradients(layout, k)}, {.5 / size, RandomGradients(layout, 9 + k)}});
      scaled.push_back(passes.back());
      for (MicroBatchPass& pass : scaled.back()) {
        for (auto& gradient : pass.gradients) {
          for (double& number : *gradient) number *= 1024;
        }
      }
    }
    const Expected expected = Define(layout, passes);
    // Gradients may stay multiplied, for the program to divide them; what is told of them is the same.
    for (const bool keeps : {false, true}) {
      std::vector<std::optional<Numbers>> averages = expected.averages;
      for (auto& average : averages) {
        for (double& number : *average) number *= keeps ? 1024 : 1;
      }
      ExchangeGroup group(GetParam(), size, layout);
      group.Run([&](ExchangeMember& member, size_t rank) {
        member.pass.loss_scale = 1024;
        member.pass.keeps_loss_scale = keeps;
        member.pass.check_finite = true;
        const auto result = member.Step(scaled[rank]);
        ASSERT_TRUE(result.ok()) << result.status();
        ExpectAverages(member.Averages(), averages, keeps ? 1e-3 : 1e-6);
        ExpectSums(result->local_sqr, expected.local_sqr, 1e-6);
        ExpectSums(result->total_sqr, expected.total_sqr, 1e-6);
        EXPECT_TRUE(result->finite);
      });
    }
  }
}

TEST_P(Exchange, SeesOverflowsOfAnyReplicaOnAll) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const ModelTensors::Layout layout = LayoutOf(type);
    for (const int size : {1, 2}) {
      for (const double bad : {kInf, -kInf, kNan}) {
        ExchangeGroup group(GetParam(), size, layout);
        group.Run([&](ExchangeMember& member, size_t rank) {
          // Whether it is measured does not matter.
          member.plan = {};
          member.pass.check_finite = true;
          MicroBatchPass pass{1.0 / size, RandomGradients(layout, static_cast<int>(rank))};
          auto result = member.Step({pass});
          ASSERT_TRUE(result.ok()) << result.status();
          EXPECT_TRUE(result->finite);
          if (rank == 0) pass.gradients[3]->back() = bad;
          member.exchange().ClearGradients();
          result = member.Step({pass});
          ASSERT_TRUE(result.ok()) << result.status();
          EXPECT_FALSE(result->finite);
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, Exchange, testing::ValuesIn(DeviceKinds()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace adaptdl::elastic
