#include "libs/service/server.h"
#include "libs/service/log_writer.h"

#include <fstream>
#include <string>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "tests/libs/service/server_fixture.h"

namespace adaptdl::service {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kUnary[] =
    "{grpc_method=\"ListNodes\",grpc_service=\"adaptdl.v1.NodeService\",grpc_type=\"unary\"}";
constexpr char kStream[] =
    "{grpc_method=\"Connect\",grpc_service=\"adaptdl.v1.NodeService\",grpc_type=\"bidi_stream\"}";

std::string Handled(const std::string& code, const std::string& method, const std::string& type = "unary") {
  return absl::StrCat("grpc_server_handled_total{grpc_code=\"", code, "\",grpc_method=\"", method,
                      "\",grpc_service=\"adaptdl.v1.NodeService\",grpc_type=\"", type, "\"}");
}

TEST_F(ServerTest, AnswersCallsAndHealthChecks) {
  Start();
  EXPECT_TRUE(ListNodes().ok());
  EXPECT_EQ(Health(""), 1);
  EXPECT_EQ(Health("adaptdl.v1.NodeService"), 1);
  EXPECT_EQ(Health("no.such.Service"), -1);
}

TEST_F(ServerTest, CountsCallsByMethodAndCodeWithLatencies) {
  Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ListNodes().ok());
  EXPECT_EQ(RemoveNode().error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string page = MetricsWhen([](const std::string& text) {
    return MetricValue(text, Handled("OK", "ListNodes")) == 3 &&
           MetricValue(text, Handled("NOT_FOUND", "RemoveNode")) == 1;
  });
  EXPECT_EQ(MetricValue(page, Handled("OK", "ListNodes")), 3);
  EXPECT_EQ(MetricValue(page, Handled("NOT_FOUND", "RemoveNode")), 1);
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_started_total", kUnary)), 3);
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_in_flight", kUnary)), 0);
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_handling_seconds_count", kUnary)), 3);
  EXPECT_GT(MetricValue(page, absl::StrCat("grpc_server_handling_seconds_sum", kUnary)), 0);
}

TEST_F(ServerTest, CountsStreamsAndTheirMessages) {
  Start();
  grpc::ClientContext context;
  auto stream = stub_->Connect(&context);
  v1::ConnectResponse response;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Write({}));
    ASSERT_TRUE(stream->Read(&response));
  }
  std::string page = FetchMetrics(server_->metrics_address());
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_in_flight", kStream)), 1);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  page = MetricsWhen([](const std::string& text) {
    return MetricValue(text, Handled("OK", "Connect", "bidi_stream")) == 1;
  });
  EXPECT_EQ(MetricValue(page, Handled("OK", "Connect", "bidi_stream")), 1);
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_in_flight", kStream)), 0);
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_msg_received_total", kStream)), 2);
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_msg_sent_total", kStream)), 2);
  EXPECT_EQ(MetricValue(page, absl::StrCat("grpc_server_handling_seconds_count", kStream)), -1);
}

