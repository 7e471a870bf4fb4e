#include "adaptdl/bptt.h"

#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/data/loader_trace.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

TEST(Bptt, ReadsEachTokenOnceOverAnyScheduleOfRescales) {
  std::mt19937 random(1);
  for (int schedule = 0; schedule < 10; ++schedule) {
    TempFolder folder;
    std::mutex mutex;
    std::map<int64_t, int> seen;
    for (const Segment& segment : RandomSegments(random, 9, 4)) {
      RunReplicas(segment.replicas, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
        BpttIterator text(replica.job, 6 * 50 + 4, {.columns = 6, .length = 7, .max_local_batch_size = 2});
        if (!text.BeginLoop()) return;
        while (text.Next()) {
          std::lock_guard<std::mutex> lock(mutex);
          for (int64_t i = 0; i < text.core().weight(); ++i) {
            const TokenRange range = text.ranges()[i];
            for (int64_t token = range.begin; token < range.end; ++token) ++seen[token];
          }
          if (!text.core().is_optimizer_step()) continue;
          replica.job.core().loop().OnOptimizerStep(0);
          if (replica.job.optimizer_steps() == segment.stop_after) replica.job.RequestStop();
        }
      });
    }
    ASSERT_EQ(seen.size(), 300u) << "schedule " << schedule;
    for (const auto& [token, times] : seen) EXPECT_EQ(times, 1) << "token " << token;
  }
}

TEST(Bptt, SaysWhetherAStateCanBeCarriedOn) {
  RunReplicas(2, {}, [&](Replica& replica) {
    BpttIterator text(replica.job, 41, {.columns = 4, .length = 4});
    std::vector<TokenRange> rows;
    std::vector<bool> continues;
    for (text.BeginLoop(); text.Next();) {
      rows.push_back(text.ranges().back());
      continues.push_back(text.continues());
    }
    EXPECT_THAT(continues, ElementsAre(false, true, true));
    // Columns of 10 tokens; a replica has every other one.
    const int64_t begin = 20 + 10 * replica.job.rank();
    EXPECT_THAT(rows, ElementsAre(TokenRange{begin, begin + 4}, TokenRange{begin + 4, begin + 8},
                                  TokenRange{begin + 8, begin + 10}));
  });
}

}  // namespace
}  // namespace adaptdl::elastic
