#include "simulator/fleet/front.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace adaptdl::simulator {
namespace {

// What one job makes use of, on average over the kinds of models.
constexpr double kMostGpusPerJob = 16;
constexpr int kLeastShard = 4;
// Homes are planned for a tenant that submits so many times its mean.
constexpr double kHeadroom = 1.5;

}  // namespace

Front::Front(const FrontOptions& options, const std::vector<double>& gpus,
             const std::vector<double>& tenant_parts)
    : options_(options),
      least_homes_(options.router == Router::kShard ? kLeastShard : 1),
      tenant_parts_(tenant_parts),
      random_(options.seed) {
  double sum = 0;
  for (const double of_cluster : gpus) {
    clusters_.emplace_back(of_cluster, kMostGpusPerJob);
    cumulative_gpus_.push_back(sum += of_cluster);
  }
  for (double& part : cumulative_gpus_) part /= sum;
  known_.resize(gpus.size());
  for (Known& known : known_) known.sent.resize(options.replicas);
}

int Front::HomeCount(int tenant) const {
  const auto clusters = static_cast<double>(clusters_.size());
  const double wanted = std::ceil(kHeadroom * tenant_parts_[tenant] * clusters);
  return static_cast<int>(std::min(std::max<double>(wanted, least_homes_), clusters));
}

int Front::Home(int tenant, int index) const {
  return AtPoint(KeyedUniform(options_.seed, absl::StrCat("home:", tenant), static_cast<uint64_t>(index)));
}

std::vector<int> Front::Homes(int tenant) const {
  std::vector<int> homes;
  for (int i = 0; i < HomeCount(tenant); ++i) homes.push_back(Home(tenant, i));
  return homes;
}

int Front::AtPoint(double uniform) const {
  const auto found = std::upper_bound(cumulative_gpus_.begin(), cumulative_gpus_.end() - 1, uniform);
  return static_cast<int>(found - cumulative_gpus_.begin());
}

int Front::AnyHome(int tenant) {
  return Home(tenant, static_cast<int>(random_.Uniform() * HomeCount(tenant)));
}

void Front::Hear(int cluster, double now) {
  Known& known = known_[cluster];
  const double phase = static_cast<double>(cluster) / static_cast<double>(clusters_.size());
  const auto due = static_cast<int64_t>(std::floor(now / options_.report_seconds - phase));
  if (due <= known.report) return;
  // Nothing came to the cluster since: that would have been preceded by hearing this report.
  clusters_[cluster].Advance((static_cast<double>(due) + phase) * options_.report_seconds);
  known.report = due;
  known.unfinished = clusters_[cluster].unfinished();
  std::fill(known.sent.begin(), known.sent.end(), 0);
}

double Front::Load(int cluster, int replica, double now) {
  Hear(cluster, now);
  return (known_[cluster].unfinished + known_[cluster].sent[replica]) / clusters_[cluster].gpus();
}

int Front::LessLoaded(int a, int b, int replica, double now) {
  return Load(b, replica, now) < Load(a, replica, now) ? b : a;
}

int Front::Route(const Submission& submission) {
  const int replica = static_cast<int>(random_.Uniform() * options_.replicas);
  const auto any = [this] { return AtPoint(random_.Uniform()); };
  const auto home = [&] { return AnyHome(submission.tenant); };
  int cluster = 0;
  switch (options_.router) {
    case Router::kRandom:
      cluster = any();
      break;
    case Router::kHome:
      cluster = home();
      break;
    case Router::kTwoChoices: {
      const int first = any();
      cluster = LessLoaded(first, any(), replica, submission.time);
      break;
    }
    case Router::kShard: {
      const int first = home();
      cluster = LessLoaded(first, home(), replica, submission.time);
      break;
    }
  }
  Hear(cluster, submission.time);
  ++known_[cluster].sent[replica];
  clusters_[cluster].Add(submission.time, submission.solo_seconds);
  return cluster;
}

void Front::Drain() {
  for (SharedCluster& cluster : clusters_) cluster.Drain();
}

}  // namespace adaptdl::simulator
