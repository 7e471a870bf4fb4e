#include "services/supervisor/kubernetes/logs/kept_log_reader.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

class KeptLogReaderTest : public testing::Test {
 protected:
  KeptLogReaderTest() {
    char folder[] = "/tmp/adaptdl-kept-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~KeptLogReaderTest() override { std::filesystem::remove_all(folder_); }

  KeptLogFile File(const std::string& text) {
    std::ofstream(folder_ + "/log") << text;
    KeptLogFile file;
    file.text.open(folder_ + "/log");
    return file;
  }
  // The texts of all lines, and then the status.
  static std::string All(KeptLogReader reader) {
    std::string all;
    while (reader.state() == ReaderState::kReady) {
      const v1::StreamReplicaLogsResponse lines = reader.Take();
      EXPECT_FALSE(lines.lines().empty());
      for (const v1::LogLine& line : lines.lines()) absl::StrAppend(&all, line.text(), "|");
    }
    return all + reader.status().error_message();
  }
  static std::string Lines(int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) absl::StrAppend(&lines, "2026-01-02T03:04:0", i, "Z ", i, "\n");
    return lines;
  }

  std::string folder_;
};

TEST_F(KeptLogReaderTest, AllOrTheLastLinesOrThoseAfter) {
  EXPECT_EQ(All(KeptLogReader(File(Lines(4)), 0)), "0|1|2|3|");
  EXPECT_EQ(All(KeptLogReader(File(Lines(4)), 2)), "2|3|");
  EXPECT_EQ(All(KeptLogReader(File(Lines(4)), 9)), "0|1|2|3|");
  const absl::Time second = absl::FromCivil(absl::CivilSecond(2026, 1, 2, 3, 4, 2), absl::UTCTimeZone());
  EXPECT_EQ(All(KeptLogReader(File(Lines(4)), 0, second)), "3|");
  EXPECT_EQ(All(KeptLogReader(File(""), 0)), "");
  EXPECT_EQ(All(KeptLogReader(File(Lines(6)), 2, absl::InfinitePast(), "[13]")), "1|2|3|4|5|");
}

TEST_F(KeptLogReaderTest, ComesInPieces) {
  const std::string line = "2026-01-02T03:04:05Z " + std::string(1000, 'x') + "\n";
  std::string text;
  for (int i = 0; i < 1000; ++i) text += line;
  KeptLogReader reader(File(text), 0);
  int lines = 0;
  while (reader.state() == ReaderState::kReady) {
    const v1::StreamReplicaLogsResponse piece = reader.Take();
    EXPECT_LT(piece.ByteSizeLong(), 40'000u);
    lines += piece.lines_size();
  }
  EXPECT_EQ(lines, 1000);
}

TEST_F(KeptLogReaderTest, SaysWhatIsMissing) {
  KeptLogFile end = File(Lines(1));
  end.error = "no answer";
  EXPECT_EQ(All(KeptLogReader(std::move(end), 1)), "0|its end could not be kept: no answer");
  for (const auto& [tail, expected] :
       {std::pair(0, "0|1|only its last part was kept"), std::pair(3, "0|1|only its last part was kept"),
        std::pair(2, "0|1|")}) {
    KeptLogFile file = File(Lines(2));
    file.beginning_is_missing = true;
    EXPECT_EQ(All(KeptLogReader(std::move(file), tail)), expected);
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
