#include "libs/kube/control/leader_election.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One Lease, with optimistic conflicts.
class LeaseStore {
 public:
  // What goes wrong with the next write.
  enum class Fault { kNone, kLostAnswer, kUnavailable };

  void Serve(Exchange& exchange) {
    MutexLock lock(&mutex_);
    const ServedRequest& request = exchange.request();
    if (request.method == "GET")
      return lease_.is_null() ? Refuse(exchange, 404) : exchange.Answer(200, Dump(lease_));
    const Fault fault = std::exchange(fault_, Fault::kNone);
    if (fault == Fault::kUnavailable) return Refuse(exchange, 503);
    Json written = *ParseJson(request.body);
    if (request.method == "POST" && !lease_.is_null()) return Refuse(exchange, 409, "AlreadyExists");
    if (request.method == "PUT" && lease_.is_null()) return Refuse(exchange, 404);
    if (request.method == "PUT" && ResourceVersionOf(written) != ResourceVersionOf(lease_)) {
      return Refuse(exchange, 409, "Conflict");
    }
    Set(std::move(written));
    fault == Fault::kLostAnswer ? exchange.Cut() : exchange.Answer(200, Dump(lease_));
  }

  Json lease() {
    MutexLock lock(&mutex_);
    return lease_;
  }
  // By somebody else; null deletes it.
  void Put(Json lease) {
    MutexLock lock(&mutex_);
    Set(std::move(lease));
  }
  void set_fault(Fault fault) {
    MutexLock lock(&mutex_);
    fault_ = fault;
  }

 private:
  static void Refuse(Exchange& exchange, int code, const std::string& reason = "") {
    exchange.Answer(code, Dump({{"kind", "Status"}, {"code", code}, {"reason", reason}}));
  }
  void Set(Json lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    lease_ = std::move(lease);
    if (!lease_.is_null()) lease_["metadata"]["resourceVersion"] = absl::StrCat(++version_);
  }

  Mutex mutex_;
  Json lease_ ABSL_GUARDED_BY(mutex_);
  int version_ ABSL_GUARDED_BY(mutex_) = 0;
  Fault fault_ ABSL_GUARDED_BY(mutex_) = Fault::kNone;
};

class LeaderElectionTest : public ApiTest {
 protected:
  LeaderElectionTest() {
    options_.patience = absl::ZeroDuration();
    Serve([this](Exchange& exchange) { store_.Serve(exchange); });
  }
  ~LeaderElectionTest() override { server_.reset(); }

  std::unique_ptr<LeaderElection> Contender(const std::string& name) {
    return std::make_unique<LeaderElection>(
        client_.get(), LeaderElectionOptions{.lease = {"n", "supervisor"},
                                             .identity = name,
                                             .duration = absl::Seconds(15),
                                             .lost = [this, name](const std::string& why) {
                                               lost_.push_back(name + ": " + why);
                                               if (lost_.size() == 1) told_.set_value();
                                             }});
  }
  // Whether it leads afterwards.
  static bool Try(const std::unique_ptr<LeaderElection>& contender) {
    const auto leads = contender->TryAcquire();
    EXPECT_TRUE(leads.ok()) << leads.status();
    return leads.ok() && *leads;
  }

  LeaseStore store_;
  std::vector<std::string> lost_;
  // When the first one lost it.
  std::promise<void> told_;
};

TEST_F(LeaderElectionTest, TheFirstOneMakesTheLease) {
  const auto a = Contender("a");
  EXPECT_FALSE(a->Valid());
  EXPECT_TRUE(Try(a));
  EXPECT_TRUE(a->Valid());
  EXPECT_EQ(a->term(), absl::ToUnixMillis(clock_.Now()));
  const Json lease = store_.lease();
  EXPECT_EQ(TextAt(lease, {"spec", "holderIdentity"}), "a");
  EXPECT_EQ(IntegerAt(lease, {"spec", "leaseDurationSeconds"}), 15);
  EXPECT_EQ(TextAt(lease, {"spec", "renewTime"}), MicroTimeText(clock_.Now()));
  EXPECT_EQ(AnnotationOf(lease, "adaptdl.petuum.com/term"), absl::StrCat(a->term()));
}

