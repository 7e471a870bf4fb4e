#include "libs/pastwork/past_work.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace adaptdl::pastwork {
namespace {

PastWork Of(const std::vector<double>& works) {
  PastWork past;
  for (const double work : works) past.Add(work);
  return past;
}

// So many jobs whose logarithms scatter like this.
PastWork Scattered(int jobs, double mean, double deviation) {
  return {jobs, std::log(mean), (jobs - 1) * deviation * deviation};
}

// The same by brute force: expected work by expected ends, over stretches of every length.
double Brute(double mean_log, double deviation, double done) {
  const auto alive = [&](double work) {
    return std::erfc((std::log(work) - mean_log) / deviation / std::numbers::sqrt2) / 2;
  };
  const double there = alive(done);
  double least = std::numeric_limits<double>::infinity();
  double work = 0;
  double at = done;
  for (int i = 0; i < 200'000; ++i) {
    const double next = at * 1.0001;
    work += (next - at) * (alive(at) + alive(next)) / 2;
    at = next;
    if (there - alive(at) > 1e-12) least = std::min(least, work / (there - alive(at)));
  }
  return least;
}

TEST(PastWorkTest, SaysNothingWhereNothingIsKnown) {
  EXPECT_EQ(PastWork().Length(100), std::nullopt);
  EXPECT_EQ(Of({0, -1, std::nan(""), std::numeric_limits<double>::infinity()}).Length(0), std::nullopt);
  EXPECT_EQ((PastWork{3, std::nan(""), 1}).Length(0), std::nullopt);
  EXPECT_EQ((PastWork{3, 1, std::nan("")}).Length(0), std::nullopt);
  EXPECT_EQ((PastWork{3, 1, -1}).Length(0), std::nullopt);
  EXPECT_EQ((PastWork{-3, 1, 1}).Length(0), std::nullopt);
  EXPECT_EQ((PastWork{3, 1e300, 1}).Length(0), std::nullopt);
}

TEST(PastWorkTest, CountsMeanAndScatterOfLogarithms) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(10, 0.7);
  std::vector<double> logs;
  PastWork past;
  for (int i = 0; i < 200; ++i) {
    logs.push_back(normal(random));
    past.Add(std::exp(logs.back()));
  }
  double mean = 0;
  for (const double log : logs) mean += log / 200;
  double squares = 0;
  for (const double log : logs) squares += (log - mean) * (log - mean);
  EXPECT_EQ(past.jobs, 200);
  EXPECT_NEAR(past.mean_log, mean, 1e-9);
  EXPECT_NEAR(past.squares_log, squares, 1e-9);
}

TEST(PastWorkTest, OfJobsThatAreAllAlikeWhatIsLeftIsLeft) {
  const PastWork past = Of(std::vector<double>(2000, 1e6));
  for (const double done : {0.0, 1e3, 2e5, 5e5, 8e5}) {
    EXPECT_NEAR(*past.Length(done), 1e6 - done, 0.03 * 1e6) << done;
  }
}

TEST(PastWorkTest, IsTheLeastExpectedWorkForEachJobThatIsDone) {
  for (const double deviation : {0.3, 0.7, 1.5}) {
    const int jobs = 100'000;  // The guess does not count.
    const PastWork past = Scattered(jobs, 1e5, deviation);
    for (const double z : {-3.0, -1.0, 0.0, 1.0, 2.0, 4.0, 4.9}) {
      const double done = 1e5 * std::exp(deviation * z);
      const double brute = Brute(std::log(1e5), deviation, done);
      EXPECT_NEAR(*past.Length(done) / brute, 1, 0.03) << deviation << " " << z;
    }
  }
}

TEST(PastWorkTest, WhoDidMoreThanItsKindCountsAsLongerAndLonger) {
  for (const int jobs : {1, 3, 50}) {
    const PastWork past = Scattered(jobs, 1e4, 0.5);
    double before = 0;
    for (int i = 0; i < 100; ++i) {
      const double done = 1e5 * std::pow(1.7, i);
      const std::optional<double> length = past.Length(done);
      ASSERT_TRUE(length.has_value()) << done;
      EXPECT_GT(*length, before) << jobs << " " << done;
      before = *length;
    }
  }
}

TEST(PastWorkTest, OfOneJobTheNextMayDifferMuch) {
  EXPECT_NEAR(*Scattered(1, 1e4, 0).Length(0), 1e4, 5e3);
  // It is not taken to be over soon when it has done nearly as much.
  EXPECT_GT(*Scattered(1, 1e4, 0).Length(0.95e4), 4e3);
  EXPECT_LT(*Scattered(500, 1e4, 0).Length(0.95e4), 1e3);
}

TEST(PastWorkTest, IsFiniteAndAboveZeroWhateverWasDone) {
  for (const double deviation : {0.0, 0.01, 1.0, 30.0}) {
    for (const int jobs : {1, 2, 1000}) {
      const PastWork past = Scattered(jobs, 1e6, deviation);
      for (const double done : {-1.0, 0.0, 1e-300, 1.0, 1e5, 999'999.0, 1e6, 1e7, 1e40}) {
        const std::optional<double> length = past.Length(done);
        ASSERT_TRUE(length.has_value()) << deviation << " " << jobs << " " << done;
        EXPECT_GT(*length, 0);
        EXPECT_TRUE(std::isfinite(*length));
      }
    }
  }
}

}  // namespace
}  // namespace adaptdl::pastwork
