#include "services/supervisor/kubernetes/logs/log_tail.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/supervisor/kubernetes/logs/log_lines.h"

namespace adaptdl::supervisor {
namespace {

constexpr char kLog[] =
    "2026-01-02T03:04:05.123456789Z first\n"
    "2026-01-02T03:04:06.000000000Z second\n"
    "2026-01-02T03:04:07.000000000Z third\n";
constexpr char kLater[] =
    "2026-01-02T03:04:06.000000000Z second\n"
    "2026-01-02T03:04:07.000000000Z third\n";

v1::StreamReplicaLogsResponse Parsed(const std::string& text) {
  v1::StreamReplicaLogsResponse lines;
  LogLines parser;
  parser.Feed(text, &lines);
  parser.Finish(&lines);
  return lines;
}

TEST(LogTailTest, WritesAsAKubeletDoes) {
  LogTail tail(1000);
  tail.Add(Parsed(kLog));
  EXPECT_EQ(tail.Text(), kLog);
  EXPECT_EQ(tail.lines(), 3u);
  EXPECT_FALSE(tail.is_cut());
}

TEST(LogTailTest, WholeLinesGoInFront) {
  for (const size_t bytes : {sizeof(kLater) - 1, sizeof(kLater), sizeof(kLog) - 2}) {
    LogTail tail(bytes);
    tail.Add(Parsed(kLog));
    EXPECT_EQ(tail.Text(), kLater) << bytes;
    EXPECT_TRUE(tail.is_cut());
  }
}

TEST(LogTailTest, ALongLineStaysOrGoesAsAWhole) {
  const std::string line = "2026-01-02T03:04:05.000000000Z " + std::string(100'000, 'x') + "\n";
  LogTail all(200'000);
  all.Add(Parsed(line + kLog));
  EXPECT_EQ(all.Text(), line + kLog);
  LogTail end(90'000);
  end.Add(Parsed(line));
  EXPECT_EQ(end.Text(), "");
  end.Add(Parsed(kLog));
  EXPECT_EQ(end.Text(), kLog);
}

}  // namespace
}  // namespace adaptdl::supervisor
