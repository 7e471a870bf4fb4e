#include "adaptdl/tensorboard.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "adaptdl/bptt.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/stream_loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/tensorboard/event_file.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl {
namespace {

using elastic::EventFile;
using elastic::Replica;
using elastic::RunReplicas;
using elastic::TempFolder;
using ::testing::ElementsAre;

// Bit by bit, unlike the library's.
uint32_t SlowCrc(absl::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = ((crc ^ (static_cast<uint8_t>(byte) >> bit)) & 1) != 0;
      crc = (crc >> 1) ^ (one ? 0x82F63B78U : 0);
    }
  }
  return ~crc;
}

template <typename T>
T Take(absl::string_view* bytes) {
  T value;
  std::memcpy(&value, bytes->data(), sizeof(value));
  bytes->remove_prefix(sizeof(value));
  return value;
}

uint32_t Unmask(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8U;
  return (rotated >> 17) | (rotated << 15);
}

uint64_t TakeVarint(absl::string_view* bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = Take<uint8_t>(bytes);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

absl::string_view TakeBytes(absl::string_view* bytes) {
  const size_t size = TakeVarint(bytes);
  const absl::string_view taken = bytes->substr(0, size);
  bytes->remove_prefix(size);
  return taken;
}

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  std::string tag;
  float value = 0;
};

void ParseSummary(absl::string_view summary, Event* event) {
  ASSERT_EQ(TakeVarint(&summary), 1 << 3 | 2);
  absl::string_view scalar = TakeBytes(&summary);
  ASSERT_EQ(TakeVarint(&scalar), 1 << 3 | 2);
  event->tag = std::string(TakeBytes(&scalar));
  ASSERT_EQ(TakeVarint(&scalar), 2 << 3 | 5);
  event->value = Take<float>(&scalar);
  ASSERT_TRUE(scalar.empty() && summary.empty());
}

Event ParseEvent(absl::string_view bytes) {
  Event event;
  while (!bytes.empty()) {
    switch (TakeVarint(&bytes)) {
      case 1 << 3 | 1:
        event.wall_time = Take<double>(&bytes);
        break;
      case 2 << 3 | 0:
        event.step = static_cast<int64_t>(TakeVarint(&bytes));
        break;
      case 3 << 3 | 2:
        event.version = std::string(TakeBytes(&bytes));
        break;
      case 5 << 3 | 2:
        ParseSummary(TakeBytes(&bytes), &event);
        break;
      default:
        ADD_FAILURE() << "a field that is not written";
        return event;
    }
  }
  return event;
}

