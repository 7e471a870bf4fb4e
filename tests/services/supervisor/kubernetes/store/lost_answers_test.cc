// Whatever becomes of a write and of its answer: afterwards the store says what stands there.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "services/supervisor/kubernetes/store/job_object_writer.h"
#include "tests/services/supervisor/kubernetes/store/store_fixture.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LostAnswersTest : public KubeStoreTest {
 protected:
  LostAnswersTest() { record_ = AddJob("a"); }

  // The next change of the job, as Core makes it.
  absl::Status Change() {
    ++record_.state.restarts;
    return Put(record_);
  }
  int64_t Stands() { return kube::IntegerAt(StatusOfJob("a"), {"restarts"}); }
  void Faults(const Json& faults) { Control("POST", "faults", faults); }

  JobRecord record_;
};

TEST_F(LostAnswersTest, OneThatWasNotDoneIsDoneAgain) {
  Faults({{{"verb", "patch"}, {"cut", "before"}}});
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Stands(), 1);
}

TEST_F(LostAnswersTest, OneThatWasDoneIsNotDoneAgain) {
  Faults({{{"verb", "patch"}, {"cut", "after"}}});
  const int64_t before = Calls("patch");
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Calls("patch"), before + 1);
  EXPECT_EQ(Stands(), 1);
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Stands(), 2);
  EXPECT_THAT(lease_.given_up, IsEmpty());
}

TEST_F(LostAnswersTest, WhatCantBeFoundOutIsNoChangeAndIsOvercomeByTheNext) {
  for (const char* cut : {"before", "after"}) {
    Faults({{{"verb", "patch"}, {"cut", cut}}, {{"verb", "get"}, {"status", 503}, {"times", 100}}});
    const JobRecord before = record_;
    EXPECT_EQ(Change().code(), absl::StatusCode::kUnavailable) << cut;
    record_ = before;  // nothing has changed for Core
    Faults(Json::array());
    // Also if there is nothing new to write.
    EXPECT_TRUE(Put(record_).ok()) << cut;
    EXPECT_EQ(Stands(), record_.state.restarts) << cut;
    EXPECT_TRUE(Change().ok()) << cut;
    EXPECT_EQ(Stands(), record_.state.restarts) << cut;
    EXPECT_THAT(lease_.given_up, IsEmpty()) << cut;
  }
}

TEST_F(LostAnswersTest, ARefusalChangesNothing) {
  for (const int status : {429, 500, 503}) {
    const Json before = Get("a");
    const JobRecord known = record_;
    Faults({{{"verb", "patch"}, {"status", status}, {"times", 100}}});
    EXPECT_EQ(Change().code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(Get("a"), before) << status;
    record_ = known;
    Faults(Json::array());
    EXPECT_TRUE(Change().ok()) << status;
    EXPECT_EQ(Stands(), record_.state.restarts);
  }
}

TEST_F(LostAnswersTest, AStatusThatTheServerFindsWrongIsOurMistake) {
  const Json before = Get("a");
  Faults({{{"verb", "patch"}, {"status", 422}}});
  EXPECT_EQ(Change().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Get("a"), before);
  EXPECT_TRUE(Change().ok());
}

TEST_F(LostAnswersTest, AServerThatIsAwayChangesNothing) {
  server_.Stop();
  const JobRecord known = record_;
  EXPECT_EQ(Change().code(), absl::StatusCode::kUnavailable);
  record_ = known;
  server_.Start();
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Stands(), 1);
}

TEST_F(LostAnswersTest, OthersMayChangeMetadataMeanwhile) {
  Patch(TargetOf("a"), {{"metadata", {{"labels", {{"team", "vision"}}}}}});
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Stands(), 1);
  EXPECT_EQ(kube::LabelOf(*store_->RawObject(record_.uid()), "team"), "vision");
}

TEST_F(LostAnswersTest, AnotherSpecIsToBeBroughtFirst) {
  Patch(TargetOf("a"), {{"spec", {{"maxReplicas", 2}}}});
  EXPECT_EQ(Change().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Change().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Stands(), 0);
  store_->Seen(Get("a"));
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Stands(), record_.state.restarts);
  EXPECT_THAT(lease_.given_up, IsEmpty());
}

TEST_F(LostAnswersTest, WhatIsSeenDuringAWriteIsNotForgotten) {
  Patch(TargetOf("a"), {{"spec", {{"maxReplicas", 2}}}});
  const Json changed = Get("a");
  observe_ = [&](const kube::ApiCall& call) {
    if (call.request.method == "PATCH") store_->Seen(changed);
  };
  EXPECT_EQ(Change().code(), absl::StatusCode::kAborted);
  observe_ = [](const kube::ApiCall&) {};
  EXPECT_TRUE(Change().ok()) << "kubernetes/jobs tells it once";
  EXPECT_EQ(Stands(), record_.state.restarts);
}

TEST_F(LostAnswersTest, ALeaderOfALaterTermHasTheJob) {
  Patch(TargetOf("a").Sub("status"), {{"status", {{"term", 8}}}});
  EXPECT_EQ(Change().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(lease_.given_up, ElementsAre(HasSubstr("later term")));
  EXPECT_EQ(Stands(), 0);
  store_->Seen(Get("a"));
  EXPECT_THAT(lease_.given_up, SizeIs(2));
}

TEST_F(LostAnswersTest, AStatusBySomebodyElseIsALostLeadership) {
  Patch(TargetOf("a").Sub("status"), {{"status", {{"message", "hello"}}}});
  store_->Seen(Get("a"));
  EXPECT_EQ(Change().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(lease_.given_up, ElementsAre(HasSubstr("not as this supervisor has left it")));
  EXPECT_EQ(StatusOfJob("a")["message"], "hello");
}

TEST_F(LostAnswersTest, WhatWasSeenLateMeansNothing) {
  const Json old = Get("a");
  EXPECT_TRUE(Change().ok());
  store_->Seen(old);
  const int64_t before = Calls("patch");
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Calls("patch"), before + 1);
}

TEST_F(LostAnswersTest, DeletionsAreFoundOutAbout) {
  WriteBatch batch;
  batch.delete_jobs = {record_.uid()};
  Faults({{{"verb", "delete"}, {"cut", "before"}}});
  EXPECT_EQ(store_->Commit(batch).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(Get("a").is_null());
  Faults({{{"verb", "delete"}, {"cut", "after"}}});
  EXPECT_TRUE(store_->Commit(batch).ok());
  EXPECT_TRUE(Get("a").is_null());
}

TEST(MergePatchTest, MakesOneOfTheOther) {
  const std::vector<Json> values = {
      *kube::ParseJson(R"({})"),
      *kube::ParseJson(R"({"a": 1, "b": {"c": [1, null], "d": 2}})"),
      *kube::ParseJson(R"({"a": 1.5, "b": {"c": [1, 2]}, "e": {"f": {}}})"),
      *kube::ParseJson(R"({"b": 7, "e": {"f": {"g": true}}})"),
  };
  for (const Json& from : values) {
    for (const Json& to : values) {
      Json made = from;
      made.merge_patch(MergePatchOf(from, to));
      EXPECT_EQ(made, to) << from << " " << to;
    }
    EXPECT_EQ(MergePatchOf(from, from), Json::object());
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
