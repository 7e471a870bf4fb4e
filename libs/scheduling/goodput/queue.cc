#include "libs/scheduling/goodput/queue.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace adaptdl::scheduling {
namespace {

// What is left of the value of a newcomer's start that takes room from nobody: less than anybody's.
constexpr double kLeftOver = 1e-6;

}  // namespace

Queue::Queue(const ClusterModel& model, const Valuation& valuation, Menu* menu)
    : model_(model), valuation_(valuation), menu_(*menu), closed_(model.pools().size(), 0) {
  const size_t size = static_cast<size_t>(model.node_count()) * model.resources();
  if (size > 0) free_.assign(model.free(0), model.free(0) + size);
  for (int job = 0; job < model.job_count(); ++job) {
    if (!model.job(job).pinned) levels_[model.view().jobs[job].priority].push_back(job);
  }
}

const Option* Queue::Least(int job, int pool) const {
  const Option* least = nullptr;
  for (const Option& option : menu_.problem.groups[job]) {
    if (option.pool == pool && (least == nullptr || option.amount < least->amount)) least = &option;
  }
  return least;
}

int Queue::PoolFor(int job, const Units& room) const {
  const int present = model_.job(job).present_pool;
  if (present >= 0 && Least(job, present) != nullptr) return present;
  int best = -1;
  for (int pool = 0; pool < static_cast<int>(room.size()); ++pool) {
    if (Least(job, pool) != nullptr && (best < 0 || room[pool] > room[best])) best = pool;
  }
  return best;
}

bool Queue::TakePlace(int job) {
  const JobModel& info = model_.job(job);
  const size_t width = info.need.size();
  for (const Share& share : info.present) {
    for (size_t r = 0; r < width; ++r) {
      if (info.need[r] * share.replicas > free_[share.node * width + r]) return false;
    }
  }
  AddToPlace(job, -1);
  return true;
}

void Queue::AddToPlace(int job, int sign) {
  const JobModel& info = model_.job(job);
  const size_t width = info.need.size();
  for (const Share& share : info.present) {
    for (size_t r = 0; r < width; ++r) free_[share.node * width + r] += sign * info.need[r] * share.replicas;
  }
}

void Queue::Hold(int job) {
  std::vector<Size>& sizes = menu_.sizes[job];
  const int held = CountReplicas(model_.job(job).present);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].replicas > held) continue;
    menu_.displaced[job].sizes.push_back(sizes[i]);
    menu_.displaced[job].options.push_back(menu_.problem.groups[job][i]);
  }
  sizes.erase(std::remove_if(sizes.begin(), sizes.end(), [](const Size& size) { return !size.stays; }),
              sizes.end());
  menu_.problem.groups[job].clear();
  menu_.turn[job] = Turn::kKeepsPlace;
  int& capacity = menu_.problem.capacity[sizes.front().pool];
  capacity = std::max(0, capacity - model_.UnitsOf(job, sizes.front().pool, sizes.front().replicas));
}

Queue::Ledger Queue::Begin() const {
  Ledger ledger{menu_.problem.capacity, std::vector<char>(menu_.problem.capacity.size(), 0), {}};
  for (const auto& [name, info] : model_.view().namespaces) {
    if (info.gpu_quota > 0) ledger.quota[name] = info.gpu_quota;
  }
  for (int job = 0; job < model_.job_count(); ++job) {
    if (model_.job(job).pinned) Charge(job, CountReplicas(model_.job(job).present), &ledger);
  }
  return ledger;
}

bool Queue::Charge(int job, int replicas, Ledger* ledger) const {
  const auto quota = ledger->quota.find(model_.view().jobs[job].name_space);
  if (quota == ledger->quota.end()) return true;
  const int gpus = GpusOf(model_.view().jobs[job], replicas);
  const bool enough = gpus <= quota->second;
  if (enough || model_.job(job).pinned) quota->second -= gpus;
  return enough;
}

void Queue::HoldPlaces() {
  Ledger ledger = Begin();
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    for (const int job : Keepers(level->second)) {
      const int pool = model_.job(job).present_pool;
      const int replicas = CountReplicas(model_.job(job).present);
      const int units = model_.UnitsOf(job, pool, replicas);
      // Units are a guess on unequal nodes; who is not pressed by a higher level need not go by them.
      if (ledger.pressed[pool] != 0 && units > ledger.room[pool]) continue;
      if (!TakePlace(job)) continue;
      if (!Charge(job, replicas, &ledger)) {
        AddToPlace(job, 1);
        continue;
      }
      ledger.room[pool] -= units;
      Hold(job);
    }
    // What the others of this level need at least comes before lower levels.
    for (const int job : level->second) {
      if (menu_.turn[job] != Turn::kKeepsPlace) Press(job, &ledger);
    }
  }
}

