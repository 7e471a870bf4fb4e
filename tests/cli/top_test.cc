// What "adaptdl top" shows, and what keys do.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/top/frame.h"
#include "cli/top/keys.h"
#include "cli/top/view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/golden.h"
#include "tests/cli/sample_cluster.h"

namespace adaptdl::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TopData SampleData() {
  TopData data;
  data.supervisor = "127.0.0.1:7100";
  data.was_heard = true;
  data.heard = data.now = SampleNow();
  data.jobs = SampleJobs();
  data.nodes = SampleNodes();
  return data;
}

std::string Frame(const TopData& data, const TopView& view, const TopSize& size, bool colours = false) {
  return absl::StrJoin(TopFrame(data, view, size, colours), "\n") + "\n";
}

std::string Without(const std::string& codes) {
  std::string text;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == '\x1b') {
      while (i < codes.size() && codes[i] != 'm') ++i;
    } else {
      text.push_back(codes[i]);
    }
  }
  return text;
}

TEST(TopTest, FitsEveryTerminal) {
  for (const TopPane pane : {TopPane::kJobs, TopPane::kJob, TopPane::kHelp}) {
    std::string all;
    for (const TopSize& size : {TopSize{40, 12}, TopSize{80, 24}, TopSize{120, 30}, TopSize{200, 50}}) {
      const TopView view = {.pane = pane, .finished_too = true, .selected = "default/resnet50-imagenet"};
      const std::string text = Frame(SampleData(), view, size);
      ExpectFits(text, size.width);
      EXPECT_EQ(TopFrame(SampleData(), view, size, false).size(), static_cast<size_t>(size.height));
      EXPECT_EQ(Without(Frame(SampleData(), view, size, true)).size() >= text.size(), true);
      ExpectFits(Without(Frame(SampleData(), view, size, true)), size.width);
      absl::StrAppend(&all, size.width, " x ", size.height, "\n", text);
    }
    ExpectGolden(absl::StrCat("top-", pane == TopPane::kJobs  ? "jobs"
                                      : pane == TopPane::kJob ? "job"
                                                              : "help"),
                 all);
  }
}

TEST(TopTest, WithoutBoundsAllIsThere) {
  ExpectGolden("top-once", Frame(SampleData(), {}, {}));
  EXPECT_THAT(Frame({}, {}, {}), HasSubstr("\nAsking the supervisor ...\n"));
  TopData empty;
  empty.was_heard = true;
  EXPECT_THAT(Frame(empty, {}, {}), HasSubstr("\nno jobs\n"));
}

TEST(TopTest, TinyTerminalsBreakNothing) {
  for (int width = 1; width < 30; ++width) {
    for (int height = 1; height < 8; ++height) {
      EXPECT_LE(TopFrame(SampleData(), {}, {width, height}, true).size(), static_cast<size_t>(height) + 4);
    }
  }
}

TEST(TopTest, SaysSinceWhenNothingWasHeard) {
  TopData data = SampleData();
  data.now += absl::Seconds(75);
  data.problem = "supervisor unreachable at 127.0.0.1:7100";
  EXPECT_THAT(Frame(data, {}, {80, 24}),
              HasSubstr("\nAs of 1m15s ago: supervisor unreachable at 127.0.0.1:7100\n"));
}

TEST(TopTest, HostileTextSteersNoTerminal) {
  TopData data = SampleData();
  data.jobs.mutable_jobs(2)->mutable_status()->set_reason(
      "\x1b[2J\x07"
      "evil");
  data.problem = "\x1b]0;title\x07";
  const std::string text = Frame(data, {.filter = "\x1b[31m"}, {120, 24});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
}

