// A real server on free ports with a service to call, for tests.

#ifndef ADAPTDL_TESTS_LIBS_SERVICE_SERVER_FIXTURE_H_
#define ADAPTDL_TESTS_LIBS_SERVICE_SERVER_FIXTURE_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/rpc/channel.h"
#include "libs/service/server.h"
#include "libs/service/termination.h"

namespace adaptdl::service {

// ListNodes answers at once with its page token, RemoveNode with NOT_FOUND, DrainNode when it is released, Connect echoes.
class TestService final : public v1::NodeService::CallbackService {
 public:
  // Ends when released or cancelled, whichever comes first.
  class HeldCall final : public grpc::ServerUnaryReactor {
   public:
    void Release(grpc::Status status) {
      {
        MutexLock lock(&mutex_);
        if (std::exchange(finished_, true)) return;
      }
      Finish(std::move(status));
    }
    void OnCancel() override { Release(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }

   private:
    Mutex mutex_;
    bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  };

  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context,
                                      const v1::ListNodesRequest* request,
                                      v1::ListNodesResponse* response) override {
    response->add_nodes()->set_node_id("n1");
    response->set_next_page_token(request->page_token());
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* RemoveNode(grpc::CallbackServerContext* context, const v1::RemoveNodeRequest*,
                                       v1::RemoveNodeResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "no such node"));
    return reactor;
  }

  grpc::ServerUnaryReactor* DrainNode(grpc::CallbackServerContext*, const v1::DrainNodeRequest*,
                                      v1::DrainNodeResponse*) override {
    auto* call = new HeldCall;
    MutexLock lock(&mutex_);
    held_ = call;
    arrived_.SignalAll();
    return call;
  }

  grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* Connect(
      grpc::CallbackServerContext*) override {
    class Echo final : public grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse> {
     public:
      Echo() { StartRead(&request_); }
      void OnReadDone(bool ok) override { ok ? StartWrite(&response_) : Finish(grpc::Status::OK); }
      void OnWriteDone(bool ok) override {
        if (ok) StartRead(&request_);
      }
      void OnDone() override { delete this; }

     private:
      v1::ConnectRequest request_;
      v1::ConnectResponse response_;
    };
    return new Echo;
  }

  // Blocks until DrainNode was called.
  HeldCall* WaitForHeldCall() {
    MutexLock lock(&mutex_);
    while (held_ == nullptr) arrived_.Wait(&mutex_);
    return held_;
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  HeldCall* held_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// The body of http://ADDRESS/metrics, or an empty string.
inline std::string FetchMetrics(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string page;
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) == 0 &&
      send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    ssize_t count;
    while ((count = recv(fd, buffer, sizeof(buffer), 0)) > 0) page.append(buffer, count);
  }
  close(fd);
  return page;
}

// Value of a line that begins with `series`, or -1.
inline double MetricValue(const std::string& page, const std::string& series) {
  const size_t start = page.find("\n" + series + " ");
  if (start == std::string::npos) return -1;
  return std::atof(page.c_str() + start + series.size() + 2);
}

class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { BlockTerminationSignals(); }

  ServerTest() {
    options_.name = "tester";
    options_.listen = "127.0.0.1:0";
    options_.metrics_listen = "127.0.0.1:0";
    options_.log_level = "error";
    options_.security.insecure = true;
    options_.security.insecure_anywhere = true;
    char folder[] = "/tmp/adaptdl-server-XXXXXX";
    folder_ = mkdtemp(folder);
  }

  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    auto server = Server::Start(options_, {&service_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = rpc::CreateChannel(server_->address(), rpc::Plaintext());
    stub_ = v1::NodeService::NewStub(channel_);
  }

  // 0 unknown, 1 serving, 2 not serving; -1: the call failed. By hand, as the packaged gRPC has no stub of
  // its health protocol: a request is {string service = 1}, a response {enum status = 1}.
  int Health(const std::string& service) {
    std::string request;
    if (!service.empty())
      request = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
    grpc::Slice slice(request);
    grpc::ByteBuffer out(&slice, 1), in;
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(10));
    grpc::CompletionQueue queue;
    grpc::GenericStub stub(channel_);
    auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", out, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&in, &status, this);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    if (!status.ok()) return -1;
    grpc::Slice answer;
    in.DumpToSingleSlice(&answer);
    return answer.size() == 2 ? answer.begin()[1] : 0;
  }

  grpc::Status ListNodes(int padding = 0) {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(10));
    v1::ListNodesRequest request;
    request.set_page_token(std::string(padding, 'x'));
    v1::ListNodesResponse response;
    return stub_->ListNodes(&context, request, &response);
  }

  grpc::Status RemoveNode() {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(10));
    v1::RemoveNodeResponse response;
    return stub_->RemoveNode(&context, {}, &response);
  }

  // Without deadline: it ends when the service or the server ends it.
  grpc::Status DrainNode() {
    grpc::ClientContext context;
    v1::DrainNodeResponse response;
    return stub_->DrainNode(&context, {}, &response);
  }

  // Fetches /metrics until `done` accepts it: what the server notes at a call's end, it may note after the
  // caller has its answer.
  std::string MetricsWhen(const std::function<bool(const std::string&)>& done) {
    std::string page;
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    do {
      page = FetchMetrics(server_->metrics_address());
    } while (!done(page) && absl::Now() < limit);
    return page;
  }

  ServerOptions options_;
  TestService service_;
  std::string folder_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::NodeService::Stub> stub_;
};

}  // namespace adaptdl::service

#endif  // ADAPTDL_TESTS_LIBS_SERVICE_SERVER_FIXTURE_H_
