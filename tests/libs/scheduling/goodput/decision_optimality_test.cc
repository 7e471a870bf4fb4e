// Decide() as a whole against the best that there is: every placement of every job on every node, several
// resources, jobs that can't be moved, and quotas, as one integer programme that COIN-OR CBC solves.
//
// The policy does less by design (docs/policy.md): it selects by units of a pool and finds places afterwards,
// its sizes have a certain form, and a quota bounds each member by itself. The bounds below say what all of
// that costs together.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "libs/scheduling/goodput/valuation.h"
#include "simulator/policies/ilp/integer_program.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

struct Kind {
  // Nodes differ, and jobs need different amounts of cores, memory and GPUs.
  bool several_resources = false;
  bool pinned_jobs = false;
  bool quotas = false;
};

// Up to seven jobs on up to four nodes of one or two GPU types; some run, some wait.
class RandomInstance {
 public:
  RandomInstance(uint64_t seed, const Kind& kind) : random_(seed), kind_(kind) {}

  ClusterView Make() {
    ClusterView view;
    view.now = absl::UnixEpoch() + absl::Hours(10);
    const int types = Int(1, 2);
    const int nodes = Int(types, 4);
    for (int n = 0; n < nodes; ++n) view.nodes.push_back(RandomNode(n, n % types));
    const int jobs = Int(2, 7);
    for (int j = 0; j < jobs; ++j) view.jobs.push_back(RandomJob(j, types));
    for (JobInfo& job : view.jobs) Start(view, &job);
    if (kind_.quotas) view.namespaces["bounded"].gpu_quota = Int(1, 8);
    return view;
  }

 private:
  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  bool Chance(double part) { return Real(0, 1) < part; }

  NodeInfo RandomNode(int index, int type) {
    NodeInfo node = Node(absl::StrCat("node-", index), 16000, 4);
    node.gpu_type = absl::StrCat("t", type);
    if (kind_.several_resources) {
      node.capacity[kGpu] = Int(1, 4);
      node.capacity[kCpu] = 4000 * Int(1, 4);
      node.capacity[kMemory] = int64_t{8} << (30 + Int(0, 3));
    }
    return node;
  }

  JobInfo RandomJob(int index, int types) {
    JobInfo job = Job(absl::StrCat("job-", index));
    job.request = {{kGpu, 1}};
    if (kind_.several_resources) {
      job.request = {{kCpu, 500 * Int(1, 6)}, {kMemory, int64_t{1} << (30 + Int(0, 3))}};
      if (Chance(0.8)) job.request[kGpu] = Int(1, 2);
    }
    job.max_replicas = Int(1, 8);
    job.min_replicas = Chance(0.2) ? std::min(job.max_replicas, Int(1, 3)) : 1;
    if (Chance(0.15)) job.allowed_replicas = {job.max_replicas};
    if (!job.allowed_replicas.empty()) job.min_replicas = 1;
    const double within = Real(0, 0.5);
    job.speedup = Scaling(within + Real(0, 0.5), 16, within);
    if (types > 1 && Chance(0.5)) job.speedup_by_type["t1"] = Faster(*job.speedup, Real(0.5, 4));
    job.created = absl::UnixEpoch() + absl::Minutes(Int(0, 600));
    job.attained_service = Real(0, 1e5);
    job.rescale_seconds = std::exp(Real(-2, 4));
    if (Chance(0.6)) job.remaining_seconds = std::exp(Real(4, 12));
    // Jobs that have measured nothing go by their turn, not by what they are worth.
    job.done_seconds = std::exp(Real(0, 12));
    job.preemptible = !kind_.pinned_jobs || Chance(0.7);
    if (kind_.quotas && Chance(0.6)) job.name_space = "bounded";
    return job;
  }

  static std::shared_ptr<const goodput::SpeedupTable> Faster(const goodput::SpeedupTable& table,
                                                             double factor) {
    std::vector<double> one = {0};
    std::vector<double> several = {0};
    for (int k = 1; k <= table.max_replicas(); ++k) {
      one.push_back(factor * table.At(1, k));
      several.push_back(factor * table.At(2, k));
    }
    return std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::FromRows(one, several));
  }

  // Half of the jobs hold replicas from before, on nodes of one type that have room for them.
  void Start(const ClusterView& view, JobInfo* job) {
    if (!Chance(0.5)) return;
    const int wanted =
        job->allowed_replicas.empty() ? Int(job->min_replicas, job->max_replicas) : job->allowed_replicas[0];
    std::map<std::string, Resources> left;
    for (const NodeInfo& node : view.nodes) left[node.id] = node.capacity;
    for (const JobInfo& other : view.jobs) {
      for (const std::string& node : other.allocation) {
        for (const auto& [name, amount] : other.request) left[node][name] -= amount;
      }
    }
    const std::string type = view.nodes[Int(0, static_cast<int>(view.nodes.size()) - 1)].gpu_type;
    std::vector<std::string> places;
    for (const NodeInfo& node : view.nodes) {
      while (node.gpu_type == type && static_cast<int>(places.size()) < wanted) {
        Resources after = left[node.id];
        bool fits = true;
        for (const auto& [name, amount] : job->request) fits = (after[name] -= amount) >= 0 && fits;
        if (!fits) break;
        left[node.id] = after;
        places.push_back(node.id);
      }
    }
    if (static_cast<int>(places.size()) == wanted) job->allocation = places;
  }

  std::mt19937_64 random_;
  const Kind kind_;
};

