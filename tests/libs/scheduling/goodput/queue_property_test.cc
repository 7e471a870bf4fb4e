// Arrivals of plain, slow-starting and elastic jobs, played through in virtual time under the default policy:
// everything ends, no work of a plain job is thrown away, and nobody waits much longer than if jobs were
// served as they come: no plain job takes more than 1.5 times what the slowest job takes there, plain ones
// together no more than 1.25 times as long, and no other job, which may have to stand back behind shorter
// ones, more than 3 times what the slowest takes.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

// Virtual time goes on in steps of so many seconds.
constexpr double kStep = 5;
// Longest time between two decisions.
constexpr double kInterval = 60;
constexpr double kRescaleSeconds = 10;

enum class Kind { kPlain, kSlow, kElastic };

struct Arrival {
  std::string name;
  Kind kind = Kind::kPlain;
  double submitted = 0;
  int replicas = 1;     // the least, and all that it has where jobs are served as they come
  double work = 0;      // seconds with these replicas
  double joins = 0;     // seconds of a run until its program is known to use the library; plain ones never do
  double measures = 0;  // seconds of running until it has measured itself
};

struct Workload {
  int nodes = 1;
  int slots = 1;  // of each node
  std::vector<Arrival> jobs;
  int total() const { return nodes * slots; }
};

Workload RandomWorkload(uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine);
  };
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  Workload workload;
  workload.nodes = integer(1, 4);
  workload.slots = integer(1, 4);
  const double plain = real(0.1, 0.9);
  // How much more comes than can be served, while it comes.
  const double load = real(0.5, 2.5);
  double now = 0;
  for (int i = 0; i < 50; ++i) {
    Arrival job;
    job.name = absl::StrCat("job-", i);
    job.kind = real(0, 1) < plain ? Kind::kPlain : real(0, 1) < 0.3 ? Kind::kSlow : Kind::kElastic;
    job.replicas = real(0, 1) < 0.8 ? 1 : integer(1, std::min(4, (workload.total() + 1) / 2));
    // Many short ones, some long.
    job.work = kStep * std::ceil(std::exp(real(std::log(30), std::log(6000))) / kStep);
    job.joins = kStep * integer(1, 4);
    job.measures = job.joins + kStep * (job.kind == Kind::kSlow ? integer(12, 100) : integer(1, 8));
    job.submitted = now;
    now += kStep * std::floor(real(0, 2) * job.work * job.replicas / workload.total() / load / kStep);
    // Bursts.
    if (real(0, 1) < 0.3) now = job.submitted;
    workload.jobs.push_back(job);
  }
  return workload;
}

// How long each took from its submission to its end, where each starts in its turn and keeps what it needs.
std::vector<double> ServeInOrder(const Workload& workload) {
  std::vector<double> took;
  std::multiset<double> free_at;  // by slot
  for (int i = 0; i < workload.total(); ++i) free_at.insert(0);
  double previous = 0;
  for (const Arrival& job : workload.jobs) {
    double start = std::max(job.submitted, previous);
    for (int i = 0; i < job.replicas; ++i) {
      start = std::max(start, *free_at.begin());
      free_at.erase(free_at.begin());
    }
    for (int i = 0; i < job.replicas; ++i) free_at.insert(start + job.work);
    took.push_back(start + job.work - job.submitted);
    previous = start;
  }
  return took;
}

class Cluster {
 public:
  explicit Cluster(const Workload& workload) : workload_(workload), jobs_(workload.jobs.size()) {
    for (int i = 0; i < workload.nodes; ++i) {
      view_.nodes.push_back(Node(absl::StrCat("node-", i), 1000 * workload.slots));
    }
    view_.capacity_curve = false;
  }

  // Until all have ended, or the time is up. Times that plain jobs were stopped.
  int Play(double time_limit) {
    double last_decision = -kInterval;
    for (now_ = 0; now_ < time_limit && ended_ < jobs_.size(); now_ += kStep) {
      bool news = false;
      while (arrived_ < jobs_.size() && workload_.jobs[arrived_].submitted <= now_) {
        active_.push_back(arrived_++);
        news = true;
      }
      if (news || news_ || now_ - last_decision >= kInterval) {
        Decide();
        last_decision = now_;
      }
      Advance();
    }
    return plain_stops_;
  }

  bool all_ended() const { return ended_ == jobs_.size(); }
  double took(size_t job) const { return *jobs_[job].ended - workload_.jobs[job].submitted; }

 private:
  struct State {
    Nodes allocation;
    double progress = 0;
    double run = 0;       // of all runs
    double this_run = 0;  // of this one
    double pause = 0;     // until it goes on
    bool joined = false;
    bool measured = false;
    int profiled = 0;
    int restarts = 0;
    std::optional<double> ended;
  };

