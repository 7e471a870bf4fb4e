// A full cluster of the real programs: plain jobs run to their end in the order of submission, and a training
// job gives room to them without being stopped.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/integration/test_cluster.h"
#include "tests/integration/training_data.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(4);

// Whether the allocator has told the job that it waits for its turn.
bool WaitsForItsTurn(const v1::Job& job) {
  return job.status().phase() == v1::JOB_PHASE_PENDING &&
         absl::StrContains(job.status().allocation_reason(), "in their turn");
}

class QueueTest : public testing::Test {
 protected:
  void Start(int workers) {
    cluster_ = std::make_unique<TestCluster>(TestClusterOptions{.workers = workers});
    const absl::Status started = cluster_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  std::string Gate(const std::string& name) const { return cluster_->folder() + "/may-end-" + name; }

  // A program that uses nothing of ours, and ends when it is told to.
  void SubmitPlain(const std::string& name) {
    const std::string wait = "while [ ! -e " + Gate(name) + " ]; do sleep 0.1; done; echo has ended";
    ASSERT_TRUE(cluster_->Submit(cluster_->CommandJob(name, {"sh", "-c", wait})).ok());
  }
  void LetEnd(const std::string& name) { ASSERT_TRUE(WriteFileAtomically(Gate(name), "").ok()); }

  v1::Job WaitFor(const std::string& name, const JobPredicate& predicate) {
    const auto job = cluster_->WaitForJob(name, predicate, kPatience);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(v1::Job());
  }

  std::unique_ptr<TestCluster> cluster_;
};

TEST_F(QueueTest, PlainJobsOnAFullClusterRunToTheirEndInTurn) {
  Start(1);
  const std::vector<std::string> names = {"first", "second", "third", "fourth"};
  SubmitPlain("first");
  WaitFor("first", RunningWith(1));
  for (size_t i = 1; i < names.size(); ++i) {
    SubmitPlain(names[i]);
    const v1::Job waits = WaitFor(names[i], WaitsForItsTurn);
    EXPECT_THAT(waits.status().allocation_explanation(),
                Contains(HasSubstr("1 job keeps its place until the end, as a plain program")));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    WaitFor(names[i], RunningWith(1));
    for (size_t later = i + 1; later < names.size(); ++later) {
      EXPECT_EQ(cluster_->GetJob(names[later])->status().phase(), v1::JOB_PHASE_PENDING) << names[later];
    }
    LetEnd(names[i]);
    const v1::Job ended = WaitFor(names[i], Finished);
    EXPECT_EQ(ended.status().phase(), v1::JOB_PHASE_SUCCEEDED);
    // All of one run.
    EXPECT_EQ(ended.status().restarts(), 0);
    EXPECT_EQ(ended.status().group(), 1);
  }
}

TEST_F(QueueTest, ATrainingJobGivesRoomToPlainOnesAndIsNotStopped) {
  Start(2);
  ASSERT_TRUE(cluster_->Submit(cluster_->MnistJob("trains", MnistArguments(10'000))).ok());
  // From then on it competes; it may have grown.
  WaitFor("trains", [](const v1::Job& job) { return job.status().hints().has_perf_params(); });
  SubmitPlain("plain");
  WaitFor("plain", RunningWith(1));
  SubmitPlain("next");
  WaitFor("next", WaitsForItsTurn);
  const v1::Job trains = WaitFor("trains", RunningWith(1));
  WaitFor("trains", StepsReached(trains.status().progress().optimizer_steps() + 1));
  LetEnd("plain");
  EXPECT_EQ(WaitFor("plain", Finished).status().restarts(), 0);
  WaitFor("next", RunningWith(1));
  LetEnd("next");
  EXPECT_EQ(WaitFor("next", Finished).status().restarts(), 0);
  EXPECT_EQ(cluster_->GetJob("trains")->status().restarts(), 0);
}

}  // namespace
}  // namespace adaptdl::integration