std::string Content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// All events of a file whose frames are whole.
std::vector<Event> ReadEvents(const std::string& path) {
  const std::string content = Content(path);
  absl::string_view bytes = content;
  std::vector<Event> events;
  while (!bytes.empty()) {
    const absl::string_view length = bytes.substr(0, 8);
    const auto size = Take<uint64_t>(&bytes);
    EXPECT_EQ(Unmask(Take<uint32_t>(&bytes)), SlowCrc(length));
    const absl::string_view event = bytes.substr(0, size);
    bytes.remove_prefix(size);
    EXPECT_EQ(Unmask(Take<uint32_t>(&bytes)), SlowCrc(event));
    events.push_back(ParseEvent(event));
  }
  return events;
}

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// "tag step value" of all points, in order.
std::vector<std::string> PointsOf(const std::string& folder) {
  std::vector<std::string> points;
  for (const std::string& file : FilesOf(folder)) {
    for (const Event& event : ReadEvents(file)) {
      if (event.version.empty()) points.push_back(absl::StrCat(event.tag, " ", event.step, " ", event.value));
    }
  }
  return points;
}

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(elastic::Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(elastic::Crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(elastic::Crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(elastic::Crc32c(""), 0U);
}

TEST(TensorBoard, BeginsWithTheVersion) {
  TempFolder folder;
  const auto file = EventFile::Create(folder.path(), 1.5e9);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<Event> events = ReadEvents((*file)->path());
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1.5e9);
}

TEST(TensorBoard, OnlyRankZeroWrites) {
  TempFolder folder;
  RunReplicas(3, {}, [&](Replica& replica) {
    TensorBoardWriter writer(replica.job, folder.path() + "/runs");
    EXPECT_EQ(writer.enabled(), replica.job.rank() == 0);
    writer.AddScalar("loss", 0.5 + replica.job.rank(), 7);
    writer.AddScalar("a/b", -2, int64_t{1} << 40);
  });
  EXPECT_EQ(FilesOf(folder.path() + "/runs").size(), 1);
  EXPECT_THAT(PointsOf(folder.path() + "/runs"), ElementsAre("loss 7 0.5", "a/b 1099511627776 -2"));
}

TEST(TensorBoard, EveryWriterAddsAFile) {
  TempFolder folder;
  for (const int step : {1, 2}) {
    RunReplicas(1, {}, [&](Replica& replica) {
      TensorBoardWriter(replica.job, folder.path()).AddScalar("x", step, step);
    });
  }
  EXPECT_EQ(FilesOf(folder.path()).size(), 2);
  EXPECT_THAT(PointsOf(folder.path()), ElementsAre("x 1 1", "x 2 2"));
}

TEST(TensorBoard, WritesNothingWithoutAFolder) {
  RunReplicas(1, {}, [&](Replica& replica) {
    TensorBoardWriter writer(replica.job);
    EXPECT_FALSE(writer.enabled());
    writer.AddScalar("x", 1, 1);
  });
}

TEST(TensorBoard, AFolderThatCannotBeMadeDoesNotStopTraining) {
  TempFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  RunReplicas(1, {}, [&](Replica& replica) {
    TensorBoardWriter writer(replica.job, folder.path() + "/file/runs");
    EXPECT_FALSE(writer.enabled());
    writer.AddScalar("x", 1, 1);
  });
}

TEST(TensorBoard, APointIsInTheFileWhenTheCallReturns) {
  TempFolder folder;
  RunReplicas(1, {}, [&](Replica& replica) {
    TensorBoardWriter writer(replica.job, folder.path());
    writer.AddScalar("x", 1, 1);
    EXPECT_THAT(PointsOf(folder.path()), ElementsAre("x 1 1"));
  });
}

TEST(TensorBoard, TellsOfTheLoadersBatch) {
  TempFolder folder;
  RunReplicas(2, {}, [&](Replica& replica) {
    TensorBoardWriter writer(replica.job, folder.path());
    AdaptiveDataLoader loader(replica.job, 24, {.batch_size = 12, .max_local_batch_size = 2});
    ASSERT_TRUE(loader.BeginLoop() && loader.Next());
    loader.ToTensorBoard(writer, 5, "train/");
    loader.EndLoop();
  });
  EXPECT_THAT(PointsOf(folder.path()),
              ElementsAre("train/Total_Batch_Size 5 12", "train/Local_Batch_Size 5 2",
                          "train/Accumulation_Steps 5 2"));
}

TEST(TensorBoard, TellsOfAStreamsBatchAndOfColumns) {
  TempFolder folder;
  RunReplicas(2, {}, [&](Replica& replica) {
    TensorBoardWriter writer(replica.job, folder.path());
    const auto endless = [](int64_t shard, int64_t) { return [shard] { return std::optional(shard); }; };
    StreamLoader<int64_t> stream(replica.job, 2, endless, {.batch_size = 8, .max_local_batch_size = 2});
    ASSERT_TRUE(stream.BeginLoop() && stream.Next());
    stream.ToTensorBoard(writer, 3, "stream/");
    stream.EndLoop();
    BpttIterator text(replica.job, 100, {.columns = 6, .length = 5});
    ASSERT_TRUE(text.BeginLoop() && text.Next());
    text.ToTensorBoard(writer, 4);
    text.EndLoop();
  });
  EXPECT_THAT(PointsOf(folder.path()),
              ElementsAre("stream/Total_Batch_Size 3 8", "stream/Local_Batch_Size 3 2",
                          "stream/Accumulation_Steps 3 1", "Total_Batch_Size 4 6", "Local_Batch_Size 4 3",
                          "Accumulation_Steps 4 0"));
}

}  // namespace
}  // namespace adaptdl
