// Values from outside: whatever they are, they are refused by name, or all that follows is finite.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"
#include "libs/goodput/speedup_table.h"

namespace adaptdl::goodput {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class Bytes {
 public:
  explicit Bytes(uint64_t seed) : engine_(seed) {}

  uint64_t Next() { return engine_(); }
  bool OneIn(uint64_t n) { return Next() % n == 0; }

  // A plausible number mostly, so that most sets have few others; else random bytes or a special value.
  double Double() {
    if (!OneIn(8)) return std::pow(10, static_cast<double>(Next() % 13) - 8);
    const std::array<double, 12> special = {0.0,
                                            -0.0,
                                            -1.0,
                                            1.0,
                                            1e6,
                                            1e150,
                                            std::numeric_limits<double>::denorm_min(),
                                            std::numeric_limits<double>::min(),
                                            std::numeric_limits<double>::max(),
                                            std::numeric_limits<double>::infinity(),
                                            -std::numeric_limits<double>::infinity(),
                                            std::numeric_limits<double>::quiet_NaN()};
    return OneIn(2) ? special[Next() % special.size()] : std::bit_cast<double>(Next());
  }

  int64_t Int() {
    if (!OneIn(8)) return static_cast<int64_t>(Next() % 10000);
    const std::array<int64_t, 6> special = {
        0, -1, 1, int64_t{1} << 40, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    return OneIn(2) ? special[Next() % special.size()] : static_cast<int64_t>(Next());
  }

 private:
  std::mt19937_64 engine_;
};

TEST(HostileInput, ModelsAndLimitsAreRefusedByNameOrGiveFiniteTables) {
  Bytes bytes(1);
  int accepted = 0;
  int refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const PerfParams perf = {bytes.Double(), bytes.Double(), bytes.Double(),         bytes.Double(),
                             bytes.Double(), bytes.Double(), 1 + bytes.Double() / 10};
    const GradParams grad = {bytes.Double(), bytes.Double()};
    const int64_t init = bytes.Int();
    const BatchLimits limits = {bytes.Int(), bytes.Int(), bytes.Int(), bytes.OneIn(2)};
    if (const absl::Status status = Validate(perf); !status.ok()) {
      ++refused;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  AnyOf(HasSubstr("alpha_"), HasSubstr("beta_"), HasSubstr("gamma")));
      continue;
    }
    if (const absl::Status status = Validate(grad); !status.ok()) {
      ++refused;
      EXPECT_THAT(std::string(status.message()), AnyOf(HasSubstr("norm"), HasSubstr("var")));
      continue;
    }
    if (const absl::Status status = Validate(limits, init); !status.ok()) {
      ++refused;
      EXPECT_THAT(std::string(status.message()), HasSubstr("_batch_size"));
      continue;
    }
    ++accepted;
    const GoodputFunction goodput(perf, grad, init);
    for (const double scale : {1.0, 1.6, 2.5, 1000.0}) {
      const double efficiency = goodput.Efficiency(static_cast<double>(init) * scale);
      EXPECT_GT(efficiency, 0);
      EXPECT_LE(efficiency, 1 + 1e-15);
    }
    const SpeedupTable table = SpeedupTable::Build(goodput, limits, 8);
    EXPECT_TRUE(std::isfinite(table.base_goodput()) && table.base_goodput() >= 0);
    for (int replicas = 0; replicas <= 8; ++replicas) {
      for (const int nodes : {1, 2}) {
        const double speedup = table.At(nodes, replicas);
        EXPECT_TRUE(std::isfinite(speedup) && speedup >= 0) << trial << " " << speedup;
      }
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(HostileInput, MeasurementsAreRefusedByNameOrGiveAValidModel) {
  Bytes bytes(2);
  int accepted = 0;
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<Measurement> measurements(1 + bytes.Next() % 5);
    for (Measurement& m : measurements) {
      m.nodes = bytes.OneIn(40) ? static_cast<int>(bytes.Next()) : 1 + static_cast<int>(bytes.Next() % 3);
      m.replicas =
          bytes.OneIn(40) ? static_cast<int>(bytes.Next()) : m.nodes + static_cast<int>(bytes.Next() % 4);
      m.atomic_batch_size = bytes.Int();
      m.accum_time = bytes.Double();
      m.optim_time = bytes.Double();
      m.weight = bytes.OneIn(2) ? 1 : bytes.Double();
    }
    const auto fitted = FitPerfParams(measurements);
    if (fitted.ok()) {
      ++accepted;
      EXPECT_TRUE(Validate(*fitted).ok()) << trial << " " << Validate(*fitted);
      continue;
    }
    ++refused;
    EXPECT_EQ(fitted.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(fitted.status().message()),
                AnyOf(HasSubstr("accum_time"), HasSubstr("optim_time"), HasSubstr("weight"),
                      HasSubstr("nodes"), HasSubstr("atomic_batch_size")));
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace adaptdl::goodput
