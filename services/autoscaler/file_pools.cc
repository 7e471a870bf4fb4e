#include "services/autoscaler/file_pools.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/service/log.h"

namespace adaptdl::autoscaler {
namespace {

nodepools::TargetMode ModeOf(poolfile::TargetMode mode) {
  switch (mode) {
    case poolfile::TargetMode::kBand:
      return nodepools::TargetMode::kBand;
    case poolfile::TargetMode::kBudget:
      return nodepools::TargetMode::kBudget;
    case poolfile::TargetMode::kDeadline:
      return nodepools::TargetMode::kDeadline;
    case poolfile::TargetMode::kCost:
      return nodepools::TargetMode::kCost;
  }
  return nodepools::TargetMode::kBand;
}

v1::Node LikeOf(const poolfile::Pool& pool) {
  v1::Node node;
  *node.mutable_capacity() = pool.capacity;
  node.set_gpu_type(pool.gpu_type);
  node.mutable_labels()->insert(pool.labels.begin(), pool.labels.end());
  for (const v1::Taint& taint : pool.taints) *node.add_taints() = taint;
  node.set_preemptible(pool.spot);
  return node;
}

ManagedPool Manage(const poolfile::Pool& pool, std::shared_ptr<NodePoolProvider> provider) {
  ManagedPool managed;
  managed.name = pool.name;
  managed.min_nodes = pool.min_nodes;
  managed.max_nodes = pool.max_nodes;
  managed.like = LikeOf(pool);
  const PoolKind kind = provider->kind();
  managed.like->mutable_labels()->insert(kind.labels.begin(), kind.labels.end());
  managed.price_per_hour = pool.price_per_hour;
  managed.preemptible = pool.spot;
  managed.instance_type = absl::StrJoin(pool.instance_types, ",");
  managed.start_time = pool.start_time;
  managed.provider = std::move(provider);
  return managed;
}

bool Holds(const std::vector<poolfile::Pool>& pools, const std::string& name) {
  return std::any_of(pools.begin(), pools.end(),
                     [&](const poolfile::Pool& pool) { return pool.name == name; });
}

// Those of `before` that are not in the file: they are to have no nodes.
void AddLeaving(const std::vector<poolfile::Pool>& before, const poolfile::PoolFile& file,
                std::vector<poolfile::Pool>* leaving) {
  for (const poolfile::Pool& pool : before) {
    if (Holds(file.pools, pool.name) || Holds(*leaving, pool.name)) continue;
    leaving->push_back(pool);
    leaving->back().min_nodes = leaving->back().max_nodes = 0;
  }
}

}  // namespace

absl::StatusOr<nodepools::Target> TargetOf(const poolfile::PoolFile& file) {
  nodepools::Target target;
  target.mode = ModeOf(file.target.mode);
  target.utility_low = file.target.utility_low;
  target.utility_high = file.target.utility_high;
  target.budget_per_hour = file.target.budget_per_hour;
  target.deadline = file.target.deadline.value_or(absl::InfiniteFuture());
  target.goodput_per_price = file.target.goodput_per_dollar;
  target.floor_on_lasting = file.floor_on == poolfile::FloorOn::kOnDemand;
  target.cooldown = file.cooldown;
  const auto priced = std::count_if(file.pools.begin(), file.pools.end(), [](const poolfile::Pool& pool) {
    return pool.price_per_hour.has_value();
  });
  const auto all = static_cast<std::ptrdiff_t>(file.pools.size());
  if (priced != 0 && priced != all) {
    return absl::InvalidArgumentError(
        absl::StrCat("pools: ", priced, " of ", all, " have a pricePerHour: give it to all, or to none"));
  }
  if (absl::Status status = nodepools::CheckTarget(target, priced > 0); !status.ok()) return status;
  return target;
}

absl::StatusOr<std::unique_ptr<FilePools>> FilePools::Open(const std::string& path, ProviderFactory factory) {
  auto watcher = poolfile::PoolFileWatcher::Open(path);
  if (!watcher.ok()) return watcher.status();
  auto pools = std::unique_ptr<FilePools>(new FilePools(*std::move(watcher), std::move(factory)));
  pools->tried_ = pools->watcher_->Get();
  if (absl::Status status = pools->TakeOver(pools->tried_, {}); !status.ok()) return status;
  return pools;
}

const PoolSet& FilePools::Get() {
  std::erase_if(set_.pools, [&](const ManagedPool& pool) { return gone_.contains(pool.name); });
  gone_.clear();
  const std::shared_ptr<const poolfile::PoolFile> file = watcher_->Get();
  if (file != tried_) {
    tried_ = file;
    std::vector<poolfile::Pool> leaving;
    AddLeaving(file_->pools, *file, &leaving);
    AddLeaving(leaving_, *file, &leaving);
    const std::shared_ptr<const poolfile::PoolFile> before = file_;
    const std::vector<poolfile::Pool> leaving_before = leaving_;
    const absl::Status failure = TakeOver(file, leaving);
    if (failure.ok()) {
      log::Info("pool file read again", {{"pools", absl::StrCat(set_.pools.size())}});
    } else {
      if (failure != failure_) {
        log::Error("the pool file is not in force; what it held before stays",
                   {{"error", std::string(failure.message())}});
      }
      // It is tried again: what a provider needs may come.
      tried_ = nullptr;
      TakeOver(before, leaving_before).IgnoreError();
    }
    failure_ = failure;
  }
  set_.refusal = watcher_->refusal().ok() ? failure_ : watcher_->refusal();
  return set_;
}

absl::Status FilePools::TakeOver(const std::shared_ptr<const poolfile::PoolFile>& file,
                                 const std::vector<poolfile::Pool>& leaving) {
  absl::StatusOr<nodepools::Target> target = TargetOf(*file);
  if (!target.ok()) return target.status();
  // A pool's state has one owner: the providers before go first.
  set_.pools.clear();
  PoolSet set;
  set.target = *std::move(target);
  set.currency = file->currency;
  set.drain_timeout = file->drain_timeout;
  for (const auto* pools : {&file->pools, &leaving}) {
    for (const poolfile::Pool& pool : *pools) {
      auto provider = factory_(*file, pool);
      if (!provider.ok()) {
        return absl::Status(provider.status().code(),
                            absl::StrCat("pool ", pool.name, ": ", provider.status().message()));
      }
      set.pools.push_back(Manage(pool, *std::move(provider)));
    }
  }
  set_ = std::move(set);
  file_ = file;
  leaving_ = leaving;
  return absl::OkStatus();
}

void FilePools::Emptied(const std::string& name) {
  if (std::erase_if(leaving_, [&](const poolfile::Pool& pool) { return pool.name == name; }) == 0) return;
  // The round that found it empty still reads the set: the next one has it no more.
  log::Info("node pool is no more", {{"pool", name}});
  gone_.insert(name);
}

}  // namespace adaptdl::autoscaler
