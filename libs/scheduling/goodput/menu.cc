#include "libs/scheduling/goodput/menu.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libs/scheduling/goodput/priorities.h"
#include "libs/scheduling/goodput/queue.h"
#include "libs/scheduling/sizes.h"

namespace adaptdl::scheduling {
namespace {

// Sizes that the job may have in the pool, ascending.
void AllowedSizes(const ClusterModel& model, int job, int pool, int most_nodes, std::vector<int>* sizes) {
  AllowedSizes(model.view().jobs[job], model.job(job).per_node[pool], most_nodes, sizes);
}

class MenuMaker {
 public:
  MenuMaker(const ClusterModel& model, const Valuation& valuation, const MenuOptions& options)
      : model_(model), valuation_(valuation), options_(options) {}

  Menu Make() {
    menu_.sizes.resize(model_.job_count());
    menu_.turn.assign(model_.job_count(), Turn::kCompetes);
    menu_.problem.groups.resize(model_.job_count());
    for (const Pool& pool : model_.pools()) menu_.problem.capacity.push_back(pool.capacity);
    for (const JobInfo& job : model_.view().jobs) menu_.priority.push_back(job.priority);
    for (int job = 0; job < model_.job_count(); ++job) {
      if (model_.job(job).pinned) continue;
      for (int pool = 0; pool < static_cast<int>(model_.pools().size()); ++pool) AddSizes(job, pool);
    }
    Queue queue(model_, valuation_, &menu_);
    queue.HoldPlaces();
    for (const auto& [name, info] : model_.view().namespaces) {
      if (info.gpu_quota > 0) HonourQuota(name, info.gpu_quota);
    }
    queue.AdmitNewcomers();
    return std::move(menu_);
  }

 private:
  void AddSizes(int job, int pool) {
    if (model_.job(job).per_node[pool] == 0) return;
    const bool is_here = model_.job(job).can_stay && model_.job(job).present_pool == pool;
    const Placement& present = model_.job(job).present;
    const int held = is_here ? CountReplicas(present) : 0;
    int last = 0;
    double last_speedup = 0;
    AllowedSizes(model_, job, pool, static_cast<int>(model_.pools()[pool].nodes.size()), &allowed_);
    for (const int k : allowed_) {
      if (k == held) continue;
      const double speedup = model_.Speedup(job, pool, model_.NodesFor(job, pool, k), k);
      if (speedup <= 0) continue;
      if (last > 0 && speedup - last_speedup < options_.least_gain * (k - last)) continue;
      last = k;
      last_speedup = speedup;
      Add(job, {pool, k, false, speedup});
    }
    if (held > 0) {
      const double speedup = model_.Speedup(job, pool, static_cast<int>(present.size()), held);
      if (speedup > 0) Add(job, {pool, held, true, speedup});
    }
  }

  void Add(int job, const Size& size) {
    menu_.sizes[job].push_back(size);
    menu_.problem.groups[job].push_back(
        {valuation_.Value(job, size.speedup, !size.stays, model_.Opens(job, size.pool, size.replicas)),
         size.pool, model_.UnitsOf(job, size.pool, size.replicas)});
  }

  // Selects among the namespace's jobs alone, as if its quota were the cluster; no job may have more than it
  // got there.
  void HonourQuota(const std::string& name, int quota) {
    const auto gpus = [&](int job, int replicas) { return GpusOf(model_.view().jobs[job], replicas); };
    ChoiceProblem inside;
    std::vector<int> members;
    std::vector<int> priority;
    for (int job = 0; job < model_.job_count(); ++job) {
      if (model_.view().jobs[job].name_space != name) continue;
      const bool stays = model_.job(job).pinned || menu_.turn[job] == Turn::kKeepsPlace;
      if (stays) quota -= gpus(job, CountReplicas(model_.job(job).present));
      if (menu_.turn[job] == Turn::kKeepsPlace) continue;
      members.push_back(job);
      priority.push_back(menu_.priority[job]);
      inside.groups.push_back(menu_.problem.groups[job]);
      for (size_t i = 0; i < inside.groups.back().size(); ++i) {
        inside.groups.back()[i].pool = 0;
        inside.groups.back()[i].amount = gpus(job, menu_.sizes[job][i].replicas);
      }
    }
    inside.capacity = {std::max(quota, 0)};
    const ChoiceResult result = SolveByPriority(inside, priority, {}).choice;
    for (size_t m = 0; m < members.size(); ++m) {
      const int job = members[m];
      const int most = result.chosen[m] < 0 ? 0 : menu_.sizes[job][result.chosen[m]].replicas;
      std::vector<Size> sizes;
      std::vector<Option> group;
      for (size_t i = 0; i < menu_.sizes[job].size(); ++i) {
        if (menu_.sizes[job][i].replicas > most) continue;
        sizes.push_back(menu_.sizes[job][i]);
        group.push_back(menu_.problem.groups[job][i]);
      }
      menu_.sizes[job] = std::move(sizes);
      menu_.problem.groups[job] = std::move(group);
    }
  }

  const ClusterModel& model_;
  const Valuation& valuation_;
  const MenuOptions& options_;
  std::vector<int> allowed_;
  Menu menu_;
};

}  // namespace

std::vector<int> UsefulSizes(const ClusterModel& model, int job, int pool, int most_nodes) {
  std::vector<int> sizes;
  AllowedSizes(model, job, pool, most_nodes, &sizes);
  sizes.erase(
      std::remove_if(sizes.begin(), sizes.end(),
                     [&](int k) { return model.Speedup(job, pool, model.NodesFor(job, pool, k), k) <= 0; }),
      sizes.end());
  return sizes;
}

Menu MakeMenu(const ClusterModel& model, const Valuation& valuation, const MenuOptions& options) {
  return MenuMaker(model, valuation, options).Make();
}

}  // namespace adaptdl::scheduling
