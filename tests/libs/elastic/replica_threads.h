// Replicas of one job as threads of the test: in-process groups, fake control planes, a real checkpoint
// folder.
//
//   RunReplicas(2, {.checkpoint_path = folder}, [](Replica& replica) { ... replica.job ... });
//
// or, for a job whose groups follow each other:
//
//   ReplicaThreads replicas(options);
//   replicas.Start("a", {.group = 1, .rank = 0, .world_size = 1}, body);
//   replicas.Start("b", {.group = 2, .rank = 1, .world_size = 2, .newcomers = 1}, body);
//   replicas.Plan({{"a", {.group = 2, ...}}});
//   replicas.Join();
//
// A replica that the library would end (a stop, a lost peer) leaves its body with that exit code instead.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_REPLICA_THREADS_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_REPLICA_THREADS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "adaptdl/job.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/elastic/control/fake_control_plane.h"
#include "libs/elastic/host/host.h"
#include "libs/elastic/job/job_core.h"

namespace adaptdl::elastic {

struct RunOptions {
  std::string checkpoint_path = {};
  std::string start_path = {};
  int64_t group = 1;
  absl::Duration checkpoint_period = absl::Hours(1);
  std::function<absl::Status(absl::string_view)> before_checkpoint_step = nullptr;
  int64_t checkpoint_period_steps = 0;
  int checkpoint_keep = 2;
  absl::Duration write_timeout = absl::InfiniteDuration();
  // Longest wait for a group that follows a broken one.
  absl::Duration plan_timeout = absl::Minutes(1);
  // Whether the test plans groups.
  bool plans_groups = false;
  // Whether replicas meet when their bodies first need each other, as in real programs. Else before.
  bool meet_in_body = false;
  // Makes what a member of `group` uses of its communicator. None: the communicator itself.
  std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>,
                                                    const GroupMembership& group)>
      wrap = nullptr;
  // Makes what connects a replica to its groups. None: groups within the process.
  std::function<Group::Transport()> transport = nullptr;
  // Host::ThreadClock().
  std::function<std::function<double()>()> thread_clock = nullptr;
  // Called by the replica that has reported its group as broken, or has ended.
  std::function<void(const std::string& name, int64_t group)> on_broken = nullptr;
  std::function<void(const std::string& name, int code)> on_end = nullptr;
};

struct Replica {
  Job& job;
  FakeControlPlane& control;
};

// What the library ends a replica with, in place of ending the process.
struct ReplicaExit {
  int code;
};

// In place of exit codes: it died without a word; it never was a member of a group.
inline constexpr int kDied = -1;
inline constexpr int kNotJoined = -2;

// What a body throws to die without a word.
struct ReplicaDeath {};

// Unwinds a replica's thread in place of ending the process.
class ReplicaHost final : public Host {
 public:
  explicit ReplicaHost(std::function<std::function<double()>()> thread_clock)
      : thread_clock_(std::move(thread_clock)) {}

  // Each reading is a millisecond after the one before.
  double Seconds() override { return static_cast<double>(++ticks_) * 1e-3; }
  double WallSeconds() override { return 1e9 + Seconds(); }
  std::function<double()> ThreadClock() override { return thread_clock_ ? thread_clock_() : nullptr; }

 private:
  void End(int code) override { throw ReplicaExit{code}; }

  const std::function<std::function<double()>()> thread_clock_;
  std::atomic<int64_t> ticks_{0};
};

// All groups of a job: each is made when its first member asks for it. Thread-safe.
class InProcessGroups {
 public:
  absl::StatusOr<std::unique_ptr<comm::Communicator>> Connect(const GroupMembership& group) {
    MutexLock lock(&mutex_);
    if (group.group < refused_below_) return absl::AbortedError("the group is over");
    auto& members = groups_[group.group];
    if (members.empty()) members = comm::CreateInProcessGroup(group.world_size, absl::Seconds(30));
    if (members.at(group.rank) == nullptr) return absl::AbortedError("the group is over");
    return std::move(members.at(group.rank));
  }

  // Members that have not come will not.
  void RefuseBelow(int64_t number) {
    MutexLock lock(&mutex_);
    refused_below_ = std::max(refused_below_, number);
    for (auto& [group, members] : groups_) {
      if (group < number) {
        for (auto& member : members) member.reset();
      }
    }
  }

