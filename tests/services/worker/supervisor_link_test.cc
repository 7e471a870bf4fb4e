// The link among several supervisors.

#include "services/worker/supervisor_link.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/services/worker/fake_supervisor.h"

namespace adaptdl::worker {
namespace {

class FakeNode final : public LinkHandler {
 public:
  std::vector<v1::ReplicaReport> Inventory() override { return {}; }
  std::vector<v1::ReplicaReport> Unacknowledged() override { return {}; }
  std::vector<int> FreePorts() override { return {}; }
  std::optional<v1::MachineUse> Use() override { return std::nullopt; }
  void OnCommand(const v1::ConnectResponse& command) override {
    MutexLock lock(&mutex_);
    commands_.push_back(command);
    changed_.SignalAll();
  }
  v1::ConnectResponse NextCommand() {
    MutexLock lock(&mutex_);
    while (commands_.empty()) changed_.Wait(&mutex_);
    v1::ConnectResponse command = commands_.front();
    commands_.erase(commands_.begin());
    return command;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<v1::ConnectResponse> commands_;
};

class SupervisorLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    a_.Start();
    b_.Start();
    a_.SetTerm(5);
    b_.SetTerm(6);
  }
  void TearDown() override {
    link_.reset();
    a_.Stop();
    b_.Stop();
  }

  void Connect() {
    SupervisorLink::Options options;
    options.node.set_node_id("n");
    options.initial_backoff = absl::Milliseconds(5);
    options.answer_timeout = absl::Milliseconds(200);
    link_ = std::make_unique<SupervisorLink>(
        options,
        std::make_unique<rpc::Endpoints>(std::vector<std::string>{a_.address(), b_.address()},
                                         rpc::Plaintext()),
        &node_);
    link_->Start();
  }

  FakeSupervisor a_;
  FakeSupervisor b_;
  FakeNode node_;
  std::unique_ptr<SupervisorLink> link_;
};

TEST_F(SupervisorLinkTest, StaysWithTheOneThatAnswers) {
  a_.SetAnswers(true);
  Connect();
  ASSERT_TRUE(a_.TakeHello().has_value());
  ASSERT_TRUE(a_.WaitForHeartbeats(10));
  EXPECT_TRUE(link_->connected());
  // Answers are the link's own affair; commands are the node's.
  a_.Acknowledge("r");
  EXPECT_EQ(node_.NextCommand().acknowledge().replica_id(), "r");
}

TEST_F(SupervisorLinkTest, GoesOnToTheNextWhenOneEnds) {
  Connect();
  ASSERT_TRUE(a_.TakeHello().has_value());
  a_.Stop();
  EXPECT_TRUE(b_.TakeHello().has_value());
}

TEST_F(SupervisorLinkTest, LeavesOneThatDoesNotAnswerHeartbeats) {
  a_.SetAnswers(true);
  Connect();
  ASSERT_TRUE(a_.TakeHello().has_value());
  ASSERT_TRUE(a_.WaitForHeartbeats(2));
  a_.SetAnswers(false);
  EXPECT_TRUE(b_.TakeHello().has_value());
}

TEST_F(SupervisorLinkTest, SaysThatItGoesAwayWheneverItRegisters) {
  Connect();
  ASSERT_TRUE(a_.TakeHello().has_value());
  link_->AnnouncePreemption(v1::PreemptionNotice());
  ASSERT_TRUE(a_.WaitForNotice());
  a_.Stop();
  EXPECT_TRUE(b_.WaitForLeavingRegistration());
}

TEST_F(SupervisorLinkTest, RegistersAgainAtTheSameOneWhenTheOfferChanges) {
  Connect();
  ASSERT_TRUE(a_.TakeHello().has_value());
  EXPECT_EQ(a_.TakeRegistration()->capacity().gpus(), 0);
  link_->Offer(7, {"GPU-a: lost"});
  const auto node = a_.TakeRegistration();
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ(node->node_id(), "n");
  EXPECT_EQ(node->capacity().gpus(), 7);
  ASSERT_EQ(node->problems_size(), 1);
  EXPECT_EQ(node->problems(0), "GPU-a: lost");
  ASSERT_TRUE(a_.TakeHello().has_value());
  // It stays so, wherever the node registers next.
  a_.Stop();
  EXPECT_EQ(b_.TakeRegistration()->capacity().gpus(), 7);
}

TEST_F(SupervisorLinkTest, ExpectsNoAnswersFromAnOlderVersion) {
  a_.SetTerm(0);
  Connect();
  ASSERT_TRUE(a_.TakeHello().has_value());
  // Longer than it would wait for an answer.
  ASSERT_TRUE(a_.WaitForHeartbeats(20));
  EXPECT_TRUE(link_->connected());
}

TEST_F(SupervisorLinkTest, RefusesATermThatIsOver) {
  b_.SetTerm(4);
  Connect();
  ASSERT_TRUE(a_.TakeHello().has_value());
  a_.Stop();
  // Each time it is tried, and said no to.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(b_.TakeRegistration().has_value());
  b_.SetTerm(6);
  EXPECT_TRUE(b_.TakeHello().has_value());
  EXPECT_TRUE(b_.TakeRegistration().has_value());
}

}  // namespace
}  // namespace adaptdl::worker
