// An operator that stands still for longer than its Lease lasts, in the midst of a re-scale, and then goes on: another one leads by
// then and has brought the re-scale about. The former one finds out, and ends without having changed anything.

#include <signal.h>

#include <future>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/kubernetes/faults/fault_run.h"

namespace adaptdl::integration {
namespace {

constexpr char kJob[] = "trains";
constexpr int kLostLeadership = 3;
const std::vector<std::string> kOne = {"node-0"};
const std::vector<std::string> kTwo = {"node-0", "node-1"};

class TwoOperatorsTest : public FaultRun {
 protected:
  TwoOperatorsTest() : FaultRun(2) {}

  // How the leader calls itself to the API server.
  std::string Leader() {
    const kube::ResourceType leases = {"coordination.k8s.io", "v1", "leases", "Lease"};
    const auto lease = client_.Get(kube::ObjectOf(leases, {"default", "adaptdl-supervisor"}));
    EXPECT_TRUE(lease.ok()) << lease.status();
    return absl::StrCat("adaptdl-supervisor/",
                        lease.ok() ? kube::TextAt(*lease, {"spec", "holderIdentity"}) : "");
  }

  // What this one has changed, or tried to; but for the Lease, by which it finds out.
  int64_t ChangesBy(const std::string& agent) {
    int64_t changes = 0;
    const kube::Json agents = Control("GET", "agents");
    for (const auto& [call, count] : kube::At(agents, {agent}).items()) {
      const bool reads = absl::StartsWith(call, "get ") || absl::StartsWith(call, "list ") ||
                         absl::StartsWith(call, "watch ");
      if (!reads && call != "update leases") changes += count.get<int64_t>();
    }
    return changes;
  }

  // Stops the leader at its change number `n` of a re-scale to these nodes. False: it has fewer.
  void StopLeaderAt(int n, const std::vector<std::string>& nodes, bool* is_there) {
    const int64_t before = GroupOf(kJob);
    const std::string former = Leader();
    Halt(n, false);
    // The answer may be one that will never come: it is waited for at the end.
    decisions_.push_back(
        std::async(std::launch::async, [this, nodes] { return cluster_.Allocate(kJob, nodes); }));
    const std::string at = AwaitHalt(kJob, nodes, before);
    *is_there = !at.empty();
    if (!*is_there) return LetGo();
    std::cout << "stopped at change " << n << ", " << at << std::endl;
    cluster_.supervisor(leader_).Signal(SIGSTOP);
    LetGo();
    const int next = 1 - leader_;
    const absl::Status leads = cluster_.AwaitSupervisor(next);
    ASSERT_TRUE(leads.ok()) << leads;
    ASSERT_NO_FATAL_FAILURE(Decide(kJob, nodes));
    ASSERT_NO_FATAL_FAILURE(AwaitGroup(kJob, nodes, before));
    ASSERT_NE(Leader(), former);
    const int64_t changes = ChangesBy(former);
    cluster_.supervisor(leader_).Signal(SIGCONT);
    EXPECT_EQ(cluster_.supervisor(leader_).Wait(kPatience), kLostLeadership);
    EXPECT_EQ(ChangesBy(former), changes) << "it has changed something after all";
    const absl::Status again = cluster_.LaunchSupervisor(leader_);
    ASSERT_TRUE(again.ok()) << again;
    leader_ = next;
    AwaitSteps(kJob);
  }

  // At a point if there are some left.
  void Change(int n, const std::vector<std::string>& nodes, bool* left) {
    *left ? StopLeaderAt(n, nodes, left) : Rescale(kJob, nodes);
  }

  int leader_ = 0;
  std::vector<std::future<absl::Status>> decisions_;
};

TEST_F(TwoOperatorsTest, OneThatWasStoppedEndsAndChangesNothing) {
  const absl::Status standby = cluster_.LaunchSupervisor(1);
  ASSERT_TRUE(standby.ok()) << standby;
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, "in-place", kOne));
  int points = 0;
  // The first is the decision, the second makes or stops a pod.
  const int most = TriesAll() ? 100 : 2;
  bool grows = true;
  bool shrinks = true;
  for (int n = 0; n < most && (grows || shrinks); ++n) {
    ASSERT_NO_FATAL_FAILURE(Change(n, kTwo, &grows));
    ASSERT_NO_FATAL_FAILURE(Change(n, kOne, &shrinks));
    points += grows + shrinks;
  }
  EXPECT_GT(points, 0);
  std::cout << "faults: stopped at " << points << " points of re-scales" << std::endl;
  EXPECT_EQ(cluster_.GetJob(kJob)->status().restarts(), 0);
  FinishJob(kJob);
}

}  // namespace
}  // namespace adaptdl::integration