void Queue::Press(int job, Ledger* ledger) const {
  if (menu_.sizes[job].empty()) return;
  int least = menu_.sizes[job].front().replicas;
  for (const Size& size : menu_.sizes[job]) least = std::min(least, size.replicas);
  if (!Charge(job, least, ledger)) return;
  const int pool = PoolFor(job, ledger->room);
  ledger->room[pool] -= Least(job, pool)->amount;
  ledger->pressed[pool] = 1;
}

std::vector<int> Queue::Keepers(const std::vector<int>& level) const {
  std::vector<int> keepers;
  for (const int job : level) {
    const std::vector<Size>& sizes = menu_.sizes[job];
    const bool stays = std::any_of(sizes.begin(), sizes.end(), [](const Size& size) { return size.stays; });
    if (stays && model_.job(job).queue_role == QueueRole::kKeepsPlace) keepers.push_back(job);
  }
  std::stable_sort(keepers.begin(), keepers.end(), [&](int a, int b) {
    return model_.view().jobs[a].unsaved_seconds > model_.view().jobs[b].unsaved_seconds;
  });
  return keepers;
}

void Queue::AdmitNewcomers() {
  Units room = menu_.problem.capacity;
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) Admit(level->second, &room);
}

void Queue::Admit(const std::vector<int>& level, Units* room) {
  std::vector<int> newcomers;
  Competitors competitors{{}, {Units(room->size(), 0)}};
  for (const int job : level) {
    if (menu_.problem.groups[job].empty()) continue;
    if (model_.job(job).queue_role != QueueRole::kCompetes) {
      newcomers.push_back(job);
      continue;
    }
    Units needed = competitors.needed.back();
    const int pool = PoolFor(job, *room);
    needed[pool] += Least(job, pool)->amount;
    competitors.jobs.push_back(job);
    competitors.needed.push_back(std::move(needed));
  }
  // Those that must leave the place that they had come first.
  const auto ran = [&](int job) { return model_.job(job).queue_role == QueueRole::kKeepsPlace; };
  std::stable_sort(newcomers.begin(), newcomers.end(), [&](int a, int b) {
    return ran(a) != ran(b) ? ran(a) : valuation_.Price(a) > valuation_.Price(b);
  });
  // What jobs that keep their places hold is room of this level, too.
  Units total = *room;
  for (const int job : level) {
    if (menu_.turn[job] != Turn::kKeepsPlace) continue;
    const Size& size = menu_.sizes[job].front();
    total[size.pool] += model_.UnitsOf(job, size.pool, size.replicas);
  }
  for (const int job : newcomers) Admit(job, competitors, total, room);
  for (size_t pool = 0; pool < room->size(); ++pool) {
    (*room)[pool] = std::max(0, (*room)[pool] - competitors.needed.back()[pool]);
  }
}

void Queue::Admit(int job, const Competitors& competitors, const Units& total, Units* room) {
  const size_t earlier =
      std::lower_bound(competitors.jobs.begin(), competitors.jobs.end(), job) - competitors.jobs.begin();
  // Nobody takes its place yet who only waits for room.
  const bool runs = model_.job(job).queue_role == QueueRole::kKeepsPlace;
  std::vector<char> open(room->size(), 0);
  std::vector<char> last(room->size(), 0);
  int best = -1;
  for (int pool = 0; pool < static_cast<int>(room->size()); ++pool) {
    const Option* least = Least(job, pool);
    if (least == nullptr || (closed_[pool] != 0 && !runs)) continue;
    const int kept = std::min(competitors.needed[earlier][pool], (total[pool] + 1) / 2);
    if (least->amount <= (*room)[pool] - kept) {
      open[pool] = 1;
      if (best < 0 || (*room)[pool] > (*room)[best]) best = pool;
    } else if (least->amount <= total[pool] - kept) {
      last[pool] = 2;  // its turn comes when others have ended
    } else {
      last[pool] = 1;  // it waits for those before it, and holds up nobody
    }
  }
  menu_.line.push_back(job);
  if (!model_.exact_units()) menu_.anywhere[job] = {menu_.sizes[job], menu_.problem.groups[job]};
  menu_.turn[job] = best >= 0 ? Turn::kMayStart : Turn::kMustWait;
  if (best >= 0) {
    (*room)[best] -= Least(job, best)->amount;
    if (!runs) Keep(job, open, 1);  // who must leave his place may go wherever there is room
    return;
  }
  for (size_t pool = 0; pool < room->size(); ++pool) closed_[pool] |= last[pool] == 2;
  Keep(job, last, kLeftOver);
}

void Queue::Keep(int job, const std::vector<char>& pools, double factor) {
  std::vector<Size> sizes;
  std::vector<Option> group;
  for (size_t i = 0; i < menu_.sizes[job].size(); ++i) {
    if (pools[menu_.sizes[job][i].pool] == 0) continue;
    sizes.push_back(menu_.sizes[job][i]);
    group.push_back(menu_.problem.groups[job][i]);
    group.back().value *= factor;
  }
  menu_.sizes[job] = std::move(sizes);
  menu_.problem.groups[job] = std::move(group);
}

}  // namespace adaptdl::scheduling
