// A small cluster around the state machine: what is observed is fed to it, what it says is done, and what
// must hold whatever happens is checked at each step. Not thread-safe.

#ifndef ADAPTDL_TESTS_LIBS_JOBS_WORLD_H_
#define ADAPTDL_TESTS_LIBS_JOBS_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/jobs/planning.h"
#include "libs/jobs/state_machine.h"

namespace adaptdl::jobs {

// A cluster of three nodes of two places, one job, and its replicas.
class World {
 public:
  explicit World(int min_replicas = 0) {
    job_.min_replicas = min_replicas;
    job_.id_prefix = "job";
    job_.rescales_in_place = true;
    job_.max_restarts = 1'000'000;
  }

  // Runs the machine until it wants no more, and does what it says.
  void Settle() {
    for (int i = 0; i < 8; ++i) {
      const Job before = job_;
      desired_.free = Free();
      desired_.goes_first = goes_first;
      const Outcome outcome = Advance(before, replicas_, desired_, now_, policy_);
      Check(before, outcome);
      Apply(outcome);
      if (Converged(before, outcome)) return;
    }
    FAIL() << "does not come to rest in " << PhaseName(job_.phase);
  }

  void Want(std::vector<std::string> nodes) {
    desired_.nodes = std::move(nodes);
    Settle();
  }
  void Pass(absl::Duration duration) {
    now_ += duration;
    Settle();
  }
  void Prepare(Replica* replica) {
    if (replica->state == ReplicaState::kLaunching) {
      replica->state = ReplicaState::kRunning;
    } else if (IsLive(*replica)) {
      replica->joined = replica->rescales_in_place = true;
    }
    Settle();
  }
  void End(Replica* replica, int code, int signal = 0) {
    replica->state = ReplicaState::kExited;
    replica->exit_code = code;
    replica->signal = signal;
    Settle();
  }
  void Lose(Replica* replica) {
    replica->state = ReplicaState::kLost;
    replica->loss = LossCause::kNode;
    Settle();
  }
  void Report(Replica* replica, int64_t group) {
    if (replica->broken_group == group) return;
    replica->broken_group = group;
    replica->broken_since = now_;
    Settle();
  }
  // A heartbeat.
  void Hear(Replica* replica, absl::Duration waiting = {}, absl::Duration idle = {},
            absl::Duration patience = {}) {
    replica->heard = now_;
    replica->waiting = waiting;
    replica->idle = idle;
    replica->patience = patience;
    Settle();
  }
  // The members change over to this plan. False: they can't.
  bool Enter(int64_t group) {
    const std::optional<Entered> entered = EnterGroup(job_, group);
    if (!entered.has_value()) return false;
    EXPECT_GT(entered->job.group, job_.group);
    job_ = entered->job;
    for (size_t rank = 0; rank < entered->members.size(); ++rank) {
      Replica* replica = Find(entered->members[rank]);
      EXPECT_NE(replica, nullptr);
      replica->group = group;
      replica->rank = static_cast<int>(rank);
    }
    Settle();
    return true;
  }

  Replica* Find(const std::string& id) {
    for (Replica& replica : replicas_) {
      if (replica.id == id) return &replica;
    }
    return nullptr;
  }
  bool AllLive(const Plan& plan) {
    return std::all_of(plan.members.begin(), plan.members.end(), [&](const PlanMember& member) {
      const Replica* replica = Find(member.replica_id);
      return replica != nullptr && IsLive(*replica) && !replica->stop_requested;
    });
  }
  // Lets everything happen that is due, until the job is where it is wanted.
  void GoOn() {
    for (int i = 0; i < 400; ++i) {
      if (job_.phase == Phase::kRunning && SameNodes(job_.allocation, desired_.nodes)) return;
      for (const std::string& id : LiveIds()) {
        if (Replica* replica = Find(id)) Prepare(replica);
        Replica* replica = Find(id);
        if (replica != nullptr && replica->stop_requested) End(replica, 143);
      }
      FollowPlan();
      Pass(absl::Seconds(1));
    }
    FAIL() << "stays in " << PhaseName(job_.phase) << " (" << job_.reason << ": " << job_.message << ")";
  }
  // What the members do: they change over to the newest plan that they know, or find that it does not work.
  void FollowPlan() {
    const auto known =
        std::find_if(job_.plans.rbegin(), job_.plans.rend(), [](const Plan& plan) { return plan.offered; });
    if (known == job_.plans.rend()) return;
    const int64_t number = known->group;
    if (AllLive(*known)) {
      Enter(number);
      return;
    }
    for (const std::string& id : LiveIds()) {
      Replica* replica = Find(id);
      if (replica != nullptr && replica->group == job_.group) Report(replica, number);
    }
  }
  // A group of these nodes that trains.
  void Start(const std::vector<std::string>& nodes) {
    Want(nodes);
    GoOn();
    for (const std::string& id : LiveIds()) Prepare(Find(id));
  }

