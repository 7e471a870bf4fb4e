#include "services/allocator/metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace adaptdl::allocator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Jobs of these speed-ups and weights.
struct Shares {
  scheduling::ClusterView view;
  scheduling::Decision decision;

  void Add(double speedup, double weight = 1, bool unschedulable = false) {
    scheduling::JobInfo& job = view.jobs.emplace_back();
    job.weight = weight;
    scheduling::JobDecision& decided = decision.jobs.emplace_back();
    decided.speedup = speedup;
    decided.unschedulable = unschedulable;
  }
  double Fairness() const { return FairnessIndex(view, decision); }
};

TEST(FairnessIndexTest, IsOneWhereAllFareAlikeAndSmallWhereOneHasEverything) {
  Shares shares;
  EXPECT_EQ(shares.Fairness(), 1) << "nobody is treated worse than others";
  shares.Add(2);
  shares.Add(2);
  EXPECT_DOUBLE_EQ(shares.Fairness(), 1);
  shares.Add(4, /*weight=*/2);
  EXPECT_DOUBLE_EQ(shares.Fairness(), 1) << "who counts twice is to have twice as much";
  shares.Add(0, 1, /*unschedulable=*/true);
  EXPECT_DOUBLE_EQ(shares.Fairness(), 1) << "no decision could help it";
  Shares greedy;
  greedy.Add(8);
  for (int i = 0; i < 3; ++i) greedy.Add(0);
  EXPECT_DOUBLE_EQ(greedy.Fairness(), 0.25);
}

TEST(MetricsTest, CountsMovesByWhatBecomesOfTheJob) {
  prometheus::Registry registry;
  Metrics metrics(&registry);
  RoundResult result;
  result.basis.decision.value = 7;
  result.basis.decision.quality = {.objective = 3, .bound = 4, .placement_loss = 0.5};
  metrics.Decided(result, absl::Milliseconds(1));
  metrics.Ended(
      "applied",
      {{"a", 0, 2, ""}, {"b", 2, 0, ""}, {"c", 1, 4, ""}, {"d", 4, 1, ""}, {"e", 2, 2, ""}, {"f", 0, 1, ""}});
  metrics.Ended("conflict", {});
  const std::string page = prometheus::TextSerializer().Serialize(registry.Collect());
  EXPECT_THAT(page, AllOf(HasSubstr("adaptdl_allocator_moves_total{kind=\"start\"} 2\n"),
                          HasSubstr("adaptdl_allocator_moves_total{kind=\"stop\"} 1\n"),
                          HasSubstr("adaptdl_allocator_moves_total{kind=\"grow\"} 1\n"),
                          HasSubstr("adaptdl_allocator_moves_total{kind=\"shrink\"} 1\n"),
                          HasSubstr("adaptdl_allocator_moves_total{kind=\"move\"} 1\n")));
  EXPECT_THAT(page,
              AllOf(HasSubstr("adaptdl_allocator_objective 3\n"), HasSubstr("adaptdl_allocator_speedup 7\n"),
                    HasSubstr("adaptdl_allocator_objective_bound 4\n"),
                    HasSubstr("adaptdl_allocator_placement_loss 0.5\n"),
                    HasSubstr("adaptdl_allocator_rounds_total{outcome=\"conflict\"} 1\n")));
}

}  // namespace
}  // namespace adaptdl::allocator
