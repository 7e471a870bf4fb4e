// Streams that anybody may open, and that do not say whose they are.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

class SilentStreamsTest : public ClusterTest {
 protected:
  SilentStreamsTest() {
    options_.cluster.heartbeat_period = absl::Hours(10);  // The workers of these tests say nothing else.
    options_.strangers.most = 4;
  }

  // The status with which the supervisor ends the stream, while time goes on.
  grpc::Status EndOf(Heart* heart) {
    grpc::Status status;
    std::atomic<bool> ended = false;
    std::thread reader([&] {
      status = heart->End();
      ended = true;
    });
    for (int i = 0; i < 1'000'000 && !ended; ++i) Advance(absl::Milliseconds(100));
    reader.join();
    return status;
  }
};

TEST_F(SilentStreamsTest, AReplicaThatDoesNotSayWhoItIsIsSentAway) {
  Heart silent(replicas_.get(), {}, "whatever");
  EXPECT_EQ(EndOf(&silent).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(SilentStreamsTest, AWorkerThatDoesNotSayWhoItIsIsSentAway) {
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = nodes_->Connect(&context);
  grpc::Status status;
  std::atomic<bool> ended = false;
  std::thread reader([&] {
    v1::ConnectResponse response;
    EXPECT_FALSE(stream->Read(&response));
    status = stream->Finish();
    ended = true;
  });
  for (int i = 0; i < 1'000'000 && !ended; ++i) Advance(absl::Milliseconds(100));
  reader.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_NE(status.error_message().find("say first who you are"), std::string::npos);
}

TEST_F(SilentStreamsTest, ManyThatSayNothingKeepNobodyOutWhoSpeaks) {
  const auto n1 = AddWorker("n1");
  Allocate(Submit(NewJob("a")), {"n1"});
  const v1::LaunchReplica launch = n1->NextLaunch();
  n1->Running(launch);
  Heart speaks(replicas_.get(), IdentityOf(launch), launch.token());
  speaks.BeatWithoutProgress();
  EXPECT_EQ(speaks.Next().command(), v1::REPLICA_COMMAND_NONE);
  std::vector<std::unique_ptr<Heart>> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<Heart>(replicas_.get(), v1::ReplicaIdentity(), "whatever"));
  }
  // The first ones that came, which need not be the first that were sent.
  EXPECT_TRUE(std::any_of(silent.begin(), silent.end(), [](const std::unique_ptr<Heart>& stream) {
    return stream->Close().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }));
  // One that has spoken is not among them, and others find a place.
  Advance(absl::Minutes(1));
  speaks.BeatWithoutProgress();
  EXPECT_TRUE(speaks.Close().ok());
  Heart next(replicas_.get(), IdentityOf(launch), launch.token());
  next.BeatWithoutProgress();
  EXPECT_TRUE(next.Close().ok());
}

}  // namespace
}  // namespace adaptdl::supervisor
