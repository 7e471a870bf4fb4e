#include "libs/rpc/channel.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace adaptdl::rpc {
namespace {

// Answers with as many bytes as asked for.
class LargeService final : public v1::NodeService::Service {
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest* request,
                         v1::ListNodesResponse* response) override {
    response->set_next_page_token(std::string(request->page_size(), 'x'));
    return grpc::Status::OK;
  }
};

grpc::Status Call(const std::string& address, int bytes, absl::Duration timeout = absl::Seconds(20)) {
  const auto stub = v1::NodeService::NewStub(CreateChannel(address, Plaintext()));
  grpc::ClientContext context;
  SetTimeout(&context, timeout);
  v1::ListNodesRequest request;
  request.set_page_size(bytes);
  v1::ListNodesResponse response;
  return stub->ListNodes(&context, request, &response);
}

TEST(ChannelTest, TakesMessagesUpToTheLimit) {
  LargeService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  EXPECT_TRUE(Call(address, kMaxMessageBytes - 100).ok());
  EXPECT_EQ(Call(address, kMaxMessageBytes + 100).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(ChannelTest, AServerThatIsAwayIsUnavailable) {
  // Port 1 needs root to listen on, and nobody does.
  EXPECT_EQ(Call("127.0.0.1:1", 0).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ChannelTest, AwaitsTheConnection) {
  LargeService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = CreateChannel(absl::StrCat("127.0.0.1:", port), Plaintext());
  AwaitConnection(channel.get());
  EXPECT_EQ(channel->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
}

TEST(ChannelTest, AwaitsNoLongerThanTheAttempt) {
  const auto channel = CreateChannel("127.0.0.1:1", Plaintext());
  AwaitConnection(channel.get());
  EXPECT_EQ(channel->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_TRANSIENT_FAILURE);
}

TEST(ChannelTest, AProxyInTheEnvironmentIsNotUsed) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("grpc_proxy", "http://127.0.0.1:1", 1);
  LargeService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  EXPECT_TRUE(Call(absl::StrCat("127.0.0.1:", port), 1).ok());
  unsetenv("http_proxy");
  unsetenv("grpc_proxy");
}

}  // namespace
}  // namespace adaptdl::rpc
