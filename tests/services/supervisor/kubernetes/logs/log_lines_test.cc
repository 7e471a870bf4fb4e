#include "services/supervisor/kubernetes/logs/log_lines.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {
namespace {

const absl::Time kTime = absl::FromUnixSeconds(1'767'323'045);  // 2026-01-02T03:04:05Z

std::string Joined(const v1::StreamReplicaLogsResponse& lines) {
  std::string joined;
  for (const v1::LogLine& line : lines.lines()) joined += line.text() + (line.partial() ? "+" : "|");
  return joined;
}

TEST(LogLinesTest, LinesComeInPieces) {
  LogLines parser;
  v1::StreamReplicaLogsResponse lines;
  for (const char c :
       std::string("2026-01-02T03:04:05.5Z a b\n2026-01-02T03:04:06Z \n2026-01-02T03:04:07Z end")) {
    parser.Feed(std::string(1, c), &lines);
  }
  EXPECT_EQ(Joined(lines), "a b||");
  parser.Finish(&lines);
  EXPECT_EQ(Joined(lines), "a b||end|");
  EXPECT_EQ(messages::ToTime(lines.lines(0).time()), kTime + absl::Milliseconds(500));
  EXPECT_EQ(parser.last(), kTime + absl::Seconds(2));
}

TEST(LogLinesTest, ALongLineIsManyEntries) {
  LogLines parser;
  v1::StreamReplicaLogsResponse lines;
  parser.Feed("2026-01-02T03:04:05Z " + std::string(40'000, 'x') + "\n2026-01-02T03:04:06Z y\n", &lines);
  ASSERT_EQ(lines.lines_size(), 4);
  size_t size = 0;
  for (int i = 0; i < 3; ++i) {
    size += lines.lines(i).text().size();
    EXPECT_EQ(lines.lines(i).partial(), i < 2);
    EXPECT_EQ(messages::ToTime(lines.lines(i).time()), kTime);
  }
  EXPECT_EQ(size, 40'000);
  EXPECT_EQ(lines.lines(3).text(), "y");
}

TEST(LogLinesTest, WhatWasReadBeforeIsLeftOut) {
  LogLines parser(kTime);
  v1::StreamReplicaLogsResponse lines;
  parser.Feed("2026-01-02T03:04:04Z old\n2026-01-02T03:04:05Z known " + std::string(20'000, 'x') +
                  "\n2026-01-02T03:04:05.000000001Z new\n",
              &lines);
  EXPECT_EQ(Joined(lines), "new|");
}

TEST(LogLinesTest, TextWithoutATimeIsTakenAsItIs) {
  LogLines parser;
  v1::StreamReplicaLogsResponse lines;
  parser.Feed("2026-01-02T03:04:05Z a\n\nrpc error: \xff no time\n", &lines);
  EXPECT_EQ(Joined(lines), "a||rpc error: \xff no time|");
  EXPECT_EQ(messages::ToTime(lines.lines(2).time()), kTime);
}

}  // namespace
}  // namespace adaptdl::supervisor