TEST(TopTest, ManyJobsScrollWithTheOneThatIsPointedAt) {
  TopData data = SampleData();
  data.jobs.clear_jobs();
  for (int i = 0; i < 500; ++i) {
    *data.jobs.add_jobs() = SampleJob(absl::StrCat("job-", 1000 + i), v1::JOB_PHASE_RUNNING, 1);
  }
  TopView view;
  const TopSize size = {80, 24};
  const auto press = [&](KeyCode code) {
    PressKey({.code = code}, ShownJobs(data.jobs, view, data.now), PageOf(size), &view);
  };
  EXPECT_THAT(Frame(data, view, size), HasSubstr("job-1017 "));
  EXPECT_THAT(Frame(data, view, size), Not(HasSubstr("job-1018 ")));
  press(KeyCode::kPageDown);
  EXPECT_EQ(view.selected, "default/job-1018");
  EXPECT_THAT(Frame(data, view, size), HasSubstr("job-1018 "));
  press(KeyCode::kEnd);
  EXPECT_EQ(view.selected, "default/job-1499");
  press(KeyCode::kDown);
  EXPECT_EQ(view.selected, "default/job-1499");
  EXPECT_THAT(Frame(data, view, size, true), HasSubstr("\x1b[7mjob-1499 "));
  press(KeyCode::kHome);
  press(KeyCode::kUp);
  EXPECT_EQ(view.selected, "default/job-1000");
}

TEST(TopTest, KeysChooseWhatIsSeen) {
  const TopData data = SampleData();
  TopView view;
  const auto press = [&](absl::string_view bytes) {
    for (const Key& key : DecodeKeys(bytes)) {
      PressKey(key, ShownJobs(data.jobs, view, data.now), 10, &view);
    }
  };
  EXPECT_EQ(ShownJobs(data.jobs, view, data.now).size(), 3u);
  press("a");
  EXPECT_EQ(ShownJobs(data.jobs, view, data.now).size(), 4u);
  press("/BERq\x7fT\r");
  EXPECT_EQ(view.filter, "BERT");
  EXPECT_FALSE(view.is_typing || view.quits);
  EXPECT_EQ(ShownJobs(data.jobs, view, data.now).size(), 1u);
  press("\r");
  EXPECT_EQ(view.pane, TopPane::kJob);
  EXPECT_EQ(view.selected, "default/bert");
  press("\x1b[B\x1b[B\x1b[A");
  EXPECT_EQ(view.scroll, 1);
  press("\x1b");
  EXPECT_EQ(view.pane, TopPane::kJobs);
  press("\x1b");
  EXPECT_EQ(view.filter, "");
  press("sr p");
  EXPECT_EQ(view.sort, "name");
  EXPECT_TRUE(view.reverse);
  EXPECT_FALSE(view.paused);
  press("h");
  EXPECT_EQ(view.pane, TopPane::kHelp);
  press("q");
  EXPECT_TRUE(view.quits);
}

TEST(KeysTest, DecodesWhatTerminalsSend) {
  const auto codes = [](absl::string_view bytes) {
    std::vector<KeyCode> result;
    for (const Key& key : DecodeKeys(bytes)) result.push_back(key.code);
    return result;
  };
  EXPECT_THAT(codes("\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~"),
              ElementsAre(KeyCode::kUp, KeyCode::kDown, KeyCode::kPageUp, KeyCode::kPageDown, KeyCode::kHome,
                          KeyCode::kEnd));
  EXPECT_THAT(codes("\x1b"), ElementsAre(KeyCode::kEscape));
  EXPECT_THAT(codes("\x1b[1;5Cx"), ElementsAre(KeyCode::kOther, KeyCode::kText));
  EXPECT_THAT(codes("\x1b["), ElementsAre(KeyCode::kOther));
  EXPECT_THAT(codes("\x01\r\x7f"), ElementsAre(KeyCode::kOther, KeyCode::kEnter, KeyCode::kBackspace));
  ASSERT_EQ(DecodeKeys("ö東\xff").size(), 3u);
  EXPECT_EQ(DecodeKeys("ö東")[1].text, "東");
}

}  // namespace
}  // namespace adaptdl::cli