TEST_F(LeaderElectionTest, OthersWaitWhileItIsRenewed) {
  const auto a = Contender("a"), b = Contender("b");
  ASSERT_TRUE(Try(a));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(Try(b));
    clock_.Advance(absl::Seconds(10));
    ASSERT_TRUE(a->Renew().ok());
    EXPECT_TRUE(a->Valid());
  }
  EXPECT_EQ(b->seen_holder(), "a");
  EXPECT_FALSE(b->Valid());
}

TEST_F(LeaderElectionTest, ASilentHolderIsFollowedAndWasNotValidAnyMore) {
  const auto a = Contender("a"), b = Contender("b");
  ASSERT_TRUE(Try(a));
  clock_.Advance(absl::Seconds(5));
  EXPECT_FALSE(Try(b));  // it sees the lease for the first time
  clock_.Advance(absl::Seconds(15) - absl::Nanoseconds(1));
  EXPECT_FALSE(Try(b));
  EXPECT_FALSE(a->Valid());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(Try(b));
  EXPECT_GT(b->term(), a->term());
  EXPECT_EQ(IntegerAt(store_.lease(), {"spec", "leaseTransitions"}), 1);

  EXPECT_EQ(a->Renew().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(lost_, ElementsAre("a: b has the lease"));
  EXPECT_EQ(a->Renew().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(lost_.size(), 1u);
}

// The contender's clock counts, whatever the lease says of its times.
TEST_F(LeaderElectionTest, TimesInTheLeaseCountNothing) {
  store_.Put({{"metadata", {{"name", "supervisor"}}},
              {"spec",
               {{"holderIdentity", "old"},
                {"leaseDurationSeconds", 15},
                {"renewTime", "2001-01-01T00:00:00.000000Z"}}}});
  const auto b = Contender("b");
  EXPECT_FALSE(Try(b));
  clock_.Advance(absl::Seconds(15));
  EXPECT_TRUE(Try(b));
}

TEST_F(LeaderElectionTest, AHolderThatCouldNotRenewGoesOnIfNobodyElseLed) {
  const auto a = Contender("a");
  ASSERT_TRUE(Try(a));
  const int64_t term = a->term();
  clock_.Advance(absl::Minutes(1));
  EXPECT_FALSE(a->Valid());
  EXPECT_EQ(a->AwaitValid(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  store_.set_fault(LeaseStore::Fault::kUnavailable);
  EXPECT_EQ(a->Renew().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(a->Renew().ok());
  EXPECT_TRUE(a->Valid());
  EXPECT_TRUE(a->AwaitValid(absl::InfiniteDuration()).ok());
  EXPECT_EQ(a->term(), term);
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(LeaderElectionTest, ARenewalWhoseAnswerIsLostIsNoLoss) {
  const auto a = Contender("a");
  ASSERT_TRUE(Try(a));
  store_.set_fault(LeaseStore::Fault::kLostAnswer);
  EXPECT_EQ(a->Renew().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(a->Renew().code(), absl::StatusCode::kAborted);  // it sees that it was done
  EXPECT_TRUE(a->Renew().ok());
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(LeaderElectionTest, AnAcquisitionWhoseAnswerIsLostIsMadeAgain) {
  const auto a = Contender("a");
  store_.set_fault(LeaseStore::Fault::kLostAnswer);
  EXPECT_EQ(a->TryAcquire().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(a->Valid());
  EXPECT_TRUE(Try(a));
  EXPECT_TRUE(a->Valid());
}

TEST_F(LeaderElectionTest, OfSeveralThatSeeItFreeOneTakesIt) {
  const auto a = Contender("a"), b = Contender("b");
  ASSERT_TRUE(Try(a));
  a->Release();
  // b reads the free lease; before it writes, c takes it.
  const Json free = store_.lease();
  Serve([this, &free, first = true](Exchange& exchange) mutable {
    if (std::exchange(first, false)) return exchange.Answer(200, Dump(free));
    store_.Serve(exchange);
  });
  const auto late = Contender("late");
  Json taken = free;
  taken["spec"]["holderIdentity"] = "c";
  store_.Put(taken);
  EXPECT_FALSE(Try(late));
  EXPECT_EQ(TextAt(store_.lease(), {"spec", "holderIdentity"}), "c");
}

TEST_F(LeaderElectionTest, WhatIsGivenBackIsFreeAtOnce) {
  const auto a = Contender("a"), b = Contender("b");
  ASSERT_TRUE(Try(a));
  EXPECT_FALSE(Try(b));
  a->Release();
  EXPECT_FALSE(a->Valid());
  EXPECT_TRUE(Try(b));
  EXPECT_GT(b->term(), a->term());
  EXPECT_EQ(a->Renew().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LeaderElectionTest, ADeletedLeaseIsLost) {
  const auto a = Contender("a");
  ASSERT_TRUE(Try(a));
  store_.Put(nullptr);
  EXPECT_EQ(a->Renew().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("was deleted")));
  EXPECT_FALSE(a->Valid());
}

TEST_F(LeaderElectionTest, TermsGrowAlsoWhenTheWallIsSetBack) {
  const auto a = Contender("a"), b = Contender("b");
  ASSERT_TRUE(Try(a));
  a->Release();
  clock_.StepWall(-absl::Hours(1000));
  ASSERT_TRUE(Try(b));
  EXPECT_EQ(b->term(), a->term() + 1);
}

TEST_F(LeaderElectionTest, ATermCanBeRaised) {
  const auto a = Contender("a"), b = Contender("b");
  ASSERT_TRUE(Try(a));
  const int64_t high = a->term() + 1'000'000'000'000;
  store_.set_fault(LeaseStore::Fault::kUnavailable);
  EXPECT_FALSE(a->RaiseTerm(high).ok());
  EXPECT_LT(a->term(), high);
  ASSERT_TRUE(a->RaiseTerm(high).ok());
  EXPECT_EQ(a->term(), high);
  ASSERT_TRUE(a->RaiseTerm(1).ok());
  EXPECT_EQ(a->term(), high);
  ASSERT_TRUE(a->Renew().ok());
  a->Release();
  ASSERT_TRUE(Try(b));
  EXPECT_EQ(b->term(), high + 1);
}

TEST_F(LeaderElectionTest, LooksAgainAndAgainUntilItLeads) {
  const auto a = Contender("a"), b = Contender("b");
  ASSERT_TRUE(Try(a));
  std::vector<absl::Status> reports;
  const auto report = [&](const absl::Status& status) { reports.push_back(status); };
  ASSERT_TRUE(b->Acquire(report, {}).ok());
  EXPECT_EQ(pauses_.taken().size(), 5u);  // each of three seconds
  EXPECT_THAT(reports, IsEmpty());
  std::stop_source stop;
  pauses_.set_during([&] { stop.request_stop(); });
  EXPECT_EQ(Contender("c")->Acquire(report, stop.get_token()).code(), absl::StatusCode::kCancelled);
}

TEST_F(LeaderElectionTest, AThreadRenewsItUntilItIsLost) {
  const auto a = Contender("a");
  ASSERT_TRUE(Try(a));
  // Somebody else takes it during the third pause.
  pauses_.set_during([this, pause = 0]() mutable {
    if (++pause != 3) return;
    Json taken = store_.lease();
    EXPECT_EQ(TextAt(taken, {"spec", "renewTime"}), MicroTimeText(clock_.Now() - absl::Seconds(3)));
    taken["spec"]["holderIdentity"] = "b";
    store_.Put(taken);
  });
  a->StartRenewal();
  told_.get_future().wait();
  EXPECT_THAT(lost_, ElementsAre("a: b has the lease"));
  EXPECT_FALSE(a->Valid());
}

}  // namespace
}  // namespace adaptdl::kube
