// A store that takes one job at a time: what order it is asked in, and what stands when it refuses the n-th.

#include "services/supervisor/state/commit_unit.h"

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/store/memory_job_store.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What a batch is about.
std::string NameOf(const WriteBatch& batch) {
  for (const JobRecord& record : batch.put_jobs) return record.uid();
  for (const std::string& uid : batch.delete_jobs) return uid;
  if (batch.put_request.has_value()) return "answer";
  return batch.empty() ? "" : "others";
}

class JobByJobStore final : public MemoryJobStore {
 public:
  bool atomic_batches() const override { return atomic; }
  absl::Status Commit(const WriteBatch& batch) override {
    if (!atomic) {
      EXPECT_LE(batch.put_jobs.size() + batch.delete_jobs.size(), 1u);
    }
    const std::string name = NameOf(batch);
    if (!name.empty()) asked.push_back(name);
    if (name == refused) return refusal;
    return MemoryJobStore::Commit(batch);
  }

  bool atomic = false;
  std::vector<std::string> asked;
  std::string refused = "nothing";
  absl::Status refusal = absl::AbortedError("changed meanwhile");
};

class CommitUnitTest : public ::testing::Test {
 protected:
  CommitUnitTest() {
    core_.Fill(Tables(), {});
    core_.SetEffectRunner([this](const Effects& effects) {
      for (const std::string& replica : effects.fenced) effects_.insert(replica);
    });
    const absl::Status made = core_.Update([](Transaction* transaction) {
      for (const int sequence : {1, 2, 3, 4}) transaction->AddJob(MakeJob(sequence));
      transaction->EditJob("uid-1")->record.decision.nodes = {"n1"};
      transaction->EditJob("uid-3")->record.decision.nodes = {"n1", "n2"};
      return absl::OkStatus();
    });
    EXPECT_TRUE(made.ok()) << made;
    store_.asked.clear();
  }

  // Job 1 grows, job 2 is told something, job 3 shrinks, job 4 goes; a quota, and the answer of the call.
  absl::Status Change() {
    const RequestKey key = {"user", "default", absl::StrCat("r", ++requests_), "Method", "content"};
    return core_
        .UpdateOnce<v1::Event>(key,
                               [](Transaction* transaction) -> absl::StatusOr<v1::Event> {
                                 transaction->EditJob("uid-1")->record.decision.nodes = {"n1", "n3"};
                                 transaction->EditJob("uid-2")->record.state.restarts = 1;
                                 transaction->EditJob("uid-3")->record.decision.nodes = {"n1"};
                                 if (transaction->FindJob("uid-4") != nullptr)
                                   transaction->DeleteJob("uid-4");
                                 v1::NamespaceQuota quota;
                                 quota.set_namespace_("default");
                                 transaction->PutQuota(quota);
                                 for (const int job : {1, 2, 3, 4}) {
                                   const std::string uid = absl::StrCat("uid-", job);
                                   transaction->EffectsOf(uid)->fenced.push_back(uid);
                                 }
                                 transaction->EffectsOf(Transaction::kNoJob)->fenced.emplace_back("others");
                                 return v1::Event();
                               })
        .status();
  }
  // What of it has happened, as readers see it.
  std::set<std::string> Visible() const {
    std::set<std::string> visible;
    core_.Read([&](const Tables& tables) {
      if (tables.jobs.at("uid-1")->record.decision.nodes.size() == 2) visible.insert("uid-1");
      if (tables.jobs.at("uid-2")->record.state.restarts == 1) visible.insert("uid-2");
      if (tables.jobs.at("uid-3")->record.decision.nodes.size() == 1) visible.insert("uid-3");
      if (!tables.jobs.contains("uid-4")) visible.insert("uid-4");
      if (!tables.quotas.empty()) visible.insert("others");
    });
    return visible;
  }
  bool Answered() { return store_.FindRequest("user", "default", absl::StrCat("r", requests_))->has_value(); }

  JobByJobStore store_;
  ChangeHub hub_;
  GroupCommit durability_{nullptr, [](const absl::Status&) {}};
  Invariants invariants_;
  ManualClock clock_;
  Core core_{{&store_, &hub_, &durability_, &invariants_, &clock_, nullptr}, absl::Hours(1)};
  std::set<std::string> effects_;
  int requests_ = 0;
};

TEST_F(CommitUnitTest, WhatShrinksComesFirstAndTheAnswerLast) {
  EXPECT_TRUE(Change().ok());
  EXPECT_THAT(store_.asked, ElementsAre("others", "uid-3", "uid-4", "uid-1", "uid-2", "answer"));
  EXPECT_EQ(Visible().size(), 5u);
  EXPECT_EQ(effects_, Visible());
  EXPECT_TRUE(Answered());
}

class RefusedUnitTest : public CommitUnitTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(RefusedUnitTest, ChangesNothingAndTheOthersStand) {
  store_.refused = GetParam();
  EXPECT_EQ(Change().code(), absl::StatusCode::kAborted);
  std::set<std::string> expected = {"others", "uid-1", "uid-2", "uid-3", "uid-4"};
  expected.erase(GetParam());
  EXPECT_EQ(Visible(), expected);
  EXPECT_EQ(effects_, expected);
  EXPECT_FALSE(Answered());
  // The next call does what is left.
  store_.refused = "nothing";
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(Visible().size(), 5u);
}

INSTANTIATE_TEST_SUITE_P(Every, RefusedUnitTest,
                         ::testing::Values("others", "uid-1", "uid-2", "uid-3", "uid-4", "answer"),
                         [](const auto& test) {
                           return test.param == "others" || test.param == "answer"
                                      ? test.param
                                      : "Job" + test.param.substr(4);
                         });

TEST_F(CommitUnitTest, AStoreThatIsAwayIsNotAskedForTheRest) {
  store_.refused = "uid-1";
  store_.refusal = absl::UnavailableError("no server");
  EXPECT_EQ(Change().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(store_.asked, ElementsAre("others", "uid-3", "uid-4", "uid-1"));
  EXPECT_THAT(Visible(), ElementsAre("others", "uid-3", "uid-4"));
  EXPECT_EQ(effects_, Visible());
  EXPECT_FALSE(Answered());
}

TEST_F(CommitUnitTest, AnAtomicStoreIsAskedOnce) {
  store_.atomic = true;
  EXPECT_TRUE(Change().ok());
  EXPECT_EQ(store_.asked.size(), 1u);
  EXPECT_EQ(Visible().size(), 5u);
  EXPECT_EQ(effects_, Visible());
  EXPECT_TRUE(Answered());
}

TEST_F(CommitUnitTest, AnAtomicStoreRefusesAllOfIt) {
  store_.atomic = true;
  store_.refused = "uid-3";
  EXPECT_EQ(Change().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Visible(), IsEmpty());
  EXPECT_THAT(effects_, IsEmpty());
  EXPECT_FALSE(Answered());
}

}  // namespace
}  // namespace adaptdl::supervisor
