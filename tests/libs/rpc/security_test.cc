// Channels with TLS, against a real server with certificates of a real authority.

#include "libs/rpc/security.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/certificates.h"
#include "libs/rpc/channel.h"

namespace adaptdl::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers with who called: names of the certificate, and the token.
class MirrorService final : public v1::NodeService::Service {
  grpc::Status ListNodes(grpc::ServerContext* context, const v1::ListNodesRequest*,
                         v1::ListNodesResponse* response) override {
    for (const grpc::string_ref& name : context->auth_context()->FindPropertyValues("peer_uri"))
      response->add_nodes()->set_node_id(std::string(name.data(), name.size()));
    const auto token = context->client_metadata().find("authorization");
    if (token != context->client_metadata().end())
      response->set_next_page_token(std::string(token->second.data(), token->second.size()));
    return grpc::Status::OK;
  }
};

// A port that is given to nobody who asks for any, and that a server may be bound to.
class HeldPort {
 public:
  HeldPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    EXPECT_EQ(setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  ~HeldPort() { close(fd_); }

  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
};

class SecurityTest : public testing::Test {
 protected:
  SecurityTest() {
    std::string pattern = testing::TempDir() + "/adaptdl-security-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    MakeCertificates("cluster");
  }
  ~SecurityTest() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    std::filesystem::remove_all(folder_);
  }

  void MakeCertificates(const std::string& name) {
    const auto made = certificates::MakeCertificates({.folder = absl::StrCat(folder_, "/", name),
                                                      .identities = certificates::AllServices(),
                                                      .now = absl::Now()});
    ASSERT_TRUE(made.ok()) << made.status();
  }

  TlsFiles Files(const std::string& cluster, const std::string& service) {
    const std::string folder = absl::StrCat(folder_, "/", cluster, "/", service);
    return {.ca = folder + "/ca.pem", .certificate = folder + "/cert.pem", .key = folder + "/key.pem"};
  }

  void Serve(const std::string& address = "127.0.0.1:0") {
    const TlsFiles files = Files("cluster", "supervisor");
    grpc::experimental::TlsServerCredentialsOptions options(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(files.key, files.certificate,
                                                                             files.ca, 1));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::experimental::TlsServerCredentials(options), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  std::string ReadFile(const std::string& name) {
    return ReadWholeFile(absl::StrCat(folder_, "/", name)).value();
  }
  void WriteFile(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder_, "/", name), content).ok());
  }

  // Whether it comes true; gRPC looks at files now and then, and nothing tells when it has.
  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!condition()) {
      if (absl::Now() >= deadline) return false;
      poll(nullptr, 0, 100);
    }
    return true;
  }

  // Over a connection of its own.
  template <typename Security>
  grpc::Status Call(const Security& security, v1::ListNodesResponse* response) {
    const auto stub = v1::NodeService::NewStub(CreateChannel(address_, security));
    grpc::ClientContext context;
    SetTimeout(&context, absl::Seconds(20));
    return stub->ListNodes(&context, v1::ListNodesRequest(), response);
  }
  template <typename Security>
  grpc::Status Call(const Security& security) {
    v1::ListNodesResponse response;
    return Call(security, &response);
  }

  std::string folder_;
  MirrorService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(SecurityTest, AServiceProvesWhoItIs) {
  Serve();
  v1::ListNodesResponse response;
  const grpc::Status status =
      Call(ClientSecurity{.tls = Files("cluster", "allocator"), .token = "", .server_name = kSupervisorName},
           &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.nodes_size(), 1);
  EXPECT_EQ(response.nodes(0).node_id(), "spiffe://adaptdl/allocator");
}

TEST_F(SecurityTest, AUserHasATokenAndNoCertificate) {
  Serve();
  ClientSecurity security{.tls = {}, .token = "adaptdl_secret", .server_name = kSupervisorName};
  security.tls.ca = Files("cluster", "supervisor").ca;
  v1::ListNodesResponse response;
  const grpc::Status status = Call(security, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.next_page_token(), "Bearer adaptdl_secret");
  EXPECT_THAT(response.nodes(), IsEmpty());
}

