#include "services/supervisor/costs/cost_accountant.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// 10^9 s are 2001-09-09 01:46:40, in the middle of an hour.
class CostAccountantTest : public testing::Test {
 protected:
  static Holder HolderOf(const std::string& job, double part) { return {"team", job, "uid-" + job, part}; }
  static std::map<std::string, NodeView> View(const std::string& node, std::vector<Holder> holders) {
    return {{node, {true, std::move(holders)}}};
  }
  void Advance(absl::Duration duration, const std::map<std::string, NodeView>& views) {
    clock_.Advance(duration);
    accountant_.Advance(views, clock_.Both());
  }
  CostSum Line(const std::string& job, const std::string& pool = "p") const {
    const auto lines = accountant_.Lines("*", 1, std::numeric_limits<int64_t>::max());
    const std::string uid = job.empty() ? "" : "uid-" + job;
    const auto line = lines.find({job.empty() ? "" : "team", job, uid, pool});
    return line == lines.end() ? CostSum() : line->second;
  }
  // In units of currency.
  double Cost(const std::string& job) const {
    return static_cast<double>(Line(job).cost_nanos) / kNanosOfUnit;
  }
  double Hours(const std::string& job) const {
    return static_cast<double>(Line(job).node_micros) / kMicrosOfHour;
  }

  ManualClock clock_;
  CostAccountant accountant_{CostOptions()};
};

TEST_F(CostAccountantTest, AJobPaysForThePartThatItHoldsAndTheRestIsIdle) {
  accountant_.SetPool("p", {{"n", 2.0}}, clock_.Both());
  accountant_.Advance(View("n", {HolderOf("a", 0.25)}), clock_.Both());
  Advance(absl::Hours(1), View("n", {}));
  Advance(absl::Hours(1), View("n", {}));
  EXPECT_NEAR(Cost("a"), 0.5, 1e-6);
  EXPECT_NEAR(Hours("a"), 0.25, 1e-6);
  EXPECT_NEAR(Cost(""), 3.5, 1e-6);
  EXPECT_NEAR(Hours(""), 1.75, 1e-6);
  EXPECT_NEAR(*accountant_.CostOf("uid-a"), 0.5, 1e-6);
}

TEST_F(CostAccountantTest, HolidaysOfTheClockAreNotPaid) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  clock_.StepWall(absl::Hours(24 * 365));
  Advance(absl::Minutes(30), View("n", {}));
  clock_.StepWall(-absl::Hours(24 * 365));
  Advance(absl::Minutes(30), View("n", {}));
  EXPECT_NEAR(Cost(""), 1, 1e-6);
}

TEST_F(CostAccountantTest, ANodeCostsFromItsCreation) {
  accountant_.SetPool("p", {{"n", 1.0, clock_.Now() - absl::Minutes(30)}}, clock_.Both());
  Advance(absl::Minutes(30), View("n", {}));
  EXPECT_NEAR(Cost(""), 1, 1e-6);
}

TEST_F(CostAccountantTest, ACreationThatNobodyCanHaveSeenIsBounded) {
  accountant_.SetPool("p", {{"old", 1.0, absl::UnixEpoch()}, {"new", 1.0, clock_.Now() + absl::Hours(5)}},
                      clock_.Both());
  accountant_.Advance({}, clock_.Both());
  EXPECT_NEAR(Cost(""), 24 * 31, 1e-6);
}

TEST_F(CostAccountantTest, ANodeThatIsNamedNoMoreCostsNoMore) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  Advance(absl::Minutes(5), View("n", {}));
  clock_.Advance(absl::Minutes(1));
  accountant_.SetPool("p", {}, clock_.Both());
  Advance(absl::Hours(3), View("n", {}));
  EXPECT_NEAR(Cost(""), 0.1, 1e-6);
  EXPECT_THAT(accountant_.NodeIds(), IsEmpty());
}

TEST_F(CostAccountantTest, AMissingReportEndsNothingAndIsMadeUpFor) {
  accountant_.SetPool("p", {{"n", 6.0}}, clock_.Both());
  Advance(absl::Minutes(10), {});
  Advance(absl::Minutes(50), {});
  EXPECT_NEAR(Cost(""), 1, 1e-6) << "nobody has seen it for longer than that";
  accountant_.SetPool("p", {{"n", 6.0}}, clock_.Both());
  Advance(absl::ZeroDuration(), {});
  EXPECT_NEAR(Cost(""), 6, 1e-6) << "it was there all the time";
}

TEST_F(CostAccountantTest, ANodeThatIsSeenCostsWhateverItsAutoscalerDoes) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  for (int i = 0; i < 60; ++i) Advance(absl::Minutes(1), View("n", {HolderOf("a", 1)}));
  EXPECT_NEAR(Cost("a") + Cost(""), 1, 1e-6);
}

TEST_F(CostAccountantTest, ANewPriceCountsFromThenOn) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  Advance(absl::Minutes(6), View("n", {HolderOf("a", 1)}));
  clock_.Advance(absl::Minutes(6));
  accountant_.SetPool("p", {{"n", 2.0}}, clock_.Both());
  Advance(absl::Minutes(6), View("n", {}));
  EXPECT_NEAR(Cost("a") + Cost(""), 0.4, 1e-6);
}