 private:
  Mutex mutex_;
  std::map<int64_t, std::vector<std::unique_ptr<comm::Communicator>>> groups_ ABSL_GUARDED_BY(mutex_);
  int64_t refused_below_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ReplicaThreads {
 public:
  using Body = std::function<void(Replica&)>;

  explicit ReplicaThreads(RunOptions options) : options_(std::move(options)) {}
  ~ReplicaThreads() { Join(); }

  void Start(const std::string& name, const GroupMembership& membership, const Body& body) {
    auto control = std::make_shared<FakeControlPlane>(membership, options_.plans_groups);
    if (options_.on_broken) {
      control->on_broken = [this, name](int64_t group) { options_.on_broken(name, group); };
    }
    MutexLock lock(&mutex_);
    Entry* const entry = &entries_[name];
    entry->control = control;
    const Job::Place place = {membership.rank, membership.world_size, membership.num_nodes, ""};
    entry->thread = std::thread([this, name, entry, body, control, place] {
      const int code = Run(place, control, body);
      {
        MutexLock lock(&mutex_);
        entry->code = code;
      }
      if (options_.on_end) options_.on_end(name, code);
    });
  }

  // Tells these replicas what follows.
  void Plan(const std::map<std::string, GroupMembership>& plans) {
    for (const auto& [name, next] : plans) control(name).Plan({next, "planned by the test"});
  }

  FakeControlPlane& control(const std::string& name) {
    MutexLock lock(&mutex_);
    return *entries_.at(name).control;
  }

  // Waits for the end of one, and forgets it.
  void Join(const std::string& name) {
    std::thread thread;
    {
      MutexLock lock(&mutex_);
      thread = std::move(entries_.at(name).thread);
    }
    thread.join();
    MutexLock lock(&mutex_);
    entries_.erase(name);
  }

  // Also those that replicas start.
  void Join() {
    for (;;) {
      std::thread next;
      {
        MutexLock lock(&mutex_);
        for (auto& [name, entry] : entries_) {
          if (!next.joinable()) next = std::move(entry.thread);
        }
      }
      if (!next.joinable()) return;
      next.join();
    }
  }

  // After Join(). 0: the body returned; kDied; kNotJoined.
  int code(const std::string& name) {
    MutexLock lock(&mutex_);
    return entries_.at(name).code;
  }

 private:
  struct Entry {
    std::thread thread;
    std::shared_ptr<FakeControlPlane> control;
    int code = 0;
  };

  struct NotJoined {};

  int Run(const Job::Place& place, const std::shared_ptr<FakeControlPlane>& control, const Body& body) {
    try {
      const auto join = [&](std::vector<CheckpointState*> expected) {
        auto core = JobCore::Create(Dependencies(control, std::move(expected)));
        if (!core.ok()) throw NotJoined();
        return *std::move(core);
      };
      Job job(place, join);
      if (!options_.meet_in_body) job.core();
      Replica replica{job, *control};
      body(replica);
      return 0;
    } catch (const NotJoined&) {
      return kNotJoined;
    } catch (const ReplicaExit& exit) {
      return exit.code;
    } catch (const ReplicaDeath&) {
      return kDied;
    }
  }

  JobDependencies Dependencies(const std::shared_ptr<FakeControlPlane>& control,
                               std::vector<CheckpointState*> expected) {
    JobDependencies dependencies;
    dependencies.environment.checkpoint_path = options_.checkpoint_path;
    dependencies.environment.start_path = options_.start_path;
    dependencies.environment.checkpoint_period = options_.checkpoint_period;
    dependencies.environment.checkpoint_period_steps = options_.checkpoint_period_steps;
    dependencies.environment.checkpoint_keep = options_.checkpoint_keep;
    dependencies.plan_timeout = options_.plan_timeout;
    dependencies.write_timeout = options_.write_timeout;
    dependencies.control = control;
    dependencies.transport = options_.transport ? options_.transport() : InProcess();
    dependencies.host = std::make_shared<ReplicaHost>(options_.thread_clock);
    dependencies.before_checkpoint_step = options_.before_checkpoint_step;
    dependencies.expected = std::move(expected);
    return dependencies;
  }

  Group::Transport InProcess() {
    Group::Transport transport;
    transport.connect =
        [this](const GroupMembership& group) -> absl::StatusOr<std::unique_ptr<comm::Communicator>> {
      auto communicator = groups_.Connect(group);
      if (!communicator.ok() || !options_.wrap) return communicator;
      return options_.wrap(*std::move(communicator), group);
    };
    transport.refuse_below = [this](int64_t group) { groups_.RefuseBelow(group); };
    return transport;
  }

  const RunOptions options_;
  InProcessGroups groups_;
  Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

// One group. Exit codes by rank; 0: the body returned.
inline std::vector<int> RunReplicas(int size, const RunOptions& options,
                                    const std::function<void(Replica&)>& body) {
  ReplicaThreads replicas(options);
  const auto name = [](int rank) { return absl::StrCat("replica ", rank); };
  for (int rank = 0; rank < size; ++rank) {
    replicas.Start(name(rank), {.group = options.group, .rank = rank, .world_size = size}, body);
  }
  replicas.Join();
  std::vector<int> codes;
  for (int rank = 0; rank < size; ++rank) codes.push_back(replicas.code(name(rank)));
  return codes;
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_REPLICA_THREADS_H_
