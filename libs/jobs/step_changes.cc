// Changes of the replica set that the allocator wants, while the job trains.

#include "libs/jobs/step.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/jobs/descriptions.h"
#include "libs/jobs/replica_id.h"

namespace adaptdl::jobs {

bool Step::CanChangeInPlace() {
  return job().preemptible && job().rescales_in_place &&
         std::all_of(members_.begin(), members_.end(), [](const Replica& replica) {
           return !IsLive(replica) || (replica.joined && replica.rescales_in_place);
         });
}

std::vector<PlanMember> Step::Staying() {
  std::vector<PlanMember> staying;
  for (const Replica& replica : ByRank(members_)) {
    if (IsLive(replica) && !replica.stop_requested && !LeftOut(replica)) {
      staying.push_back({replica.id, replica.node});
    }
  }
  return staying;
}

std::vector<Replica> Step::ByRank(std::vector<Replica> replicas) {
  std::sort(replicas.begin(), replicas.end(),
            [](const Replica& a, const Replica& b) { return a.rank < b.rank; });
  return replicas;
}

const Replica* Step::Find(const std::string& id) {
  for (const Replica& replica : replicas_) {
    if (replica.id == id) return &replica;
  }
  return nullptr;
}

bool Step::IsMember(const std::string& id) {
  return std::any_of(members_.begin(), members_.end(), [&](const Replica& r) { return r.id == id; });
}

std::vector<PlanMember> Step::LiveNewcomers() {
  std::vector<PlanMember> newcomers;
  const auto add = [&](const Replica* replica) {
    if (replica == nullptr || !IsLive(*replica) || replica->stop_requested) return;
    // Those of older groups have left, and have no way back.
    if (IsMember(replica->id) || LeftOut(*replica) || replica->group <= job().group) return;
    const PlanMember member{replica->id, replica->node};
    if (std::find(newcomers.begin(), newcomers.end(), member) == newcomers.end()) {
      newcomers.push_back(member);
    }
  };
  if (plan() != nullptr) {
    for (const PlanMember& member : plan()->members) add(Find(member.replica_id));
  }
  for (const Replica& replica : replicas_) add(&replica);
  return newcomers;
}

std::vector<PlanMember> Step::AllowedPart(std::vector<PlanMember> members) {
  members.resize(LargestAllowedSize(job(), static_cast<int>(members.size())));
  return members;
}

void Step::HoldNewcomersBack() {
  ++job().newcomer_failures;
  job().retry_time = std::max(job().retry_time, now_ + BackOff(job().newcomer_failures));
}

void Step::Reconcile() {
  if (desired_.nodes.empty()) {
    Move();
    return;
  }
  if (plan() != nullptr && plan()->committed) {
    const auto& members = plan()->members;
    const bool fits = std::all_of(members.begin(), members.end(),
                                  [&](const PlanMember& member) { return IsMember(member.replica_id); });
    if (fits) return;
    // The replicas have chosen an older plan meanwhile.
    const std::vector<PlanMember> next = AllowedPart(Staying());
    if (next.empty()) {
      Stop("GroupBroken", "no member of the group can go on");
    } else {
      PlanRecovery(next, "the replicas had changed over before");
    }
    return;
  }
  NoticeLostNewcomers();
  StopLateNewcomers();
  // What can't be had now is not aimed at, nor what was decided for other bounds than the job's user has set meanwhile: the next
  // decision comes soon.
  const bool holds = desired_.nodes_ready && AllowsSize(job(), static_cast<int>(desired_.nodes.size()));
  std::vector<std::string> goal = desired_.nodes;
  if (!holds) goal = plan() != nullptr ? NodesOf(plan()->members) : job().allocation;
  const bool may_launch = holds && job().retry_time <= now_;
  const std::vector<PlanMember> current = Staying();
  if (current.empty()) return;  // All were told to go, and will.
  const std::vector<PlanMember> ready = LiveNewcomers();
  Target target = ChooseMembers(current, ready, goal, may_launch);
  if (!AllowsSize(job(), static_cast<int>(target.members.size()))) {
    target.members.resize(target.survivors);
    const bool leaves = target.members.size() < current.size();
    if (!leaves || !AllowsSize(job(), target.survivors)) {
      if (may_launch) {
        Move();  // There is no way in place.
        return;
      }
      target.members = current;
      target.survivors = static_cast<int>(current.size());
    }
  }
  if (plan() == nullptr || !IsPlanFor(*plan(), target)) Replan(target);
  if (plan() != nullptr) GoOnWithPlan();
}

void Step::NoticeLostNewcomers() {
  if (plan() == nullptr) return;
  bool lost = false;
  for (const PlanMember& member : plan()->members) {
    const Replica* replica = member.replica_id.empty() ? nullptr : Find(member.replica_id);
    if (replica == nullptr || IsLive(*replica) || IsMember(replica->id) || replica->end_handled) continue;
    Say(true, "NewcomerLost", absl::StrCat("newcomer on node ", replica->node, " ", DescribeEnd(*replica)),
        replica->node, replica->id);
    outcome_.ends_handled.push_back(replica->id);
    lost = true;
  }
  if (lost) HoldNewcomersBack();
}

void Step::StopLateNewcomers() {
  if (plan() == nullptr || plan()->offered || now_ - plan()->since < policy_.start_deadline) return;
  bool late = false;
  for (const PlanMember& member : plan()->members) {
    const Replica* replica = member.replica_id.empty() ? nullptr : Find(member.replica_id);
    if (replica == nullptr || replica->state != ReplicaState::kLaunching || replica->stop_requested) continue;
    const std::string message =
        absl::StrCat("newcomer on node ", replica->node, " did not come to run within ",
                     absl::FormatDuration(policy_.start_deadline));
    Say(true, kStartDeadlineExceeded, message, replica->node, replica->id);
    Order(*replica, message, false);
    late = true;
  }
  if (late) HoldNewcomersBack();
}

void Step::Replan(const Target& target) {
  const bool changes = target.newcomers() > 0 || target.survivors < size();
  if (plan() != nullptr && !plan()->offered) job().plans.pop_back();
  if (plan() == nullptr && !changes) {
    if (job().phase == Phase::kRescaling) Say(false, "RescaleDropped", "keeps what it has");
    job().phase = Phase::kRunning;
    Explain("", "");
    return;
  }
  if (plan() != nullptr && IsPlanFor(*plan(), target)) return;
  AddPlan(target.members, false);
  const std::string message =
      absl::StrCat("group ", job().group, " → ", plan()->group, ", from ", Plural(size()), " to ",
                   DescribeNodes(NodesOf(target.members)), Because(desired_.reason));
  Say(false, "Rescaling", message);
  Explain("Rescaling", message);
}

void Step::AddPlan(const std::vector<PlanMember>& members, bool committed) {
  if (plan() != nullptr && !plan()->offered) job().plans.pop_back();
  Plan next;
  next.group = NextGroup();
  next.members = members;
  next.committed = committed;
  next.since = now_;
  job().plans.push_back(std::move(next));
  job().phase = Phase::kRescaling;
}

void Step::GoOnWithPlan() {
  if (plan()->offered) return;
  LaunchNewcomers();
  bool ready = true;
  bool launched = true;
  for (const PlanMember& member : plan()->members) {
    const Replica* replica = Find(member.replica_id);
    ready = ready && replica != nullptr && replica->joined;
    launched = launched && !member.replica_id.empty();
  }
  if (ready) {
    Offer();
  } else if (now_ >= LeaveTime() && GoOnWithoutLeavers("a node goes away before the others are ready")) {
    return;
  } else if (!launched) {
    outcome_.waits_for = WaitsFor::kRoom;
    MakeRoom();
  }
}

void Step::LaunchNewcomers() {
  std::map<std::string, int> free = desired_.free;
  for (size_t rank = 0; rank < plan()->members.size(); ++rank) {
    PlanMember& member = plan()->members[rank];
    if (!member.replica_id.empty() || free[member.node] == 0) continue;
    --free[member.node];
    member.replica_id = ReplicaId(job().id_prefix, plan()->group, static_cast<int>(rank));
    outcome_.newcomers.push_back({member.replica_id, plan()->group, static_cast<int>(rank), member.node});
  }
}

void Step::MakeRoom() {
  const absl::Duration waited = now_ - plan()->since;
  if (!desired_.nodes_ready || (!desired_.goes_first && waited < policy_.room_patience)) return;
  const std::string why = desired_.goes_first ? "it and others wait for each other's slots"
                                              : "there is no room for the others yet";
  const bool keeps_some = HoldsAnyOf(desired_.nodes);
  if (keeps_some && (!LeavesSome() || GoOnWithoutLeavers(why))) return;
  const bool loses_node = std::any_of(members_.begin(), members_.end(), [](const Replica& replica) {
    return IsLive(replica) && replica.node_deadline != absl::InfiniteFuture();
  });
  if (desired_.goes_first || loses_node || waited >= policy_.restart_patience) Move();
}

bool Step::LeavesSome() {
  const std::vector<PlanMember> current = Staying();
  return std::any_of(current.begin(), current.end(),
                     [&](const PlanMember& member) { return RankIn(*plan(), member.replica_id) < 0; });
}

absl::Time Step::LeaveTime() {
  absl::Time time = absl::InfiniteFuture();
  for (const Replica& replica : members_) {
    if (!IsLive(replica) || replica.node_deadline == absl::InfiniteFuture()) continue;
    if (RankIn(*plan(), replica.id) >= 0) continue;
    const absl::Duration left = std::max(absl::ZeroDuration(), replica.node_deadline - plan()->since);
    time = std::min(time, plan()->since + std::min(policy_.leaving_patience, left / policy_.leaving_part));
  }
  return time;
}

bool Step::GoOnWithoutLeavers(const std::string& why) {
  const std::vector<PlanMember> current = Staying();
  std::vector<PlanMember> staying;
  for (const PlanMember& member : plan()->members) {
    if (IsMember(member.replica_id)) staying.push_back(member);
  }
  if (staying.size() >= current.size() || !AllowsSize(job(), static_cast<int>(staying.size()))) return false;
  AddPlan(staying, true);
  const std::string message = absl::StrCat("group ", job().group, " → ", plan()->group, ", to ",
                                           DescribeNodes(NodesOf(staying)), " first: ", why);
  Say(false, "Rescaling", message);
  Explain("Rescaling", message);
  Offer();
  return true;
}

bool Step::HoldsAnyOf(const std::vector<std::string>& nodes) {
  return std::any_of(members_.begin(), members_.end(), [&](const Replica& replica) {
    return std::find(nodes.begin(), nodes.end(), replica.node) != nodes.end();
  });
}

void Step::Offer() {
  plan()->offered = true;
  outcome_.offer = true;
  const bool newcomers = std::any_of(plan()->members.begin(), plan()->members.end(),
                                     [&](const PlanMember& m) { return !IsMember(m.replica_id); });
  if (newcomers) plan()->ready_after = now_ - plan()->since;
}

}  // namespace adaptdl::jobs
