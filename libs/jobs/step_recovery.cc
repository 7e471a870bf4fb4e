// Members that were lost, are silent or hang: those that are left go on without them.

#include "libs/jobs/step.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/jobs/descriptions.h"

namespace adaptdl::jobs {

bool Step::Recover() {
  const bool running = job().phase == Phase::kRunning || job().phase == Phase::kRescaling;
  if (!running || job().cancel_requested || !CanChangeInPlace()) return false;
  if (static_cast<int>(members_.size()) < size()) return false;
  bool failed = false;
  std::vector<const Replica*> ended;
  for (const Replica& replica : members_) {
    const Fate fate = FateOf(replica);
    if (fate == Fate::kLive || HasLeft(replica) || IsEndHandled(replica)) continue;
    // Whoever has finished, or leaves with the whole group, does not come back for another one.
    if (fate != Fate::kFailed && fate != Fate::kLost) return false;
    failed = failed || fate == Fate::kFailed;
    ended.push_back(&replica);
  }
  const std::vector<PlanMember> next = AllowedPart(Staying());
  if (next.empty()) return false;
  // What fails in the wake of a failure does not count again.
  const bool counts = failed && (plan() == nullptr || !plan()->committed);
  if (counts && !CountFailure()) return false;
  std::string message;
  for (const Replica* replica : ended) {
    const bool own = FateOf(*replica) == Fate::kFailed;
    const std::string text = TellEnd(*replica, own);
    if (message.empty() || (own && !failed)) message = text;
    outcome_.ends_handled.push_back(replica->id);
  }
  PlanRecovery(next, message);
  return true;
}

bool Step::CountFailure() {
  const absl::Duration ran = std::max(absl::ZeroDuration(), now_ - job().running_since);
  const int before = ran >= policy_.healthy_after ? 0 : job().failures;
  if (before + 1 > job().max_restarts) return false;
  // A new stretch begins.
  LeaveRunning();
  job().running_since = now_;
  job().failures = before + 1;
  job().retry_time = now_ + BackOff(job().failures);
  return true;
}

void Step::PlanRecovery(const std::vector<PlanMember>& next, const std::string& cause) {
  const int64_t before = job().group;
  AddPlan(next, true);
  plan()->broken = true;
  const std::string message = absl::StrCat("group ", before, " goes on as group ", plan()->group, " with ",
                                           DescribeNodes(NodesOf(next)), Because(cause));
  Say(true, "Recovering", message);
  Explain("Recovering", message);
  Offer();
}

bool Step::IsAnswered(int64_t group) {
  const Plan* newest = nullptr;
  const Plan* tried = nullptr;
  for (const Plan& p : job().plans) {
    if (p.offered) newest = &p;
    if (p.group == group) tried = &p;
  }
  if (group < job().group) return true;
  if (newest == nullptr || newest->group <= group) return false;
  return std::all_of(newest->members.begin(), newest->members.end(), [&](const PlanMember& member) {
    return tried == nullptr ? IsMember(member.replica_id) : RankIn(*tried, member.replica_id) >= 0;
  });
}

bool Step::EndSuspicion() {
  std::vector<PlanMember> reporters;
  std::vector<const Replica*> others;
  absl::Time first = absl::InfiniteFuture();
  for (const PlanMember& member : Staying()) {
    const Replica* replica = Find(member.replica_id);
    if (replica->broken_group > 0 && !IsAnswered(replica->broken_group)) {
      reporters.push_back(member);
      first = std::min(first, replica->broken_since);
    } else {
      others.push_back(replica);
    }
  }
  if (reporters.empty()) return false;
  const bool wait = std::any_of(others.begin(), others.end(),
                                [&](const Replica* replica) { return now_ < AnswerDue(*replica, first); });
  if (!wait) GoOnWithout(others, reporters, "has not said that its group is broken");
  return true;
}

absl::Time Step::AnswerDue(const Replica& replica, absl::Time first) {
  const absl::Time due = first + policy_.suspicion;
  switch (PulseOf(replica)) {
    case Pulse::kUnknown:  // Perhaps it is us who were away.
      return std::max(due, first + policy_.silence);
    case Pulse::kSilent:
    case Pulse::kStuck:
      return due;
    case Pulse::kWaits:
      return std::max(due, replica.heard - replica.waiting + policy_.longest_wait);
    case Pulse::kWorks:
      return std::max(due, first + std::max(policy_.busy_suspicion, Patience()));
  }
  return due;
}

bool Step::GiveUpAbsent() {
  absl::Duration waited = absl::ZeroDuration();
  for (const PlanMember& member : Staying()) {
    const Replica* replica = Find(member.replica_id);
    if (PulseOf(*replica) == Pulse::kWaits) waited = std::max(waited, replica->waiting);
  }
  // Who waits for nobody may train on, whether we hear of it or not.
  if (waited < policy_.silence) return false;
  std::vector<PlanMember> present;
  std::vector<const Replica*> absent;
  for (const PlanMember& member : Staying()) {
    const Replica* replica = Find(member.replica_id);
    const Pulse pulse = PulseOf(*replica);
    if (pulse == Pulse::kSilent || (pulse == Pulse::kStuck && waited >= Patience())) {
      absent.push_back(replica);
    } else {
      present.push_back(member);
    }
  }
  if (absent.empty()) return false;
  GoOnWithout(absent, present, "holds the others up");
  return true;
}

// All wait, and nothing moves. A message that all of the others need is missing, and who waits for it is less
// far than they are: it was not sent, since the one who is to send it has stopped in the middle of an
// exchange, or it does not come through. Which of the two ends of a connection is to blame nobody knows; the
// group can do without either.
bool Step::GiveUpStalled() {
  const absl::Duration patience = Patience();
  const std::vector<PlanMember> staying = Staying();
  if (patience <= absl::ZeroDuration() || staying.size() < 2 || IsAnswered(job().group)) return false;
  std::vector<const Replica*> last;
  const auto place = [](const Replica& replica) {
    return std::pair(replica.standing->collective, replica.standing->step);
  };
  for (const PlanMember& member : staying) {
    const Replica* replica = Find(member.replica_id);
    const bool stalled = PulseOf(*replica) == Pulse::kWaits && replica->standing.has_value() &&
                         replica->standing->group == job().group && replica->standing->stalled >= patience;
    if (!stalled) return false;
    if (!last.empty() && place(*replica) > place(*last[0])) continue;
    if (!last.empty() && place(*replica) < place(*last[0])) last.clear();
    last.push_back(replica);
  }
  std::vector<const Replica*> absent;
  for (const Replica* replica : last) {
    if (replica->standing->peer < 0) absent.push_back(replica);
  }
  std::string what = "has stopped within an exchange";
  if (absent.empty()) {
    const Replica* deaf = WhoGetsNothing(last);
    const Replica* peer = PeerOf(*deaf);
    absent.push_back(deaf);
    if (peer != nullptr) {
      what = absl::StrCat("gets nothing from replica ", peer->rank, " on node ", peer->node);
      if (peer->node != deaf->node) outcome_.apart = std::pair(deaf->node, peer->node);
    }
  }
  // All of them between two exchanges: then they wait for something else.
  if (absent.size() == staying.size()) return false;
  std::vector<PlanMember> present;
  for (const PlanMember& member : staying) {
    if (std::none_of(absent.begin(), absent.end(),
                     [&](const Replica* replica) { return replica->id == member.replica_id; })) {
      present.push_back(member);
    }
  }
  GoOnWithout(absent, present, what);
  return true;
}

// Of two that wait for each other the one of the higher rank goes.
const Replica* Step::WhoGetsNothing(const std::vector<const Replica*>& last) {
  const Replica* found = last.back();
  for (const Replica* replica : last) {
    const Replica* peer = PeerOf(*replica);
    const bool waits_for_the_same = peer != nullptr &&
                                    std::find(last.begin(), last.end(), peer) != last.end() &&
                                    peer->standing->peer != replica->rank;
    if (!waits_for_the_same) found = replica;
  }
  return found;
}

const Replica* Step::PeerOf(const Replica& replica) {
  for (const Replica& member : members_) {
    if (member.rank == replica.standing->peer) return Find(member.id);
  }
  return nullptr;
}

Step::Pulse Step::PulseOf(const Replica& replica) {
  if (replica.heard == absl::InfinitePast()) return Pulse::kUnknown;
  if (now_ - replica.heard > policy_.silence) return Pulse::kSilent;
  if (replica.waiting > absl::ZeroDuration()) return Pulse::kWaits;
  const absl::Duration patience = Patience();
  return patience > absl::ZeroDuration() && replica.idle >= patience ? Pulse::kStuck : Pulse::kWorks;
}

absl::Duration Step::Patience() {
  absl::Duration longest = absl::ZeroDuration();
  for (const Replica& replica : members_) longest = std::max(longest, replica.patience);
  return longest;
}

void Step::GoOnWithout(const std::vector<const Replica*>& absent, const std::vector<PlanMember>& present,
                       absl::string_view what) {
  const std::string cause = absent.empty()
                                ? "all its members say that it is broken"
                                : absl::StrCat(Plural(static_cast<int>(absent.size())), " did not answer");
  const std::vector<PlanMember> next = AllowedPart(present);
  if (next.empty()) {
    Stop("GroupBroken", cause);
    return;
  }
  for (const Replica* replica : absent) {
    Say(true, "ReplicaLost",
        absl::StrCat("replica ", replica->rank, " on node ", replica->node, " ", what, ": ",
                     DescribePulse(*replica)),
        replica->node, replica->id);
    Order(*replica, "its group goes on without it", /*at_once=*/true);
  }
  if (!absent.empty()) HoldNewcomersBack();
  PlanRecovery(next, cause);
}

std::string Step::DescribePulse(const Replica& replica) {
  switch (PulseOf(replica)) {
    case Pulse::kUnknown:
      return "it has sent no heartbeat";
    case Pulse::kSilent:
      return absl::StrCat("its last heartbeat came ", Rounded(now_ - replica.heard), " ago");
    case Pulse::kStuck:
      return absl::StrCat("it has done nothing for ", Rounded(replica.idle));
    case Pulse::kWaits:
      return absl::StrCat("it waits itself, for ", Rounded(replica.waiting));
    case Pulse::kWorks:
      return "it works on";
  }
  return "";
}

}  // namespace adaptdl::jobs
