#include "adaptdl/prefetcher.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

using ::testing::ElementsAre;

// Batches that cannot be copied, as data sets may have.
using Batch = std::unique_ptr<int64_t>;
using Indices = std::vector<int64_t>;

Batch Sum(const Indices& indices) {
  int64_t sum = 0;
  for (const int64_t index : indices) sum += index;
  return std::make_unique<int64_t>(sum);
}

TEST(Prefetcher, GivesWhatIsAskedForWithAnyNumberOfWorkers) {
  for (const int workers : {0, 1, 3}) {
    Prefetcher<Batch> prefetcher(Sum, std::vector<Prefetcher<Batch>::Reader>(workers, Sum));
    for (int64_t i = 0; i < 200; ++i) {
      EXPECT_EQ(*prefetcher.Take({i, 1}), i + 1);
      prefetcher.Expect({{i + 1, 1}, {i + 2, 1}, {i + 3, 1}});
    }
  }
}

TEST(Prefetcher, ReadsAhead) {
  std::promise<Indices> read;
  Prefetcher<Batch> prefetcher(Sum, {[&](const Indices& indices) {
                                 read.set_value(indices);
                                 return Sum(indices);
                               }});
  prefetcher.Expect({{1, 2}});
  EXPECT_THAT(read.get_future().get(), ElementsAre(1, 2));
  EXPECT_EQ(*prefetcher.Take({1, 2}), 3);
}

TEST(Prefetcher, NothingIsTakenThatWasReadForAnotherBatchSize) {
  std::atomic<int> reads{0};
  const auto reader = [&](const Indices& indices) {
    ++reads;
    return Sum(indices);
  };
  Prefetcher<Batch> prefetcher(reader, {reader});
  prefetcher.Expect({{1, 2}, {3, 4}});
  EXPECT_EQ(*prefetcher.Take({1, 2, 3}), 6);
  prefetcher.Expect({{4, 5, 6}});
  EXPECT_EQ(*prefetcher.Take({4, 5, 6}), 15);
  EXPECT_LE(reads, 4);
}

TEST(Prefetcher, HandsOnWhatAReaderThrows) {
  std::promise<void> begun;
  Prefetcher<Batch> prefetcher(Sum, {[&](const Indices&) -> Batch {
                                 begun.set_value();
                                 throw std::runtime_error("a broken file");
                               }});
  prefetcher.Expect({{1}});
  begun.get_future().wait();
  EXPECT_THROW((void)prefetcher.Take({1}), std::runtime_error);
}

TEST(Prefetcher, EndsWithReadsThatNobodyTakes) {
  Prefetcher<Batch> prefetcher(Sum, {Sum, Sum});
  prefetcher.Expect({{1}, {2}, {3}, {4}});
}

}  // namespace
}  // namespace adaptdl
