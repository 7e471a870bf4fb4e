// How a server ends.

#include <signal.h>

#include <future>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/libs/service/server_fixture.h"

namespace adaptdl::service {
namespace {

class ServerDrainTest : public ServerTest {
 protected:
  void TearDown() override {
    if (waiter_.joinable()) waiter_.join();
  }

  // Waits for the end in a thread of its own, as main() does; `draining_` is set when it begins.
  void WaitForTermination() {
    server_->OnDrain([this] { draining_.set_value(); });
    waiter_ = std::thread([this] { server_->WaitForTermination(); });
  }

  std::promise<void> draining_;
  std::thread waiter_;
};

TEST_F(ServerDrainTest, SigtermEndsIt) {
  Start();
  WaitForTermination();
  kill(getpid(), SIGTERM);
  draining_.get_future().wait();
  waiter_.join();
  EXPECT_EQ(ListNodes().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerDrainTest, SigintEndsIt) {
  Start();
  WaitForTermination();
  kill(getpid(), SIGINT);
  draining_.get_future().wait();
}

TEST_F(ServerDrainTest, ASignalBeforeTheWaitIsNotLost) {
  Start();
  kill(getpid(), SIGTERM);
  WaitForTermination();
  draining_.get_future().wait();
}

TEST_F(ServerDrainTest, CallsInProgressFinish) {
  options_.drain_timeout = absl::Minutes(1);
  Start();
  WaitForTermination();
  auto call = std::async(std::launch::async, [this] { return DrainNode(); });
  TestService::HeldCall* held = service_.WaitForHeldCall();
  server_->Shutdown();
  draining_.get_future().wait();
  held->Release(grpc::Status::OK);
  EXPECT_TRUE(call.get().ok());
}

TEST_F(ServerDrainTest, CallsOverTheLimitAreCancelled) {
  options_.drain_timeout = absl::Milliseconds(20);
  Start();
  WaitForTermination();
  auto call = std::async(std::launch::async, [this] { return DrainNode(); });
  service_.WaitForHeldCall();
  server_->Shutdown();
  EXPECT_FALSE(call.get().ok());  // and WaitForTermination() returns
}

TEST_F(ServerDrainTest, TheEndOfCallsCanBeBroughtAboutByTheDrainCallback) {
  options_.drain_timeout = absl::Minutes(1);
  Start();
  auto call = std::async(std::launch::async, [this] { return DrainNode(); });
  TestService::HeldCall* held = service_.WaitForHeldCall();
  server_->OnDrain([held] { held->Release(grpc::Status(grpc::StatusCode::UNAVAILABLE, "reconnect")); });
  server_->Shutdown();
  server_->WaitForTermination();
  EXPECT_EQ(call.get().error_message(), "reconnect");
}

TEST_F(ServerDrainTest, SaysNotServingWhileItDrains) {
  options_.drain_timeout = absl::Minutes(1);
  Start();
  ASSERT_EQ(Health(""), 1);
  int health = -2;
  // Health is answered until the drain callback returns: only then are new calls refused.
  server_->OnDrain([&] { health = Health(""); });
  server_->Shutdown();
  server_->WaitForTermination();
  EXPECT_EQ(health, 2);
}

TEST_F(ServerDrainTest, CanBeDestroyedWithoutAWait) {
  Start();
  auto call = std::async(std::launch::async, [this] { return DrainNode(); });
  service_.WaitForHeldCall();
  server_.reset();
  EXPECT_FALSE(call.get().ok());
}

}  // namespace
}  // namespace adaptdl::service
