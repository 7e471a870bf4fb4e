// A job that is re-scaled a thousand times, over sockets, keeps no thread, socket or memory of the replicas
// and groups that it has left behind.

#include <malloc.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "adaptdl/data_loader.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/tcp_communicator.h"
#include "libs/comm/tcp_rendezvous.h"
#include "tests/libs/elastic/replica_threads.h"

namespace adaptdl::elastic {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int64_t kRescales = 100;  // they tell of a leak by themselves, and are slow
#else
constexpr int64_t kRescales = 1000;
#endif
constexpr int64_t kWarmUp = 50;

struct Holdings {
  int64_t sockets = 0;
  int64_t threads = 0;
  int64_t bytes = 0;
};

int64_t CountEntries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return std::distance(begin(entries), end(entries));
}

Holdings Count() {
  // Not the resident size: what the allocator keeps for later is no leak.
  const struct mallinfo2 heap = mallinfo2();
  return {CountEntries("/proc/self/fd"), CountEntries("/proc/self/task"),
          static_cast<int64_t>(heap.uordblks + heap.hblkhd)};
}

// Sockets and a rendezvous of a replica's own, as real ones have.
Group::Transport OverSockets() {
  std::shared_ptr<comm::TcpRendezvous> rendezvous = *comm::TcpRendezvous::Host("127.0.0.1");
  Group::Transport transport;
  transport.address = rendezvous->address();
  transport.connect =
      [rendezvous](const GroupMembership& group) -> absl::StatusOr<std::unique_ptr<comm::Communicator>> {
    if (group.world_size == 1) return std::move(comm::CreateInProcessGroup(1).front());
    return comm::ConnectTcp(*rendezvous, {.rank = group.rank,
                                          .size = group.world_size,
                                          .group = group.group,
                                          .host = "127.0.0.1",
                                          .timeout = absl::Minutes(1),
                                          .address = group.rank == 0 ? "" : group.master_address});
  };
  transport.refuse_below = [rendezvous](int64_t group) { rendezvous->RefuseBelow(group); };
  return transport;
}

// A relay: each replica calls the next one in, and leaves when that one trains.
class Relay {
 public:
  void Run() {
    Start(0, {.group = 1});
    MutexLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
  }

  Holdings early() const { return early_; }
  Holdings late() const { return late_; }

 private:
  static std::string Name(int64_t number) { return absl::StrCat("replica ", number); }

  void Start(int64_t number, const GroupMembership& membership) {
    replicas_.Start(Name(number), membership, [this, number](Replica& replica) { Train(number, replica); });
  }

  void Train(int64_t number, Replica& replica) {
    AdaptiveDataLoader loader(replica.job, int64_t{1} << 40, {.batch_size = 2, .shuffle = false});
    int64_t planned = 0;
    for (loader.BeginLoop(); loader.Next();) {
      replica.job.core().loop().OnOptimizerStep(0);
      const int64_t group = replica.job.core().team().membership().group;
      if (group > kRescales) break;  // The last replica.
      // Replica n begins alone in group 2n + 1, and leaves group 2n + 2 to the next one.
      if (planned >= group) continue;
      planned = group;
      if (group == 2 * number + 1) CallNext(number, group + 1, replica);
      if (group == 2 * number + 2) LeaveTo(number + 1, group + 1, replica);
    }
    MutexLock lock(&mutex_);
    done_ = true;
    changed_.SignalAll();
  }

  // This one trains alone.
  void CallNext(int64_t number, int64_t group, Replica& replica) {
    if (number > 0) replicas_.Join(Name(number - 1));
    if (group == kWarmUp) early_ = Count();
    if (group == kRescales) late_ = Count();
    GroupMembership next = {.group = group, .rank = 0, .world_size = 2, .newcomers = 1};
    next.master_address = replica.control.address();
    replica.control.Plan({next, "grows"});
    next.rank = 1;
    Start(number + 1, next);
  }

  void LeaveTo(int64_t number, int64_t group, Replica& replica) {
    GroupMembership next = {.group = group, .rank = 0, .world_size = 1};
    replicas_.control(Name(number)).Plan({next, "goes on alone"});
    next.rank = -1;
    replica.control.Plan({next, "leaves"});
  }

  // By the replica that trains alone.
  Holdings early_;
  Holdings late_;
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  ReplicaThreads replicas_{RunOptions{.plans_groups = true, .transport = OverSockets}};
};

TEST(Leaks, RescalesLeaveNothingBehind) {
  Relay relay;
  relay.Run();
  EXPECT_EQ(relay.late().sockets, relay.early().sockets);
  EXPECT_EQ(relay.late().threads, relay.early().threads);
  // A hundred bytes per re-scale would be more.
  EXPECT_LT(relay.late().bytes, relay.early().bytes + (kRescales - kWarmUp) * 100);
  EXPECT_GT(relay.early().threads, 0);
}

}  // namespace
}  // namespace adaptdl::elastic