TEST_F(CostAccountantTest, WithoutAPriceThereIsTimeAndNoCost) {
  accountant_.SetPool("p", {{"n", std::nullopt}}, clock_.Both());
  accountant_.Advance(View("n", {HolderOf("a", 1)}), clock_.Both());
  Advance(absl::Hours(1), View("n", {}));
  EXPECT_NEAR(Hours("a"), 1, 1e-6);
  EXPECT_EQ(Line("a").cost_nanos, 0);
  EXPECT_EQ(accountant_.CostOf("uid-a"), std::nullopt);
  EXPECT_EQ(accountant_.CostOf("uid-nobody"), std::nullopt);
}

TEST_F(CostAccountantTest, HoursAreKeptApartAndAskedForOneByOne) {
  const int64_t first = HourOf(clock_.Now());
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  for (int i = 0; i < 180; ++i) Advance(absl::Minutes(1), View("n", {}));
  EXPECT_EQ(accountant_.FirstHour(), first);
  const auto second = accountant_.Lines("*", first + 1, first + 2);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NEAR(static_cast<double>(second.begin()->second.cost_nanos), 1e9, 1);
  EXPECT_THAT(accountant_.Lines("team", 1, first + 9), IsEmpty()) << "what nobody used is no namespace's";
}

TEST_F(CostAccountantTest, AnotherProcessGoesOnWhereTheFirstEnded) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  accountant_.Advance(View("n", {HolderOf("a", 1)}), clock_.Both());
  Advance(absl::Minutes(6), View("n", {HolderOf("a", 1)}));
  const CostChanges stored = accountant_.TakeChanges(clock_.Both());
  ASSERT_TRUE(stored.nodes.has_value());
  Advance(absl::Minutes(6), View("n", {HolderOf("a", 1)}));  // is lost

  CostAccountant next{CostOptions()};
  clock_.Advance(absl::Minutes(6));
  next.Restore({stored.put_rows, *stored.nodes, "EUR"}, clock_.Both());
  next.Advance(View("n", {HolderOf("a", 1)}), clock_.Both());
  EXPECT_EQ(next.currency(), "EUR");
  EXPECT_NEAR(*next.CostOf("uid-a"), 0.3, 1e-6) << "those who hold it now pay for the time in between";
}

TEST_F(CostAccountantTest, ANodeThatNobodyNamesAgainIsForgotten) {
  CostContents contents;
  contents.nodes = {{"p", "n", 1, clock_.Now() - absl::Hours(24)}};
  accountant_.Restore(contents, clock_.Both());
  const auto nobody = [](const std::string&) { return false; };
  accountant_.Expire(nobody, clock_.Both());
  EXPECT_THAT(accountant_.NodeIds(), ElementsAre("n"));
  clock_.Advance(absl::Hours(24 * 31));
  accountant_.Expire(nobody, clock_.Both());
  EXPECT_THAT(accountant_.NodeIds(), IsEmpty());
  EXPECT_TRUE(accountant_.TakeChanges(clock_.Both()).nodes->empty());
}

TEST_F(CostAccountantTest, WhatCouldNotBeStoredIsAmongTheNextChanges) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  Advance(absl::Minutes(6), View("n", {}));
  const CostChanges changes = accountant_.TakeChanges(clock_.Both());
  EXPECT_EQ(changes.put_rows.size(), 1u);
  EXPECT_TRUE(accountant_.TakeChanges(clock_.Both()).empty());
  accountant_.PutBack(changes);
  EXPECT_EQ(accountant_.TakeChanges(clock_.Both()).put_rows, changes.put_rows);
}