// The programme: an option for every way to place a job, a capacity for every resource of every node and for
// every quota.
class Programme {
 public:
  Programme(const ClusterView& view, const GoodputOptions& options)
      : view_(view), model_(view), valuation_(model_, options.valuation) {}

  // The most that there is to be had.
  double Optimum() {
    simulator::IntegerProgram programme;
    for (int r = 0; r < model_.resources(); ++r) divisor_.push_back(DivisorOf(r));
    for (int node = 0; node < model_.node_count(); ++node) {
      for (int r = 0; r < model_.resources(); ++r) {
        programme.capacities.push_back(
            static_cast<double>(std::max<int64_t>(model_.free(node)[r], 0) / divisor_[r]));
      }
    }
    for (const auto& [name, info] : view_.namespaces) {
      quota_[name] = static_cast<int>(programme.capacities.size());
      int left = info.gpu_quota;
      for (int job = 0; job < model_.job_count(); ++job) {
        if (view_.jobs[job].name_space != name || !model_.job(job).pinned) continue;
        left -= GpusOf(view_.jobs[job], CountReplicas(model_.job(job).present));
      }
      programme.capacities.push_back(std::max(left, 0));
    }
    programme.groups.resize(model_.job_count());
    for (int job = 0; job < model_.job_count(); ++job) {
      if (model_.job(job).pinned) continue;
      for (const Pool& pool : model_.pools()) {
        ForEachPlacement(job, pool, [&](const Placement& placement) {
          programme.groups[job].push_back(ToOption(job, placement));
        });
      }
    }
    const auto best = simulator::SolveIntegerProgram(programme);
    EXPECT_TRUE(best.ok()) << best.status();
    return best.ok() ? best->value : 0;
  }

  // What a decision is worth. Fails if it is not possible.
  double Worth(const Decision& decision) {
    std::map<std::string, int> used;
    std::vector<int64_t> left;
    for (int node = 0; node < model_.node_count(); ++node) {
      left.insert(left.end(), model_.free(node), model_.free(node) + model_.resources());
    }
    double worth = 0;
    for (int job = 0; job < model_.job_count(); ++job) {
      const JobInfo& info = view_.jobs[job];
      const Placement placement = ToPlacement(decision.jobs[job].allocation);
      used[info.name_space] += GpusOf(info, CountReplicas(placement));
      if (model_.job(job).pinned) {
        EXPECT_EQ(placement, model_.job(job).present);
        continue;
      }
      if (placement.empty()) continue;
      EXPECT_TRUE(model_.Allows(job, CountReplicas(placement)));
      for (const Share& share : placement) {
        for (int r = 0; r < model_.resources(); ++r) {
          int64_t& there = left[share.node * model_.resources() + r];
          there -= model_.job(job).need[r] * share.replicas;
          EXPECT_GE(there, 0) << "node " << share.node;
        }
      }
      worth += ValueAt(job, placement);
    }
    for (const auto& [name, info] : view_.namespaces) {
      if (info.gpu_quota > 0 && !HasPinned(name)) {
        EXPECT_LE(used[name], info.gpu_quota);
      }
    }
    return worth;
  }

 private:
  bool HasPinned(const std::string& name) const {
    for (int job = 0; job < model_.job_count(); ++job) {
      if (view_.jobs[job].name_space == name && model_.job(job).pinned) return true;
    }
    return false;
  }

  // In bytes, a solver that works with tolerances would find memory where there is none.
  int64_t DivisorOf(int resource) const {
    int64_t divisor = 0;
    for (int job = 0; job < model_.job_count(); ++job) {
      divisor = std::gcd(divisor, model_.job(job).need[resource]);
    }
    return std::max<int64_t>(divisor, 1);
  }

  Placement ToPlacement(const std::vector<std::string>& allocation) const {
    Placement placement;
    for (int node = 0; node < model_.node_count(); ++node) {
      const auto replicas = std::count(allocation.begin(), allocation.end(), view_.nodes[node].id);
      if (replicas > 0) placement.push_back({node, static_cast<int>(replicas)});
    }
    return placement;
  }

  double ValueAt(int job, const Placement& placement) const {
    const bool stays = model_.job(job).can_stay && placement == model_.job(job).present;
    const bool opens = model_.Opens(job, model_.pool_of(placement.front().node), CountReplicas(placement));
    return valuation_.Value(job, model_.SpeedupAt(job, placement), !stays, opens);
  }

