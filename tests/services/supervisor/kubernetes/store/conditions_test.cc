#include "services/supervisor/kubernetes/store/conditions.h"

#include <map>
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::ElementsAre;
using ::testing::Pair;

const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);
const absl::Time kNow = kThen + absl::Hours(1);

std::map<std::string, std::string> StatusByType(const Json& conditions) {
  std::map<std::string, std::string> statuses;
  for (const Json& condition : conditions) statuses[condition["type"]] = condition["status"];
  return statuses;
}

JobRecord InPhase(jobs::Phase phase) {
  JobRecord record = MakeJob(1);
  record.state.phase = phase;
  record.state.reason = "SomeReason";
  return record;
}

TEST(ConditionsTest, SayWhatThePhaseMeans) {
  const auto of = [](const JobRecord& record) {
    const auto statuses = StatusByType(ConditionsOf(record, Json(), kNow));
    EXPECT_EQ(statuses.size(), 4u);
    std::string holding;
    for (const auto& [type, status] : statuses) holding += status == "True" ? type : "";
    return holding;
  };
  EXPECT_EQ(of(InPhase(jobs::Phase::kPending)), "");
  EXPECT_EQ(of(InPhase(jobs::Phase::kStarting)), "");
  EXPECT_EQ(of(InPhase(jobs::Phase::kRunning)), "Running");
  EXPECT_EQ(of(InPhase(jobs::Phase::kRescaling)), "Running");
  EXPECT_EQ(of(InPhase(jobs::Phase::kStopping)), "");
  EXPECT_EQ(of(InPhase(jobs::Phase::kSucceeded)), "Succeeded");
  EXPECT_EQ(of(InPhase(jobs::Phase::kFailed)), "Failed");
  EXPECT_EQ(of(InPhase(jobs::Phase::kCancelled)), "Failed");
  JobRecord held = InPhase(jobs::Phase::kStopping);
  held.state.suspended = true;
  EXPECT_EQ(of(held), "");
  held.state.phase = jobs::Phase::kPending;
  EXPECT_EQ(of(held), "Suspended");
}

TEST(ConditionsTest, ChangeAtTheirTimeAndOnlyThen) {
  const Json before = ConditionsOf(InPhase(jobs::Phase::kPending), Json(), kThen);
  const Json after = ConditionsOf(InPhase(jobs::Phase::kRunning), before, kNow);
  std::map<std::string, std::string> since;
  for (const Json& condition : after) since[condition["type"]] = condition["lastTransitionTime"];
  EXPECT_EQ(since["Running"], kube::TimeText(kNow));
  EXPECT_EQ(since["Failed"], kube::TimeText(kThen));
}

TEST(ConditionsTest, HaveAReasonThatTheApiTakesWhateverTheJobSays) {
  JobRecord record = InPhase(jobs::Phase::kFailed);
  const auto reason = [&] { return ConditionsOf(record, Json(), kNow)[0]["reason"].get<std::string>(); };
  EXPECT_EQ(reason(), "SomeReason");
  for (const std::string& bad : {std::string(), std::string("two words"), std::string(1000, 'x')}) {
    record.state.reason = bad;
    EXPECT_EQ(reason(), "Unknown") << bad;
  }
  record.state.phase = jobs::Phase::kCancelled;
  EXPECT_EQ(reason(), "Cancelled");
}

TEST(ConditionsTest, SayWhetherCheckpointsHaveAPlaceOnceThatIsKnown) {
  const JobRecord record = InPhase(jobs::Phase::kPending);
  const auto storage = [](const Json& conditions) { return conditions.size() == 5 ? conditions[4] : Json(); };
  EXPECT_EQ(storage(ConditionsOf(record, Json(), kThen)), Json());
  const Json missing = ConditionsOf(record, Json(), kThen, "no class that many nodes can write");
  EXPECT_EQ(storage(missing)["type"], "CheckpointStorage");
  EXPECT_EQ(storage(missing)["status"], "False");
  EXPECT_EQ(storage(missing)["message"], "no class that many nodes can write");
  EXPECT_EQ(storage(ConditionsOf(record, missing, kNow)), storage(missing))
      << "also for who was told nothing";
  const Json bound = storage(ConditionsOf(record, missing, kNow, ""));
  EXPECT_EQ(bound["status"], "True");
  EXPECT_EQ(bound["lastTransitionTime"], kube::TimeText(kNow));
}

TEST(ConditionsTest, WhateverStoodThereBeforeTheyAreMadeAnew) {
  const JobRecord record = InPhase(jobs::Phase::kRunning);
  const Json fresh = ConditionsOf(record, Json(), kNow);
  for (const char* before :
       {"7", "[7]", R"([{"type": "Running", "status": "True", "lastTransitionTime": "x"}])",
        R"([{"type": 7, "status": {}}])", "{}"}) {
    EXPECT_EQ(ConditionsOf(record, *kube::ParseJson(before), kNow), fresh) << before;
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
