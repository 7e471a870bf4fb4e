#include "libs/base/process/proc_stat.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace adaptdl {
namespace {

TEST(ProcStat, ReadsTheFieldsBehindAnyName) {
  const auto stat = ParseProcStat(
      "4321 (odd) 7 (name) S 17 4321 4321 0 -1 4194560 1 0 0 0 250 31 0 0 20 0 5 0 98765 8192000 210 "
      "18446744073709551615 1 1 0\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'S');
  EXPECT_FALSE(stat->ended());
  EXPECT_EQ(stat->parent, 17);
  EXPECT_EQ(stat->user_ticks, 250u);
  EXPECT_EQ(stat->system_ticks, 31u);
  EXPECT_EQ(stat->threads, 5);
  EXPECT_EQ(stat->start_time, 98765u);
  EXPECT_EQ(stat->virtual_memory_bytes, 8192000u);
  EXPECT_EQ(stat->resident_pages, 210);
}

TEST(ProcStat, RefusesWhatIsNone) {
  EXPECT_FALSE(ParseProcStat("").has_value());
  EXPECT_FALSE(ParseProcStat("1 (name)").has_value());
  EXPECT_FALSE(ParseProcStat("1 (name) S 1 2 3").has_value());
  EXPECT_FALSE(ParseProcStat("1 (n) S x 1 1 0 -1 4 1 0 0 0 2 3 0 0 20 0 5 0 9 8 2 1").has_value());
}

TEST(ProcStat, KnowsThisProcess) {
  const auto own = ReadOwnProcStat();
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->parent, getppid());
  EXPECT_GE(own->threads, 1);
  EXPECT_GT(own->resident_pages, 0);
  const auto same = ReadProcStat(getpid());
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->start_time, own->start_time);
  EXPECT_FALSE(ReadProcStat(-1).has_value());
}

}  // namespace
}  // namespace adaptdl
