#include "services/allocator/demand_board.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "services/allocator/allocation_round.h"
#include "tests/services/allocator/snapshots.h"

namespace adaptdl::allocator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);
constexpr size_t kLarge = 1 << 20;

class DemandBoardTest : public ::testing::Test {
 protected:
  void Decide() { board_.Set(std::move(round_.Decide(snapshot_, kNow).basis)); }

  static v1::ListJobDemandsRequest For(std::initializer_list<v1::Node> kinds) {
    v1::ListJobDemandsRequest request;
    for (const v1::Node& kind : kinds) *request.add_kinds() = kind;
    return request;
  }

  scheduling::GoodputPolicy policy_{{}};
  AllocationRound round_{&policy_};
  v1::ClusterSnapshot snapshot_;
  DemandBoard board_;
};

TEST_F(DemandBoardTest, KnowsNothingBeforeTheFirstDecision) {
  EXPECT_EQ(board_.List({}, kLarge).status().code(), absl::StatusCode::kUnavailable);
  Decide();
  EXPECT_TRUE(board_.List({}, kLarge).ok());
  board_.Refuse(absl::UnavailableError("stands by"));
  EXPECT_EQ(board_.List({}, kLarge).status().message(), "stands by");
}

TEST_F(DemandBoardTest, TellsWhatJobsCouldMakeOfNodesThatAreNotThere) {
  v1::Job job = MakeJob("a");
  *job.mutable_status()->mutable_hints() = MakeHints(2);
  *snapshot_.add_jobs() = job;
  Decide();
  const auto response = board_.List(For({MakeNode("", 500), MakeNode("", 2000)}), kLarge);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->jobs_size(), 1);
  EXPECT_EQ(response->jobs(0).namespace_(), "default");
  EXPECT_EQ(response->jobs(0).name(), "a");
  EXPECT_THAT(response->jobs(0).node_ids(), IsEmpty());
  // Not on half a core; twice the largest size that it has measured.
  ASSERT_EQ(response->jobs(0).kinds_size(), 1);
  const v1::KindSpeedups& speedups = response->jobs(0).kinds(0);
  EXPECT_EQ(speedups.kind(), 1);
  EXPECT_EQ(speedups.replicas_per_node(), 2);
  EXPECT_EQ(speedups.replicas(0), 1);
  EXPECT_EQ(speedups.replicas(speedups.replicas_size() - 1), 4);
  EXPECT_NEAR(speedups.speedups(0), 1, 1e-9);
}

TEST_F(DemandBoardTest, RulesOfPlacementHoldForKindsToo) {
  v1::Job job = MakeJob("a");
  (*job.mutable_spec()->mutable_template_()->mutable_placement()->mutable_node_selector())["disk"] = "ssd";
  *snapshot_.add_jobs() = job;
  Decide();
  v1::Node with = MakeNode("");
  (*with.mutable_labels())["disk"] = "ssd";
  const auto response = board_.List(For({MakeNode(""), with}), kLarge);
  ASSERT_EQ(response->jobs(0).kinds_size(), 1);
  EXPECT_EQ(response->jobs(0).kinds(0).kind(), 1);
}

TEST_F(DemandBoardTest, TellsWhereJobsAreAndWhatIsIdle) {
  *snapshot_.add_nodes() = MakeNode("n0");
  *snapshot_.add_nodes() = MakeNode("n1");
  *snapshot_.add_jobs() = MakeJob("a");
  Decide();
  const auto response = board_.List(For({MakeNode("")}), kLarge);
  EXPECT_THAT(response->jobs(0).node_ids(), ElementsAre("n0"));
  EXPECT_THAT(response->idle_node_ids(), ElementsAre("n1"));
}

TEST_F(DemandBoardTest, ManyJobsComeInPages) {
  for (int i = 0; i < 50; ++i) *snapshot_.add_jobs() = MakeJob(absl::StrCat("job-", i));
  Decide();
  v1::ListJobDemandsRequest request = For({MakeNode("")});
  int jobs = 0;
  int pages = 0;
  do {
    const auto page = board_.List(request, 100);
    ASSERT_TRUE(page.ok()) << page.status();
    jobs += page->jobs_size();
    ++pages;
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(jobs, 50);
  EXPECT_GT(pages, 10);
}

TEST_F(DemandBoardTest, PagesOfAnotherDecisionOrOtherKindsAreNotMixed) {
  for (int i = 0; i < 50; ++i) *snapshot_.add_jobs() = MakeJob(absl::StrCat("job-", i));
  Decide();
  v1::ListJobDemandsRequest request = For({MakeNode("")});
  request.set_page_token(board_.List(request, 100)->next_page_token());
  v1::ListJobDemandsRequest other = For({MakeNode("", 2000)});
  other.set_page_token(request.page_token());
  EXPECT_EQ(board_.List(other, 100).status().code(), absl::StatusCode::kAborted);
  Decide();
  EXPECT_EQ(board_.List(request, 100).status().code(), absl::StatusCode::kAborted);
  request.set_page_token("nonsense");
  EXPECT_EQ(board_.List(request, 100).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DemandBoardTest, RefusesKindsThatAreNone) {
  Decide();
  const auto response = board_.List(For({MakeNode(""), MakeNode("", -1)}), kLarge);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(response.status().message(), HasSubstr("kinds[1].capacity: resource cpu is -1"));
  v1::ListJobDemandsRequest many;
  for (int i = 0; i < 65; ++i) *many.add_kinds() = MakeNode("");
  EXPECT_EQ(board_.List(many, kLarge).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DemandBoardTest, RemembersTheKindsForTheNextRound) {
  Decide();
  v1::Node kind = MakeNode("");
  kind.set_gpu_type("A100");
  ASSERT_TRUE(board_.List(For({kind}), kLarge).ok());
  ASSERT_EQ(board_.Kinds().size(), 1u);
  EXPECT_EQ(board_.Kinds()[0].gpu_type, "A100");
}

}  // namespace
}  // namespace adaptdl::allocator