TEST_F(ServerTest, ShowsItsResourcesItsBuildAndTheProgramsOwnMetrics) {
  Start();
  prometheus::BuildCounter()
      .Name("my_total")
      .Help("Mine.")
      .Register(*server_->metrics())
      .Add({})
      .Increment(7);
  const std::string page = FetchMetrics(server_->metrics_address());
  EXPECT_EQ(MetricValue(page, "my_total"), 7);
  EXPECT_THAT(page, HasSubstr("adaptdl_build_info{service=\"tester\",version=\""));
  EXPECT_GT(MetricValue(page, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(MetricValue(page, "process_cpu_seconds_total"), 0);
  EXPECT_GT(MetricValue(page, "process_open_fds"), 3);
  EXPECT_GE(MetricValue(page, "process_max_fds"), MetricValue(page, "process_open_fds"));
  EXPECT_GT(MetricValue(page, "process_threads"), 1);
  EXPECT_NEAR(MetricValue(page, "process_start_time_seconds"), absl::ToUnixSeconds(absl::Now()), 3600);
}

TEST_F(ServerTest, WritesItsAddresses) {
  options_.address_file = folder_ + "/address";
  std::ofstream(options_.address_file) << "127.0.0.1:1";  // of a former process
  Start();
  EXPECT_EQ(ReadWholeFile(options_.address_file).value(), server_->address());
  EXPECT_EQ(ReadWholeFile(options_.address_file + ".metrics").value(), server_->metrics_address());
}

TEST_F(ServerTest, TakesItsAddressesBackWhenItEnds) {
  options_.address_file = folder_ + "/address";
  Start();
  server_->Shutdown();
  server_->WaitForTermination();
  EXPECT_FALSE(std::filesystem::exists(options_.address_file));
  EXPECT_FALSE(std::filesystem::exists(options_.address_file + ".metrics"));
}

TEST_F(ServerTest, LeavesTheAddressOfASuccessor) {
  options_.address_file = folder_ + "/address";
  Start();
  std::ofstream(options_.address_file) << "127.0.0.1:1";
  server_->Shutdown();
  server_->WaitForTermination();
  EXPECT_EQ(ReadWholeFile(options_.address_file).value(), "127.0.0.1:1");
}

TEST_F(ServerTest, CanDoWithoutAMetricsPage) {
  options_.metrics_listen = "";
  options_.address_file = folder_ + "/address";
  Start();
  EXPECT_EQ(server_->metrics_address(), "");
  EXPECT_NE(server_->metrics(), nullptr);
  EXPECT_TRUE(ListNodes().ok());
  EXPECT_FALSE(std::filesystem::exists(options_.address_file + ".metrics"));
}

TEST_F(ServerTest, AnAddressFileThatCannotBeWrittenIsAnError) {
  options_.address_file = folder_ + "/missing/address";
  EXPECT_THAT(Server::Start(options_, {&service_}).status().ToString(), HasSubstr(options_.address_file));
}

TEST_F(ServerTest, RefusesMessagesThatAreTooLarge) {
  options_.max_message_bytes = 10'000;
  Start();
  EXPECT_EQ(ListNodes(20'000).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(ListNodes(5'000).ok());
}

TEST_F(ServerTest, APortInUseIsAClearError) {
  Start();
  ServerOptions second = options_;
  second.listen = server_->address();
  const absl::Status status = Server::Start(second, {&service_}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr(server_->address()), HasSubstr("Address already in use"), HasSubstr("--listen")));
}

TEST_F(ServerTest, WhatGrpcSaysStaysWithinTheLogsForm) {
  Start();
  ServerOptions second = options_;
  second.listen = server_->address();
  second.log_format = "json";
  second.log_level = "info";
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(Server::Start(second, {&service_}).ok());
  EXPECT_TRUE(log::Flush(absl::Seconds(30)));
  const std::string output = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, HasSubstr("\"grpc\":"));
  for (const absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    EXPECT_THAT(std::string(line), ::testing::StartsWith("{\"time\"")) << output;
  }
}

TEST_F(ServerTest, AMetricsPortInUseIsAClearError) {
  Start();
  ServerOptions second = options_;
  second.metrics_listen = server_->metrics_address();
  const absl::Status status = Server::Start(second, {&service_}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(server_->metrics_address()), HasSubstr("Address already in use"),
                    HasSubstr("--metrics-listen")));
}

TEST_F(ServerTest, WhatIsNoAddressIsRefused) {
  for (const std::string bad :
       {"", "localhost", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:http", ":7100", "::1:7100"}) {
    options_.listen = bad;
    const absl::Status status = Server::Start(options_, {&service_}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << ": " << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--listen"), HasSubstr("host:port")));
  }
}

TEST_F(ServerTest, AHostThatDoesNotExistIsAClearError) {
  options_.listen = "no-such-host.invalid:0";
  const absl::Status status = Server::Start(options_, {&service_}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-host.invalid"));
}

// UNIMPLEMENTED or not tells whether the service is there.
grpc::StatusCode CallReflection(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, absl::Seconds(10));
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag;
  bool ok;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  call->WritesDone(nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status.error_code();
}

TEST_F(ServerTest, ReflectionIsOffUnlessAskedFor) {
  Start();
  EXPECT_EQ(CallReflection(channel_), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(ServerTest, ReflectionIsServedWhenAskedFor) {
  options_.reflection = true;
  Start();
  EXPECT_EQ(CallReflection(channel_), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace adaptdl::service
