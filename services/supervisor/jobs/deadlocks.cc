#include "services/supervisor/jobs/deadlocks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/jobs/planning.h"
#include "services/supervisor/jobs/group.h"
#include "services/supervisor/state/amounts.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// A job with newcomers that have no room yet.
struct Waiter {
  std::string uid;
  int replicas = 0;
  // Whether those that stay can go on without the newcomers.
  bool shrinks = false;
  // For how many newcomers it lacks room on which nodes, and how many of its replicas are to leave which others.
  std::map<std::string, int> lacks;
  std::map<std::string, int> leaves;
  // Of one replica.
  Amounts need;
};

std::optional<Waiter> WaiterOf(const JobEntry& job) {
  const jobs::Job& state = job.record.state;
  // Who may change over to an offered plan leaves without waiting.
  if (state.phase != jobs::Phase::kRescaling || state.plans.empty() || state.plans.front().offered) {
    return std::nullopt;
  }
  Waiter waiter;
  waiter.uid = job.record.uid();
  waiter.need = Amounts(job.record.job->spec().template_().resources());
  std::set<std::string> planned;
  for (const jobs::PlanMember& member : state.plans.back().members) {
    if (member.replica_id.empty()) ++waiter.lacks[member.node];
    planned.insert(member.replica_id);
  }
  if (waiter.lacks.empty()) return std::nullopt;
  int staying = 0;
  for (const auto& replica : MembersOf(job.replicas, state.group)) {
    if (!IsLive(replica->replica) || replica->stop_requested) continue;
    ++waiter.replicas;
    ++waiter.leaves[replica->replica.node_id()];
    staying += planned.count(replica->replica.replica_id()) > 0;
  }
  for (const std::string& node : job.record.decision.nodes) {
    const auto leaving = waiter.leaves.find(node);
    if (leaving != waiter.leaves.end() && --leaving->second == 0) waiter.leaves.erase(leaving);
  }
  waiter.shrinks = staying < waiter.replicas && jobs::AllowsSize(state, staying);
  return waiter;
}

// Jobs that wait, of which those are taken out that will come to what they wait for.
class Waiters {
 public:
  explicit Waiters(const Transaction& transaction) : transaction_(transaction) {
    for (const std::string& uid : transaction.JobsWaitingForRoom()) {
      std::optional<Waiter> waiter = WaiterOf(*transaction.FindJob(uid));
      if (!waiter.has_value()) continue;
      Count(*waiter, 1);
      waiters_.push_back(*std::move(waiter));
    }
  }

  bool empty() const { return waiters_.empty(); }

  void TakeOutThoseThatGoOn() {
    for (bool found = true; found;) {
      found = false;
      for (auto it = waiters_.begin(); it != waiters_.end();) {
        if (BlockedOn(*it).empty()) {
          Count(*it, -1);
          it = waiters_.erase(it);
          found = true;
        } else {
          ++it;
        }
      }
    }
  }

  void TakeOut(const std::string& uid) {
    const auto it = std::find_if(waiters_.begin(), waiters_.end(),
                                 [&](const Waiter& waiter) { return waiter.uid == uid; });
    Count(*it, -1);
    waiters_.erase(it);
  }

  // Jobs of which each waits for the next one, and the last one for the first. All that are left are blocked, and not
  // empty.
  std::vector<const Waiter*> Circle() const {
    std::vector<const Waiter*> path = {&waiters_.front()};
    for (;;) {
      const Waiter* next = WhoBlocks(*path.back());
      const auto seen = std::find(path.begin(), path.end(), next);
      if (seen != path.end()) return {seen, path.end()};
      path.push_back(next);
    }
  }

 private:
  // What those that are left hold and are to leave.
  void Count(const Waiter& waiter, int64_t times) {
    for (const auto& [node, count] : waiter.leaves) unreleased_[node].Add(waiter.need, times * count);
  }

  // A node on which it finds no room, though all go that are to and are not left here, and nobody else comes. Empty:
  // there is none.
  std::string BlockedOn(const Waiter& waiter) const {
    for (const auto& [id, count] : waiter.lacks) {
      const NodeEntry* node = transaction_.FindNode(id);
      const auto unreleased = unreleased_.find(id);
      if (node == nullptr || unreleased == unreleased_.end()) continue;
      const Amounts capacity(node->record.node.capacity());
      Amounts use = transaction_.UseOf(id).kept;
      use.Add(waiter.need, count);
      // More than there ever will be is another matter.
      if (!use.Excess(capacity).empty()) continue;
      use.Add(unreleased->second);
      if (!use.Excess(capacity).empty()) return id;
    }
    return "";
  }

  const Waiter* WhoBlocks(const Waiter& waiter) const {
    const std::string node = BlockedOn(waiter);
    return &*std::find_if(waiters_.begin(), waiters_.end(),
                          [&](const Waiter& other) { return other.leaves.count(node) > 0; });
  }

  const Transaction& transaction_;
  std::vector<Waiter> waiters_;
  std::map<std::string, Amounts> unreleased_;
};

// By what it costs to go first.
bool CostsLess(const Waiter& a, const Waiter& b) {
  return std::make_pair(!a.shrinks, a.replicas) < std::make_pair(!b.shrinks, b.replicas);
}

// One of each circle, each the cheapest of its own.
std::vector<Waiter> OneOfEachCircle(Waiters waiters) {
  std::vector<Waiter> victims;
  for (waiters.TakeOutThoseThatGoOn(); !waiters.empty(); waiters.TakeOutThoseThatGoOn()) {
    const std::vector<const Waiter*> circle = waiters.Circle();
    victims.push_back(**std::min_element(circle.begin(), circle.end(),
                                         [](const Waiter* a, const Waiter* b) { return CostsLess(*a, *b); }));
    waiters.TakeOut(victims.back().uid);
  }
  return victims;
}

// Whether all others come to what they wait for once these go.
bool Suffice(const std::set<std::string>& victims, Waiters waiters) {
  for (const std::string& victim : victims) waiters.TakeOut(victim);
  waiters.TakeOutThoseThatGoOn();
  return waiters.empty();
}

}  // namespace

std::set<std::string> DeadlockVictims(const Transaction& transaction) {
  const Waiters waiters(transaction);
  std::vector<Waiter> chosen = OneOfEachCircle(waiters);
  std::set<std::string> victims;
  for (const Waiter& victim : chosen) victims.insert(victim.uid);
  // One that was chosen later may be part of earlier circles, too. The dearest are spared first.
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Waiter& a, const Waiter& b) { return CostsLess(b, a); });
  for (const Waiter& victim : chosen) {
    victims.erase(victim.uid);
    if (!Suffice(victims, waiters)) victims.insert(victim.uid);
  }
  return victims;
}

}  // namespace adaptdl::supervisor