TEST_F(CostAccountantTest, OldHoursGoAndLeaveTheSumsOfJobsThatAreKnown) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  const auto view = View("n", {HolderOf("known", 0.5), HolderOf("gone", 0.5)});
  accountant_.Advance(view, clock_.Both());
  Advance(absl::Hours(2), view);
  accountant_.SetPool("p", {}, clock_.Both());
  clock_.Advance(absl::Hours(24 * 40));
  const auto known = [](const std::string& uid) { return uid == "uid-known"; };
  (void)accountant_.TakeChanges(clock_.Both());
  accountant_.Expire(known, clock_.Both());
  EXPECT_EQ(accountant_.FirstHour(), std::nullopt);
  EXPECT_THAT(accountant_.Lines("*", 1, 1'000'000'000), IsEmpty());
  EXPECT_NEAR(*accountant_.CostOf("uid-known"), 1, 1e-6);
  EXPECT_EQ(accountant_.CostOf("uid-gone"), std::nullopt);
  const CostChanges changes = accountant_.TakeChanges(clock_.Both());
  EXPECT_EQ(changes.delete_hours.size(), 3u);
  ASSERT_EQ(changes.put_rows.size(), 1u);
  EXPECT_EQ(changes.put_rows[0].hour, 0);
  accountant_.Expire([](const std::string&) { return false; }, clock_.Both());
  EXPECT_EQ(accountant_.CostOf("uid-known"), std::nullopt);
  EXPECT_THAT(accountant_.TakeChanges(clock_.Both()).delete_totals, ElementsAre("uid-known"));
}

TEST_F(CostAccountantTest, RowsAreBounded) {
  CostAccountant small{CostOptions{.max_rows = 5}};
  small.SetPool("p", {{"n", 1.0}}, clock_.Both());
  for (int i = 0; i < 12; ++i) {
    clock_.Advance(absl::Hours(1));
    small.Advance(View("n", {}), clock_.Both());
  }
  small.Expire([](const std::string&) { return false; }, clock_.Both());
  EXPECT_EQ(small.Lines("*", 1, 1'000'000'000).size(), 1u);
  EXPECT_GE(*small.FirstHour(), HourOf(clock_.Now()) - 5);
}

TEST_F(CostAccountantTest, IncreasesAreToldOnceByPoolAndNamespace) {
  accountant_.SetPool("p", {{"n", 1.0}}, clock_.Both());
  accountant_.Advance(View("n", {HolderOf("a", 0.5)}), clock_.Both());
  Advance(absl::Hours(1), View("n", {}));
  auto increases = accountant_.TakeIncreases();
  EXPECT_EQ(increases.size(), 2u);
  EXPECT_NEAR(static_cast<double>(increases.at({"p", "team"})), 0.5e9, 10);
  EXPECT_THAT(accountant_.TakeIncreases(), IsEmpty());
}

// Any history: nodes that come, go, change their price and are not reported for a while; jobs that hold any part of
// them; processes that end with or without having stored; clocks that are set. The lines together are always the bill.
TEST_F(CostAccountantTest, LinesAreAlwaysTheBill) {
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % n); };
    const auto chance = [&] { return static_cast<double>(random() % 1001) / 1000; };
    auto accountant = std::make_unique<CostAccountant>(CostOptions());
    // What a store would hold.
    std::map<std::tuple<int64_t, std::string, std::string>, CostRow> rows;
    std::vector<BilledNode> nodes;
    // The bill by hand, of each pool: its only node costs 3.6 units per hour, a thousandth per second.
    std::map<std::string, absl::Duration> bill;
    std::map<std::string, absl::Time> since;
    const std::vector<std::string> pools = {"a", "b", "c"};
    for (int step = 0; step < 120; ++step) {
      std::map<std::string, NodeView> views;
      for (const std::string& pool : pools) {
        if (!since.contains(pool)) continue;
        NodeView& view = views["n-" + pool];
        view.alive = true;
        for (int i = pick(4); i > 0; --i)
          view.holders.push_back(HolderOf(absl::StrCat("j", pick(5)), chance()));
      }
      clock_.Advance(absl::Milliseconds(pick(400'000)));
      accountant->Advance(views, clock_.Both());
      const std::string& pool = pools[pick(3)];
      switch (pick(6)) {
        case 0:
          accountant->SetPool(pool, {{"n-" + pool, 3.6}}, clock_.Both());
          since.insert({pool, clock_.Steady()});
          break;
        case 1:
          accountant->SetPool(pool, {}, clock_.Both());
          if (since.contains(pool)) bill[pool] += clock_.Steady() - since.at(pool);
          since.erase(pool);
          break;
        case 2:
          clock_.StepWall(absl::Minutes(pick(300) - 150));
          break;
        case 3: {
          const CostChanges changes = accountant->TakeChanges(clock_.Both());
          for (const CostRow& row : changes.put_rows) rows[{row.hour, row.job_uid, row.pool}] = row;
          if (changes.nodes.has_value()) nodes = *changes.nodes;
          if (pick(2) == 0) break;
          accountant = std::make_unique<CostAccountant>(CostOptions());
          CostContents contents;
          for (const auto& [key, row] : rows) contents.rows.push_back(row);
          contents.nodes = nodes;
          accountant->Restore(contents, clock_.Both());
          break;
        }
        default:
          break;
      }
    }
    std::map<std::string, NodeView> views;
    for (const auto& [pool, begun] : since) {
      views["n-" + pool].alive = true;
      bill[pool] += clock_.Steady() - begun;
    }
    accountant->Advance(views, clock_.Both());
    std::map<std::string, CostSum> sums;
    for (const auto& [key, sum] : accountant->Lines("*", 1, std::numeric_limits<int64_t>::max())) {
      EXPECT_GE(sum.cost_nanos, 0);
      EXPECT_GE(sum.node_micros, 0);
      sums[std::get<3>(key)].node_micros += sum.node_micros;
      sums[std::get<3>(key)].cost_nanos += sum.cost_nanos;
    }
    for (const auto& [pool, duration] : bill) {
      EXPECT_EQ(sums[pool].node_micros, absl::ToInt64Microseconds(duration)) << "seed " << seed;
      // A microsecond costs a billionth: nothing is ever left over.
      EXPECT_EQ(sums[pool].cost_nanos, absl::ToInt64Microseconds(duration)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