  simulator::IntegerProgram::Option ToOption(int job, const Placement& placement) const {
    simulator::IntegerProgram::Option option;
    option.value = ValueAt(job, placement);
    for (const Share& share : placement) {
      for (int r = 0; r < model_.resources(); ++r) {
        const int64_t amount = model_.job(job).need[r] / divisor_[r] * share.replicas;
        if (amount > 0) {
          option.usage.push_back({share.node * model_.resources() + r, static_cast<double>(amount)});
        }
      }
    }
    const auto quota = quota_.find(view_.jobs[job].name_space);
    if (quota != quota_.end()) {
      option.usage.push_back(
          {quota->second, static_cast<double>(GpusOf(view_.jobs[job], CountReplicas(placement)))});
    }
    return option;
  }

  int RoomFor(int job, int node) const {
    int64_t room = view_.jobs[job].max_replicas;
    for (int r = 0; r < model_.resources(); ++r) {
      const int64_t need = model_.job(job).need[r];
      if (need > 0) room = std::min(room, std::max<int64_t>(model_.free(node)[r], 0) / need);
    }
    return static_cast<int>(room);
  }

  void ForEachPlacement(int job, const Pool& pool, const std::function<void(const Placement&)>& visit) const {
    Placement placement;
    const std::function<void(size_t)> place = [&](size_t index) {
      if (index == pool.nodes.size()) {
        if (!placement.empty() && model_.Allows(job, CountReplicas(placement))) visit(placement);
        return;
      }
      place(index + 1);
      const int node = pool.nodes[index];
      const int held = CountReplicas(placement);
      for (int k = 1; k <= RoomFor(job, node) && held + k <= view_.jobs[job].max_replicas; ++k) {
        placement.push_back({node, k});
        place(index + 1);
        placement.pop_back();
      }
    };
    place(0);
  }

  const ClusterView& view_;
  const ClusterModel model_;
  const Valuation valuation_;
  std::map<std::string, int> quota_;  // its capacity
  std::vector<int64_t> divisor_;      // by resource
};

struct Gaps {
  double mean = 0;
  double worst = 0;
  // Part of the decisions that are as good as the best.
  double exact = 0;
};

// Of decisions on clusters of a kind, relative to the optimum.
Gaps Measure(uint64_t seed, const Kind& kind, int instances) {
  RandomInstance random(seed, kind);
  const GoodputOptions options;
  Gaps gaps;
  int counted = 0;
  for (int i = 0; i < instances; ++i) {
    SCOPED_TRACE(i);
    const ClusterView view = random.Make();
    Programme programme(view, options);
    const double best = programme.Optimum();
    const double worth = programme.Worth(GoodputPolicy(options).Decide(view, 1));
    EXPECT_LE(worth, best * (1 + 1e-6)) << "more than the optimum: the programme lacks something";
    if (best <= 0) continue;
    const double gap = std::max(0.0, 1 - worth / best);
    ++counted;
    gaps.mean += gap;
    gaps.worst = std::max(gaps.worst, gap);
    if (gap < 1e-6) gaps.exact += 1;
  }
  EXPECT_GT(counted, instances * 9 / 10);
  gaps.mean /= counted;
  gaps.exact /= counted;
  testing::Test::RecordProperty("mean_gap", absl::StrCat(gaps.mean));
  testing::Test::RecordProperty("worst_gap", absl::StrCat(gaps.worst));
  testing::Test::RecordProperty("exact", absl::StrCat(gaps.exact));
  std::printf("mean gap %.4f, worst %.4f, optimal %.3f\n", gaps.mean, gaps.worst, gaps.exact);
  return gaps;
}

constexpr int kInstances = 300;

struct Bounds {
  double mean = 0;
  double worst = 0;
  double exact = 0;
};

void ExpectWithin(const Bounds& bounds, const Gaps& gaps) {
  EXPECT_LE(gaps.mean, bounds.mean);
  EXPECT_LE(gaps.worst, bounds.worst);
  EXPECT_GE(gaps.exact, bounds.exact);
}

TEST(DecisionOptimality, EqualNodesAndJobs) {
  ExpectWithin({.mean = 0.015, .worst = 0.2, .exact = 0.65}, Measure(1, {}, kInstances));
}

TEST(DecisionOptimality, JobsThatCannotBeMoved) {
  ExpectWithin({.mean = 0.015, .worst = 0.25, .exact = 0.65}, Measure(2, {.pinned_jobs = true}, kInstances));
}

TEST(DecisionOptimality, Quotas) {
  ExpectWithin({.mean = 0.02, .worst = 0.25, .exact = 0.65}, Measure(3, {.quotas = true}, kInstances));
}

// Units are those of the GPUs; where cores or memory are short, the selection does not know it.
TEST(DecisionOptimality, SeveralResources) {
  ExpectWithin({.mean = 0.08, .worst = 0.6, .exact = 0.4},
               Measure(4, {.several_resources = true}, kInstances));
}

TEST(DecisionOptimality, AllOfItTogether) {
  ExpectWithin({.mean = 0.05, .worst = 0.6, .exact = 0.6}, Measure(5, {true, true, true}, kInstances));
}

}  // namespace
}  // namespace adaptdl::scheduling