  std::vector<std::string> LiveIds() {
    std::vector<std::string> ids;
    for (const Replica& replica : replicas_) {
      if (IsLive(replica)) ids.push_back(replica.id);
    }
    return ids;
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    for (const Replica& replica : replicas_) {
      if (replica.group == job_.group) ids.push_back(replica.id);
    }
    return ids;
  }
  absl::Time now() const { return now_; }
  const Job& job() const { return job_; }
  const Plan& plan() const { return job_.plans.back(); }
  std::vector<Replica>& replicas() { return replicas_; }
  const std::set<std::string>& stopped() const { return stopped_; }
  // Those of them that were given no time.
  const std::set<std::string>& killed() const { return killed_; }
  // The last that was found.
  const std::optional<std::pair<std::string, std::string>>& apart() const { return apart_; }
  int places = 2;
  bool goes_first = false;
  Policy policy_;

 private:
  std::map<std::string, int> Free() const {
    std::map<std::string, int> free = {{"n1", places}, {"n2", places}, {"n3", places}};
    for (const Replica& replica : replicas_) free[replica.node] -= IsLive(replica);
    for (auto& [node, count] : free) count = std::max(0, count);
    return free;
  }

  void Check(const Job& before, const Outcome& outcome) {
    const Job& after = outcome.job;
    ASSERT_GE(after.group, before.group);
    ASSERT_GE(after.last_group, before.last_group);
    if (outcome.launch.has_value()) {
      ASSERT_TRUE(std::none_of(replicas_.begin(), replicas_.end(), IsLive));
    } else {
      ASSERT_EQ(after.group, before.group);
      ASSERT_TRUE(after.allocation == before.allocation || after.allocation.empty());
    }
    std::map<std::string, int> free = Free();
    for (const LaunchNewcomer& launch : outcome.newcomers) {
      ASSERT_GT(free[launch.node]--, 0) << "no room on " << launch.node;
      ASSERT_EQ(Find(launch.replica_id), nullptr) << "used twice: " << launch.replica_id;
      ASSERT_GT(launch.group, before.group);
    }
    ASSERT_EQ(after.phase == Phase::kRescaling, !after.plans.empty());
    int64_t last = after.group;
    for (const Plan& plan : after.plans) {
      ASSERT_GT(plan.group, last);
      last = plan.group;
      ASSERT_FALSE(plan.members.empty());
      ASSERT_TRUE(&plan == &after.plans.back() || plan.offered);
    }
    if (!after.plans.empty()) {
      const Replica* lead = Find(after.plans.back().members[0].replica_id);
      ASSERT_TRUE(lead != nullptr && lead->group == after.group) << "rank 0 is no survivor";
    }
    if (outcome.offer) {
      for (const PlanMember& member : after.plans.back().members) {
        const Replica* replica = Find(member.replica_id);
        ASSERT_TRUE(replica != nullptr && IsLive(*replica) && replica->joined);
      }
    }
    if (!IsTerminal(after.phase)) {
      ASSERT_NE(outcome.waits_for, WaitsFor::kNothing);
    }
  }

  void Apply(const Outcome& outcome) {
    job_ = outcome.job;
    if (outcome.apart.has_value()) apart_ = outcome.apart;
    if (outcome.launch.has_value()) {
      replicas_.clear();
      for (size_t rank = 0; rank < outcome.launch->nodes.size(); ++rank) {
        Add(absl::StrCat("job-", outcome.launch->group, "-", rank), outcome.launch->group,
            static_cast<int>(rank), outcome.launch->nodes[rank]);
      }
    }
    for (const LaunchNewcomer& launch : outcome.newcomers) {
      Add(launch.replica_id, launch.group, launch.rank, launch.node);
    }
    for (const std::string& id : outcome.ends_handled) Find(id)->end_handled = true;
    for (const StopOrder& stop : outcome.stops) {
      Find(stop.replica_id)->stop_requested = true;
      stopped_.insert(stop.replica_id);
      if (stop.at_once) killed_.insert(stop.replica_id);
    }
  }
  void Add(const std::string& id, int64_t group, int rank, const std::string& node) {
    Replica& replica = replicas_.emplace_back();
    replica.id = id;
    replica.group = group;
    replica.rank = rank;
    replica.node = node;
  }

  Job job_;
  std::vector<Replica> replicas_;
  std::set<std::string> stopped_;
  std::set<std::string> killed_;
  std::optional<std::pair<std::string, std::string>> apart_;
  Desired desired_;
  absl::Time now_ = absl::FromUnixSeconds(3600);
};

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_TESTS_LIBS_JOBS_WORLD_H_