TEST_F(SecurityTest, RefusesAServerOfAnotherAuthorityOrName) {
  Serve();
  MakeCertificates("other");
  ClientSecurity security{.tls = Files("other", "allocator"), .token = "t", .server_name = kSupervisorName};
  EXPECT_EQ(Call(security).error_code(), grpc::StatusCode::UNAVAILABLE);
  security.tls = Files("cluster", "allocator");
  EXPECT_TRUE(Call(security).ok());
  EXPECT_EQ(Call(ForServer(security, kAllocatorName)).error_code(), grpc::StatusCode::UNAVAILABLE);
  // Without a name, the address's host counts.
  EXPECT_EQ(Call(ForServer(security, "")).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SecurityTest, NeverFallsBackToPlaintext) {
  Serve();
  EXPECT_EQ(Call(Plaintext()).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(Call(ClientSecurity()).ok());
  ClientSecurity half{.tls = Files("cluster", "allocator"), .token = "", .server_name = kSupervisorName};
  half.tls.key = "";
  EXPECT_FALSE(Call(half).ok());
}

// Calls alone, with pauses between them, need not: the handshake then stands still until it times out.
TEST_F(SecurityTest, ACallerThatAwaitsTheConnectionReachesAServerThatWasAway) {
  // Nobody else is given the port while the server is away.
  const HeldPort port;
  Serve(port.address());
  const std::shared_ptr<grpc::Channel> channel = CreateChannel(
      address_,
      ClientSecurity{.tls = Files("cluster", "allocator"), .token = "", .server_name = kSupervisorName});
  const auto stub = v1::NodeService::NewStub(channel);
  const auto call = [&] {
    AwaitConnection(channel.get());
    grpc::ClientContext context;
    SetTimeout(&context, absl::Seconds(20));
    v1::ListNodesResponse response;
    return stub->ListNodes(&context, v1::ListNodesRequest(), &response).ok();
  };
  EXPECT_TRUE(call());
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  EXPECT_FALSE(call());
  EXPECT_FALSE(call());
  Serve(address_);
  EXPECT_TRUE(Eventually(call));
}

TEST_F(SecurityTest, SendsNoTokenInPlaintext) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
  v1::ListNodesResponse response;
  ClientSecurity security = Plaintext();
  security.token = "adaptdl_secret";
  ASSERT_TRUE(Call(security, &response).ok());
  EXPECT_EQ(response.next_page_token(), "");
}

// A new authority under a server that runs on, and clients that keep their credentials, in the steps that
// docs/security.md tells to take.
TEST_F(SecurityTest, TheAuthorityMayChangeWhileAServerAndClientsRun) {
  Serve();
  MakeCertificates("new");
  const auto credentials = [&](const std::string& name, const std::string& ca) {
    WriteFile(name, ca);
    ClientSecurity security{.tls = {}, .token = "", .server_name = kSupervisorName};
    security.tls.ca = absl::StrCat(folder_, "/", name);
    return MakeClientCredentials(security);
  };
  const std::string old_ca = ReadFile("cluster/ca.pem");
  const std::string new_ca = ReadFile("new/ca.pem");
  const ClientCredentials client = credentials("client-ca.pem", old_ca);
  const ClientCredentials newcomer = credentials("newcomer-ca.pem", new_ca);
  const ClientCredentials straggler = credentials("straggler-ca.pem", old_ca);
  EXPECT_TRUE(Call(client).ok());
  EXPECT_FALSE(Call(newcomer).ok());

  WriteFile("client-ca.pem", old_ca + new_ca);
  for (const char* file : {"key.pem", "cert.pem"}) {
    WriteFile(absl::StrCat("cluster/supervisor/", file), ReadFile(absl::StrCat("new/supervisor/", file)));
  }
  EXPECT_TRUE(Eventually([&] { return Call(newcomer).ok(); })) << "the server keeps its old certificate";
  EXPECT_TRUE(Eventually([&] { return Call(client).ok(); })) << "the client keeps its old authority";
  EXPECT_FALSE(Call(straggler).ok());
  WriteFile("client-ca.pem", new_ca);
  EXPECT_TRUE(Call(client).ok());
}

TEST_F(SecurityTest, SaysWhatIsWrongWithAFile) {
  EXPECT_TRUE(CheckClientSecurity(Plaintext()).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckClientSecurity({})));
  TlsFiles files = Files("cluster", "worker");
  EXPECT_TRUE(CheckTlsFiles(files).ok());
  files.key = Files("cluster", "allocator").key;
  EXPECT_THAT(std::string(CheckTlsFiles(files).message()), HasSubstr("does not belong to the key"));
  files.key = folder_ + "/missing";
  EXPECT_TRUE(absl::IsNotFound(CheckTlsFiles(files)));
  EXPECT_THAT(std::string(CheckTlsFiles(files).message()), HasSubstr("/missing"));
  files.key = "";
  EXPECT_TRUE(absl::IsInvalidArgument(CheckTlsFiles(files)));
  files = {.ca = folder_ + "/text", .certificate = "", .key = ""};
  std::ofstream(files.ca) << "no PEM";
  EXPECT_THAT(std::string(CheckTlsFiles(files).message()), HasSubstr("no certificate in PEM"));
}

}  // namespace
}  // namespace adaptdl::rpc
