#include "adaptdl/shard_reader.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

using ::testing::ElementsAre;
using Reader = ShardReader<int64_t>;

// Shard s has the samples 10 s, 10 s + 1, ..., `length` of them.
Reader::OpenShard Shards(int64_t length) {
  return [length](int64_t shard, int64_t skip) {
    return [=, next = skip]() mutable {
      return next < length ? std::optional(10 * shard + next++) : std::nullopt;
    };
  };
}

// (position, sample); -1: the shard's end.
std::vector<std::pair<int64_t, int64_t>> TakeAll(Reader& reader) {
  std::vector<std::pair<int64_t, int64_t>> reads;
  while (!reader.empty()) {
    const Reader::Read read = reader.Take();
    reads.emplace_back(read.position, read.sample.value_or(-1));
  }
  return reads;
}

class ShardReaderTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(ShardReaderTest, ReadsOneShardAfterTheOther) {
  Reader reader(Shards(3), GetParam());
  EXPECT_TRUE(reader.empty());
  reader.Add(4, 1);
  reader.Add(2, 3);
  reader.Add(1, 2);
  EXPECT_THAT(TakeAll(reader), ElementsAre(std::pair(2, 41), std::pair(3, 42), std::pair(3, -1),
                                           std::pair(3, -1), std::pair(3, 12), std::pair(3, -1)));
  EXPECT_EQ(reader.First(7), 70);
}

TEST_P(ShardReaderTest, ForgetsWhatItHadWhenItIsCleared) {
  Reader reader(Shards(3), GetParam());
  reader.Add(4, 0);
  reader.Take();
  reader.Clear();
  EXPECT_TRUE(reader.empty());
  reader.Add(4, 0);
  EXPECT_EQ(reader.Take().sample, 40);
  EXPECT_EQ(reader.Take().sample, 41);
}

TEST_P(ShardReaderTest, ThrowsWhatTheStreamThrew) {
  Reader reader(
      [](int64_t, int64_t) -> Reader::Stream {
        return []() -> std::optional<int64_t> { throw std::runtime_error("cannot read"); };
      },
      GetParam());
  reader.Add(0, 0);
  EXPECT_THROW(reader.Take(), std::runtime_error);
  EXPECT_TRUE(reader.empty());
}

INSTANTIATE_TEST_SUITE_P(ReadAhead, ShardReaderTest, ::testing::Values(0, 1, 2, 100));

TEST(ShardReader, ReadsAheadAndNoFurther) {
  std::promise<void> two_were_read;
  std::atomic<int64_t> read = 0;
  {
    Reader reader(
        [&](int64_t, int64_t) -> Reader::Stream {
          return [&]() -> std::optional<int64_t> {
            if (++read == 2) two_were_read.set_value();
            return read.load();
          };
        },
        2);
    reader.Add(0, 0);
    two_were_read.get_future().wait();
  }
  EXPECT_EQ(read, 2);
}

}  // namespace
}  // namespace adaptdl
