// Somebody sets the wall clock of a service by an hour, forward and back, while a job runs: nothing that
// lives is given up, nothing that is dead is kept, and nothing waits for the hour to pass.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/integration/failover/failover_cluster.h"

namespace adaptdl::integration {
namespace {

const char* const kPrograms[] = {"supervisor-0", "supervisor-1", "allocator-0", "allocator-1",
                                 "node-0",       "node-1",       "autoscaler"};

class ClockStepTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : kPrograms) SetClock(program, absl::ZeroDuration());
    const auto environment = [this](const std::string& program) { return ShiftedClock(program); };
    const absl::Status started = cluster_.Start(environment);
    ASSERT_TRUE(started.ok()) << started;
    cluster_.StartAutoscaler(ShiftedClock("autoscaler"));
    ASSERT_TRUE(FailoverCluster::Await([&] { return cluster_.ReadyNodes(0) == 3; }));
    ASSERT_TRUE(cluster_.Submit({0}, cluster_.MakeStepJob("a")));
    ASSERT_TRUE(FailoverCluster::Await([&] { return Steps("a") > 0; }));
  }

  std::string ClockFile(const std::string& program) const {
    return absl::StrCat(cluster_.folder(), "/", program, ".clock");
  }
  std::vector<std::string> ShiftedClock(const std::string& program) const {
    return {absl::StrCat("LD_PRELOAD=", SHIFTED_CLOCK),
            absl::StrCat("SHIFTED_CLOCK_FILE=", ClockFile(program))};
  }

  // With one write: programs have the file in their memory.
  void SetClock(const std::string& program, absl::Duration ahead) const {
    const int64_t nanos = absl::ToInt64Nanoseconds(ahead);
    const int file = open(ClockFile(program).c_str(), O_WRONLY | O_CREAT, 0644);
    ASSERT_EQ(pwrite(file, &nanos, sizeof(nanos), 0), static_cast<ssize_t>(sizeof(nanos)));
    close(file);
  }

  // Where a node keeps its state, which its processes have among their arguments.
  std::string FolderOf(const std::string& node) const {
    return absl::StrCat(cluster_.folder(), node == "local-0" ? "/autoscaler/nodes/" : "/", node);
  }

  // How often workers of this node have come to the supervisor. (Their address does not tell: it may be the former one's.)
  int ConnectionsOf(const std::string& node) const {
    std::ifstream file(FolderOf(node) + "/worker.log");
    int count = 0;
    for (std::string line; std::getline(file, line);)
      count += absl::StrContains(line, "connected to the supervisor");
    return count;
  }

  int64_t Steps(const std::string& job) const {
    int64_t last = 0;
    for (const auto& [pid, record] : cluster_.Records(job)) {
      for (const auto line : absl::StrSplit(record, '\n', absl::SkipEmpty())) {
        int64_t step = 0;
        if (absl::SimpleAtoi(line, &step)) last = std::max(last, step);
      }
    }
    return last;
  }

  // Longer than a node or an allocator may be silent, whatever the clocks say.
  void LetTimePass() const {
    const int64_t before = Steps("a");
    ASSERT_TRUE(FailoverCluster::Await([&] { return Steps("a") > before + 400; }));
  }

  // One that is submitted now comes to run.
  void ExpectDecisions() {
    const std::string name = absl::StrCat("job-", ++jobs_);
    ASSERT_TRUE(cluster_.Submit({0}, cluster_.MakeStepJob(name)));
    ASSERT_TRUE(FailoverCluster::Await([&] { return Steps(name) > 0; })) << name;
  }

  // Addresses of the workers, by node: others after a restart.
  std::map<std::string, std::string> ReadyWorkers() {
    std::map<std::string, std::string> workers;
    for (const v1::Node& node : cluster_.Nodes(0)) {
      if (node.status().phase() == v1::NODE_PHASE_READY) workers[node.node_id()] = node.worker_address();
    }
    return workers;
  }

  // Nothing happens to the first job, the nodes and the leaders.
  void Step(const std::vector<std::string>& programs, absl::Duration ahead) {
    const size_t events = cluster_.Events(0, "a").size();
    const std::map<std::string, std::string> workers = ReadyWorkers();
    ASSERT_EQ(workers.size(), 3u);
    for (const std::string& program : programs) SetClock(program, ahead);
    ASSERT_NO_FATAL_FAILURE(LetTimePass());
    ASSERT_NO_FATAL_FAILURE(ExpectDecisions());
    EXPECT_EQ(cluster_.GetJob(0, "a")->status().group(), 1);
    EXPECT_EQ(cluster_.Events(0, "a").size(), events);
    EXPECT_EQ(ReadyWorkers(), workers);
    EXPECT_EQ(cluster_.Terms(0).size(), 1u);
    EXPECT_TRUE(cluster_.Terms(1).empty());
  }

  FailoverCluster cluster_;
  int jobs_ = 0;
};

TEST_F(ClockStepTest, NothingThatLivesIsGivenUp) {
  const std::vector<std::vector<std::string>> services = {
      {"supervisor-0", "supervisor-1"}, {"allocator-0", "allocator-1"}, {"node-0", "node-1"}, {"autoscaler"}};
  for (const auto& programs : services) {
    for (const absl::Duration ahead : {absl::Hours(1), absl::ZeroDuration()}) {
      SCOPED_TRACE(absl::StrCat(programs[0], " set to ", absl::FormatDuration(ahead)));
      ASSERT_NO_FATAL_FAILURE(Step(programs, ahead));
    }
  }
}

TEST_F(ClockStepTest, WhatIsDeadIsNotKept) {
  for (const char* program : kPrograms) SetClock(program, -absl::Hours(1));
  ASSERT_NO_FATAL_FAILURE(LetTimePass());

  // The autoscaler's worker: it starts another one.
  ASSERT_NE(ReadyWorkers()["local-0"], "");
  ASSERT_EQ(ConnectionsOf("local-0"), 1);
  ASSERT_GT(KillProcessesMatching(FolderOf("local-0")), 0);
  ASSERT_TRUE(FailoverCluster::Await([&] {
    return ConnectionsOf("local-0") == 2 && ReadyWorkers().contains("local-0");
  })) << cluster_.Log("autoscaler");

  // The node of the job: it goes on elsewhere.
  const absl::StatusOr<v1::Job> job = cluster_.GetJob(0, "a");
  ASSERT_TRUE(job.ok()) << job.status();
  const std::string node = job->status().replicas(0).node_id();
  ASSERT_GT(KillProcessesMatching(FolderOf(node)), 0);
  ASSERT_TRUE(FailoverCluster::Await([&] {
    const auto now = cluster_.GetJob(0, "a");
    return now.ok() && now->status().group() > 1 && now->status().phase() == v1::JOB_PHASE_RUNNING;
  }));

  // The leader, which is stopped, so that only its silence tells.
  cluster_.supervisor(0).Signal(SIGSTOP);
  ASSERT_TRUE(FailoverCluster::Await([&] { return cluster_.Terms(1).size() == 1; }));
  ASSERT_TRUE(cluster_.Submit({1}, cluster_.MakeStepJob("after")));
  ASSERT_TRUE(FailoverCluster::Await([&] { return Steps("after") > 0; }));
}

}  // namespace
}  // namespace adaptdl::integration
