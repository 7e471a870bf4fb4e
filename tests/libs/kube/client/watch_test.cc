#include "libs/kube/client/watch.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Event(const std::string& type, const std::string& version) {
  return absl::StrCat(Dump({{"type", type}, {"object", {{"metadata", {{"resourceVersion", version}}}}}}),
                      "\n");
}

class WatchTest : public ApiTest {
 protected:
  // Begins a watch's answer with this text, and ends it properly.
  void ServeText(const std::string& text) {
    Serve([text](Exchange& exchange) {
      exchange.Begin(200);
      exchange.Part(text);
      exchange.End();
    });
  }
  absl::Status Watch() {
    return kube::Watch(
        *client_, Collection(Pods(), "n"), {.selection = {.labels = "a=b"}, .resource_version = "5"},
        [this](WatchEvent event) {
          seen_.push_back(absl::StrCat(static_cast<int>(event.kind), ":", ResourceVersionOf(event.object)));
          if (event.kind == stop_at_) stop_.request_stop();
        },
        stop_.get_token());
  }

  std::vector<std::string> seen_;
  std::optional<WatchEventKind> stop_at_;
  std::stop_source stop_;
};

TEST_F(WatchTest, AsksForWhatHappensFromThere) {
  std::string target;
  Serve([&](Exchange& exchange) {
    target = exchange.request().target;
    exchange.Answer(200, "");
  });
  EXPECT_TRUE(Watch().ok());
  EXPECT_EQ(
      target,
      "/api/v1/namespaces/n/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=300"
      "&labelSelector=a%3Db");
}

TEST_F(WatchTest, TellsEventsInOrderUntilTheServerEndsIt) {
  ServeText(Event("ADDED", "6") + Event("MODIFIED", "7") + Event("DELETED", "8") + Event("BOOKMARK", "9"));
  EXPECT_TRUE(Watch().ok());
  EXPECT_THAT(seen_, ElementsAre("0:6", "1:7", "2:8", "3:9"));
}

TEST_F(WatchTest, EventsMayComeInAnyParts) {
  const std::string text = Event("ADDED", "6") + "\n" + Event("MODIFIED", "7");
  Serve([&](Exchange& exchange) {
    exchange.Begin(200);
    for (const char c : text) exchange.Part(std::string(1, c));
    exchange.End();
  });
  EXPECT_TRUE(Watch().ok());
  EXPECT_THAT(seen_, ElementsAre("0:6", "1:7"));
}

TEST_F(WatchTest, AStopRequestEndsIt) {
  Serve([](Exchange& exchange) {
    exchange.Begin(200);
    exchange.Part(Event("ADDED", "6"));
    exchange.AwaitClosed();
  });
  stop_at_ = WatchEventKind::kAdded;
  EXPECT_EQ(Watch().code(), absl::StatusCode::kCancelled);
}

TEST_F(WatchTest, KnowsThatTheServerForgot) {
  ServeText(R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})"
            "\n");
  EXPECT_EQ(Watch().code(), absl::StatusCode::kOutOfRange);
  Serve([](Exchange& exchange) { exchange.Answer(410, "gone"); });
  EXPECT_EQ(Watch().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(WatchTest, ACutStreamIsUnavailableAndWhatCameCounts) {
  Serve([](Exchange& exchange) {
    exchange.Begin(200);
    exchange.Part(Event("ADDED", "6") + "{\"type\":\"MODI");
    exchange.Cut();
  });
  EXPECT_EQ(Watch().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(seen_, ElementsAre("0:6"));
}

TEST_F(WatchTest, WhatIsNoWatchIsAnError) {
  ServeText("<html>\n");
  EXPECT_EQ(Watch().code(), absl::StatusCode::kUnknown);
  ServeText("{\"type\":\"ADDED\"}\n");
  EXPECT_EQ(Watch().code(), absl::StatusCode::kUnknown);
}

TEST_F(WatchTest, NewKindsOfEventsAreLeftOut) {
  ServeText(Event("PAINTED", "6") + Event("ADDED", "7"));
  EXPECT_TRUE(Watch().ok());
  EXPECT_THAT(seen_, ElementsAre("0:7"));
}

}  // namespace
}  // namespace adaptdl::kube
