// A worker whose cloud says that it takes the node away.

#include <csignal>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/notices/fake_metadata.h"
#include "tests/services/worker/worker_fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class NoticesTest : public WorkerTest {
 protected:
  NoticesTest() {
    metadata_.Set("/latest/meta-data/instance-id", "i-0123");
    metadata_.Set("/latest/meta-data/local-ipv4", "127.0.0.9");
    Ask("aws");
  }
  void Ask(const std::string& cloud) {
    gpu_flags_ = {"--gpus=0", "--instance-metadata=" + cloud, "--instance-metadata-url=" + metadata_.url()};
  }
  // One that would go on for ever, and says it when it is told to stop.
  void RunOne() {
    supervisor_.AcknowledgeAll();
    supervisor_.Launch(Shell("r", "trap 'echo told; exit 143' TERM; touch ready; " + Until("go") + "exit 0"));
    ASSERT_TRUE(WaitForRunning("r").has_value());
    ASSERT_TRUE(WaitForFile(Share() + "/ready"));
  }

  FakeMetadata metadata_;
};

TEST_F(NoticesTest, TheNodeIsCalledAsItsCloudCallsIt) {
  const auto node = supervisor_.TakeRegistration();
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ(node->instance_id(), "i-0123");
  EXPECT_EQ(node->replica_host(), "127.0.0.1") << "it listens on the loopback only";
}

TEST_F(NoticesTest, ANoticeIsToldAtOnceAndWithEachRegistration) {
  metadata_.TakeAwsInstance("", absl::Now() + absl::Minutes(2));
  ASSERT_TRUE(supervisor_.WaitForNotice());
  supervisor_.EndStream(grpc::Status(grpc::StatusCode::ABORTED, "superseded"));
  EXPECT_TRUE(supervisor_.WaitForLeavingRegistration());
}

TEST_F(NoticesTest, WhatNobodyHasMovedIsStoppedBeforeTheNodeGoes) {
  RunOne();
  metadata_.TakeAwsInstance("", absl::Now() + absl::Seconds(6));
  const auto exit = WaitForExit("r");
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->replica().exit_code(), 143);
  EXPECT_EQ(exit->replica().end_cause(), v1::END_CAUSE_PREEMPTION);
}

TEST_F(NoticesTest, WhatIsOnlyLikelyStopsNothing) {
  RunOne();
  metadata_.Set("/latest/meta-data/events/recommendations/rebalance", "{}");
  ASSERT_TRUE(supervisor_.WaitForNotice());
  Touch("go");
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 0);
  EXPECT_THAT(LogOf("r"), Not(HasSubstr("told")));
}

// Machines that are taken away end their services, with the signal that an upgrade would use.
TEST_F(NoticesTest, AWorkerThatIsEndedAfterANoticeDrains) {
  RunOne();
  metadata_.TakeAwsInstance("", absl::Now() + absl::Minutes(2));
  ASSERT_TRUE(supervisor_.WaitForNotice());
  kill(worker_, SIGTERM);
  Touch("go");
  EXPECT_EQ(WaitForExit("r")->replica().exit_code(), 0);
  EXPECT_EQ(EndWorker(0), 0);
  EXPECT_TRUE(std::filesystem::exists(ReplicaFolder(Id("r")) + "/acknowledged"));
}

class LateMetadataTest : public NoticesTest {
 protected:
  LateMetadataTest() { metadata_.Set("/latest/api/token", "", 503); }
};

TEST_F(LateMetadataTest, AServiceThatAnswersLaterIsAskedOn) {
  const auto first = supervisor_.TakeRegistration();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->instance_id(), "");
  metadata_.Set("/latest/api/token", "token-0");
  const auto second = supervisor_.TakeRegistration();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->instance_id(), "i-0123");
}

class NoMetadataTest : public NoticesTest {
 protected:
  NoMetadataTest() { Ask("none"); }
};

TEST_F(NoMetadataTest, NobodyIsAsked) {
  ASSERT_TRUE(supervisor_.WaitForHeartbeats(3));
  EXPECT_THAT(metadata_.Asked(), testing::IsEmpty());
}

}  // namespace
}  // namespace adaptdl::worker