  JobInfo Describe(size_t index) const {
    const Arrival& arrival = workload_.jobs[index];
    const State& state = jobs_[index];
    JobInfo info = Job(arrival.name, arrival.replicas, state.measured ? Scaling(0.05) : Linear());
    info.min_replicas = arrival.replicas;
    info.created = absl::UnixEpoch() + absl::Seconds(arrival.submitted);
    info.max_replicas = std::max(arrival.replicas, 2 * state.profiled);
    info.elastic = state.joined;
    info.run_seconds = state.run;
    info.attained_service = state.run * arrival.replicas;
    info.unsaved_seconds = state.joined || state.allocation.empty() ? 0 : state.this_run;
    info.restarts = state.restarts;
    info.rescale_seconds = kRescaleSeconds;
    if (state.measured) info.done_seconds = state.progress * arrival.replicas;
    info.allocation = state.allocation;
    return info;
  }

  void Decide() {
    view_.now = absl::UnixEpoch() + absl::Seconds(now_);
    view_.jobs.clear();
    for (const size_t job : active_) view_.jobs.push_back(Describe(job));
    const Decision decision = GoodputPolicy({}).Decide(view_, 1);
    news_ = false;
    for (size_t i = 0; i < active_.size(); ++i) {
      State& state = jobs_[active_[i]];
      Nodes allocation = decision.jobs[i].allocation;
      if (allocation == state.allocation) continue;
      news_ = true;  // the live allocator decides again when a change was made
      if (!state.allocation.empty()) {
        if (workload_.jobs[active_[i]].kind == Kind::kPlain) {
          ++plain_stops_;
          state.progress = 0;
        }
        ++state.restarts;
      }
      state.allocation = std::move(allocation);
      state.pause = state.run > 0 ? kRescaleSeconds : 0;
      state.this_run = 0;
    }
  }

  void Advance() {
    for (const size_t job : active_) {
      State& state = jobs_[job];
      const Arrival& arrival = workload_.jobs[job];
      if (state.allocation.empty()) continue;
      state.run += kStep;
      state.this_run += kStep;
      const double pause = std::min(state.pause, kStep);
      state.pause -= pause;
      const int replicas = static_cast<int>(state.allocation.size());
      const int nodes =
          static_cast<int>(std::set<std::string>(state.allocation.begin(), state.allocation.end()).size());
      state.progress +=
          (kStep - pause) * Scaling(0.05)->At(nodes, replicas) / Scaling(0.05)->At(nodes, arrival.replicas);
      if (state.progress >= arrival.work - 1e-6) {
        state.ended = now_ + kStep;
        ++ended_;
        news_ = true;
      }
      if (arrival.kind == Kind::kPlain) continue;
      state.joined = state.joined || state.this_run >= arrival.joins;
      const bool measured = state.measured || state.run >= arrival.measures;
      if (measured && (!state.measured || state.profiled < replicas)) news_ = true;
      state.measured = measured;
      if (measured) state.profiled = std::max(state.profiled, replicas);
    }
    active_.erase(std::remove_if(active_.begin(), active_.end(),
                                 [this](size_t job) { return jobs_[job].ended.has_value(); }),
                  active_.end());
  }

  const Workload& workload_;
  ClusterView view_;
  std::vector<State> jobs_;
  std::vector<size_t> active_;
  size_t arrived_ = 0;
  size_t ended_ = 0;
  double now_ = 0;
  bool news_ = false;
  int plain_stops_ = 0;
};

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

class QueueProperty : public ::testing::TestWithParam<int> {};

TEST_P(QueueProperty, EverythingEndsAndWaitsNotMuchLongerThanInOrder) {
  for (int i = 0; i < 10; ++i) {
    const Workload workload = RandomWorkload(GetParam() * 1000 + i);
    const std::vector<double> in_order = ServeInOrder(workload);
    const double longest_in_order = *std::max_element(in_order.begin(), in_order.end());
    Cluster cluster(workload);
    EXPECT_EQ(cluster.Play(1e6), 0) << "workload " << i << ": plain jobs were stopped";
    ASSERT_TRUE(cluster.all_ended()) << "workload " << i;
    std::vector<double> plain;
    std::vector<double> plain_in_order;
    for (size_t job = 0; job < in_order.size(); ++job) {
      if (workload.jobs[job].kind == Kind::kPlain) {
        plain.push_back(cluster.took(job));
        plain_in_order.push_back(in_order[job]);
      }
      const bool is_plain = workload.jobs[job].kind == Kind::kPlain;
      EXPECT_LE(cluster.took(job), (is_plain ? 1.5 : 3) * longest_in_order)
          << "workload " << i << ", job " << job;
    }
    EXPECT_LE(Sum(plain), 1.25 * Sum(plain_in_order)) << "workload " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, QueueProperty, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace adaptdl::scheduling
