#include "services/supervisor/jobs/room.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/jobs/planning.h"
#include "services/supervisor/jobs/orders.h"
#include "services/supervisor/state/amounts.h"

namespace adaptdl::supervisor {
namespace {

// What stands against launching the job's replicas now. Empty: nothing.
std::string FindObstacle(const Transaction& transaction, const JobEntry& job, bool needs_port) {
  const JobShare share = ShareOf(job);
  for (const auto& [id, count] : share.wanted) {
    Amounts use = transaction.UseOf(id).held;
    const auto own = share.live.find(id);
    use.Add(share.need, count - (own == share.live.end() ? 0 : own->second));
    const std::string excess = use.Excess(Amounts(transaction.FindNode(id)->record.node.capacity()));
    if (!excess.empty()) return absl::StrCat("node ", id, " still runs other replicas (", excess, ")");
  }
  const std::string& first = job.record.decision.nodes[0];
  if (needs_port && Orders::ChoosePort(transaction, first) == 0) {
    return absl::StrCat("node ", first, " has offered no free port for rank 0 yet");
  }
  return "";
}

// The pair of nodes that are kept apart, if both are among these. Empty: there is none.
std::string FindSeparation(const Transaction& transaction, const std::vector<std::string>& nodes) {
  for (const auto& [pair, separation] : transaction.separations()) {
    const bool both = !separation.over && std::count(nodes.begin(), nodes.end(), pair.first) > 0 &&
                      std::count(nodes.begin(), nodes.end(), pair.second) > 0;
    if (!both) continue;
    return absl::StrCat("nodes ", pair.first, " and ", pair.second,
                        " of its allocation did not reach each other lately");
  }
  return "";
}

}  // namespace

jobs::Desired DesiredOf(const Transaction& transaction, const JobEntry& job, bool needs_port) {
  const jobs::Job& state = job.record.state;
  jobs::Desired desired;
  desired.nodes = job.record.decision.nodes;
  desired.reason = job.record.decision.reason;
  desired.unschedulable = job.record.decision.unschedulable;
  for (const std::string& id : desired.nodes) {
    const NodeEntry* node = transaction.FindNode(id);
    if (node != nullptr && node->phase() == v1::NODE_PHASE_READY) continue;
    desired.nodes_ready = false;
    desired.obstacle = absl::StrCat("node ", id, " of its allocation is not ready");
    return desired;
  }
  desired.obstacle = FindSeparation(transaction, desired.nodes);
  if (!desired.obstacle.empty()) {
    desired.nodes_ready = false;
    return desired;
  }
  // Only who is about to be launched needs to know.
  if (state.phase == jobs::Phase::kPending && !desired.nodes.empty()) {
    desired.obstacle = FindObstacle(transaction, job, needs_port);
    desired.room = desired.obstacle.empty();
  }
  // A job that changes over may need newcomers for the nodes that it has: who was told to leave them leaves.
  const bool grows =
      state.phase == jobs::Phase::kRunning && !jobs::SameNodes(desired.nodes, state.allocation);
  if (grows || state.phase == jobs::Phase::kRescaling) desired.free = FreeSlots(transaction, job);
  return desired;
}

std::map<std::string, int> FreeSlots(const Transaction& transaction, const JobEntry& job) {
  const Amounts need(job.record.job->spec().template_().resources());
  const std::vector<std::string>& wanted = job.record.decision.nodes;
  std::map<std::string, int> free;
  for (const std::string& id : wanted) {
    if (free.count(id) > 0) continue;
    Amounts held = transaction.UseOf(id).held;
    const Amounts capacity(transaction.FindNode(id)->record.node.capacity());
    int& count = free[id];
    for (held.Add(need); count < std::ssize(wanted) && held.Excess(capacity).empty(); held.Add(need)) {
      ++count;
    }
  }
  return free;
}

}  // namespace adaptdl::supervisor
