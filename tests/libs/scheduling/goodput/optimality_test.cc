// The default policy against the integer programme of docs/policy.md, solved by COIN-OR CBC.

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "libs/scheduling/goodput/menu.h"
#include "libs/scheduling/goodput/multiple_choice.h"
#include "libs/scheduling/goodput/valuation.h"
#include "simulator/policies/ilp/integer_program.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

constexpr int kInstances = 1000;

// Up to 30 jobs on up to 64 GPUs of one to three types, on nodes of 4 or 8.
class RandomInstance {
 public:
  explicit RandomInstance(uint64_t seed) : random_(seed) {}

  ClusterView Make() {
    const int types = Int(1, 3);
    return Make(Int(1, 30), types, 64);
  }

  ClusterView Make(int jobs, int types, int most_gpus) {
    ClusterView view;
    view.now = absl::UnixEpoch() + absl::Hours(10);
    int gpus = 0;
    for (int type = 0; type < types; ++type) {
      const int per_node = Int(0, 1) == 0 ? 4 : 8;
      const int nodes = Int(1, std::max(1, most_gpus / types / per_node));
      for (int n = 0; n < nodes && gpus + per_node <= most_gpus; ++n, gpus += per_node) {
        NodeInfo node = Node(absl::StrCat("t", type, "-", 1000 + n), 64000, per_node);
        node.gpu_type = absl::StrCat("t", type);
        view.nodes.push_back(node);
      }
    }
    for (int j = 0; j < jobs; ++j) view.jobs.push_back(RandomJob(j, types));
    return view;
  }

 private:
  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  std::shared_ptr<const goodput::SpeedupTable> RandomTable(double unit) {
    const double within = Real(0, 0.5);
    const std::shared_ptr<const goodput::SpeedupTable> table = Scaling(within + Real(0, 0.5), 64, within);
    std::vector<double> one = {0};
    std::vector<double> several = {0};
    for (int k = 1; k <= 64; ++k) {
      one.push_back(unit * table->At(1, k));
      several.push_back(unit * table->At(2, k));
    }
    return std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::FromRows(one, several));
  }

  JobInfo RandomJob(int index, int types) {
    JobInfo job;
    job.key = absl::StrCat("ns/job-", index);
    job.request = {{kGpu, 1}};
    job.max_replicas = 1 << Int(0, 6);
    job.min_replicas = Int(0, 4) == 0 ? std::min(job.max_replicas, Int(1, 4)) : 1;
    job.speedup = RandomTable(1);
    for (int type = 1; type < types; ++type) {
      job.speedup_by_type[absl::StrCat("t", type)] = RandomTable(Real(0.5, 4));
    }
    job.created = absl::UnixEpoch() + absl::Hours(10) - absl::Minutes(Int(0, 600));
    job.attained_service = Real(0, 1e5);
    if (Int(0, 1) == 0) job.remaining_seconds = std::exp(Real(4, 12));
    return job;
  }

  std::mt19937_64 random_;
};

simulator::IntegerProgram ToProgramme(const ChoiceProblem& problem) {
  simulator::IntegerProgram programme;
  for (const int units : problem.capacity) programme.capacities.push_back(units);
  for (const std::vector<Option>& group : problem.groups) {
    programme.groups.emplace_back();
    for (const Option& option : group) {
      programme.groups.back().push_back({option.value, {{option.pool, static_cast<double>(option.amount)}}});
    }
  }
  return programme;
}

void CheckAgainstProgramme(const ClusterView& view) {
  const GoodputOptions options;
  const ClusterModel model(view);
  const Valuation valuation(model, options.valuation);
  const Menu menu = MakeMenu(model, valuation, options.menu);
  const auto best = simulator::SolveIntegerProgram(ToProgramme(menu.problem));
  ASSERT_TRUE(best.ok()) << best.status();
  const ChoiceResult ours = SolveMultipleChoice(menu.problem, options.limits);
  EXPECT_GE(ours.value, (1 - 1e-3) * best->value - 1e-9);
  EXPECT_LE(ours.value, best->value * (1 + 1e-6) + 1e-9) << "more than the optimum: not feasible";
  EXPECT_GE(ours.bound, best->value * (1 - 1e-6) - 1e-9) << "no bound";
}

TEST(GoodputOptimality, SelectionIsWithinAThousandthOfTheOptimum) {
  RandomInstance random(1);
  for (int i = 0; i < kInstances; ++i) {
    SCOPED_TRACE(i);
    CheckAgainstProgramme(random.Make());
  }
}

TEST(GoodputOptimality, SoIsTheSelectionThatHasJobsToKeepInPlace) {
  RandomInstance random(2);
  for (int i = 0; i < kInstances / 5; ++i) {
    SCOPED_TRACE(i);
    ClusterView view = random.Make();
    view = After(view, GoodputPolicy({}).Decide(view, 1));
    std::swap(view.jobs.front().speedup, view.jobs.back().speedup);
    CheckAgainstProgramme(view);
  }
}

// Where the table would be too large, prices and repair come close to their own bound.
TEST(GoodputOptimality, PricesAloneAreCloseToTheirBoundOnLargeClusters) {
  RandomInstance random(3);
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    const ClusterView view = random.Make(/*jobs=*/400, /*types=*/1 + i % 3, /*most_gpus=*/1024);
    const GoodputOptions options;
    const ClusterModel model(view);
    const Menu menu = MakeMenu(model, Valuation(model, options.valuation), options.menu);
    const ChoiceResult result = SolveMultipleChoice(menu.problem, {.table_updates = 0});
    EXPECT_GE(result.value, 0.99 * result.bound);
  }
}

// On equal nodes in each pool, sizes of the regular form always find a place: nothing is lost.
TEST(GoodputOptimality, PlacementLosesNothingOnAnEmptyCluster) {
  RandomInstance random(4);
  for (int i = 0; i < kInstances; ++i) {
    SCOPED_TRACE(i);
    ClusterView view = random.Make();
    for (JobInfo& job : view.jobs) job.min_replicas = job.min_replicas == 3 ? 4 : job.min_replicas;
    for (JobInfo& job : view.jobs) job.max_replicas = std::max(job.max_replicas, job.min_replicas);
    const Decision decision = GoodputPolicy({}).Decide(view, 1);
    EXPECT_LE(decision.quality.placement_loss, 1e-9 * decision.quality.objective);
    EXPECT_GE(decision.quality.objective, (1 - 1e-3) * decision.quality.bound);
  }
}

}  // namespace
}  // namespace adaptdl::scheduling
