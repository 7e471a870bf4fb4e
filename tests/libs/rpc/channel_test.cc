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

// A LargeService without TLS, on a free port of loopback.
struct PlaintextServer {
  PlaintextServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    address = absl::StrCat("127.0.0.1:", port);
  }

  LargeService service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
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
  const PlaintextServer server;
  EXPECT_TRUE(Call(server.address, kMaxMessageBytes - 100).ok());
  EXPECT_EQ(Call(server.address, kMaxMessageBytes + 100).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(ChannelTest, AServerThatIsAwayIsUnavailable) {
  // Port 1 needs root to listen on, and nobody does.
  EXPECT_EQ(Call("127.0.0.1:1", 0).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ChannelTest, AwaitsTheConnection) {
  const PlaintextServer server;
  const auto channel = CreateChannel(server.address, Plaintext());
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
  const PlaintextServer server;
  EXPECT_TRUE(Call(server.address, 1).ok());
  unsetenv("http_proxy");
  unsetenv("grpc_proxy");
}

}  // namespace
}  // namespace adaptdl::rpc
