// The gateway over real HTTP, against a made-up supervisor.

#include "libs/dashboard/gateway.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "adaptdl/v1/admin_service.grpc.pb.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "libs/dashboard/access.h"
#include "libs/http/http_client.h"
#include "libs/rpc/channel.h"
#include "nlohmann/json.hpp"

namespace adaptdl::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// Knows the job "default/job"; nobody may see the namespace "other".
class SomeJobs final : public v1::JobService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    if (request->namespace_() == "other")
      return {grpc::StatusCode::PERMISSION_DENIED, "namespace other is not yours"};
    if (request->name() != "job") return {grpc::StatusCode::NOT_FOUND, "no such job"};
    *response->mutable_job() = job();
    return grpc::Status::OK;
  }
  grpc::Status WatchJobs(grpc::ServerContext* context, const v1::WatchJobsRequest* request,
                         grpc::ServerWriter<v1::WatchJobsResponse>* writer) override {
    if (request->namespace_() == "other")
      return {grpc::StatusCode::PERMISSION_DENIED, "namespace other is not yours"};
    v1::WatchJobsResponse response;
    *response.mutable_job() = job();
    writer->Write(response);
    response.Clear();
    response.set_initial_list_done(true);
    writer->Write(response);
    return context->IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse*) override {
    cancelled.push_back(request->name());
    return request->request_id().empty() ? grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no id")
                                         : grpc::Status::OK;
  }
  grpc::Status UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest* request,
                         v1::UpdateJobResponse*) override {
    scaled.push_back(
        absl::StrCat(request->name(), " ", request->min_replicas(), "-", request->max_replicas()));
    return grpc::Status::OK;
  }

  static v1::Job job() {
    v1::Job job;
    job.set_namespace_("default");
    job.set_name("job");
    job.set_uid("uid");
    return job;
  }

  std::vector<std::string> cancelled;
  std::vector<std::string> scaled;
};

class SomeAdmin final : public v1::AdminService::Service {
  grpc::Status WhoAmI(grpc::ServerContext*, const v1::WhoAmIRequest*, v1::WhoAmIResponse* response) override {
    response->set_name("ann");
    response->set_role("user");
    return grpc::Status::OK;
  }
};

class GatewayTest : public testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&jobs_);
    builder.RegisterService(&admin_);
    grpc_ = builder.BuildAndStart();
    const auto channel = rpc::CreateChannel(absl::StrCat("127.0.0.1:", port), rpc::Plaintext());
    gateway_ = std::make_unique<Gateway>(GatewayOptions{.channel = [channel] { return channel; }}, &access_);
    auto server = httpd::HttpServer::Start(
        {.listen = "127.0.0.1:0"},
        [this](const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange) {
          gateway_->Handle(request, std::move(exchange));
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    access_.set_port(server_->port());
  }
  void TearDown() override {
    server_.reset();
    gateway_.reset();
  }

  adaptdl::HttpResponse Send(const std::string& method, const std::string& path,
                             std::vector<std::string> headers) {
    const auto answer = adaptdl::HttpClient().Send({.method = method,
                                                    .url = absl::StrCat("http://", server_->address(), path),
                                                    .headers = std::move(headers),
                                                    .direct = true});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(adaptdl::HttpResponse());
  }
  // Has exchanged the key.
  std::string Cookie() {
    if (cookie_.empty()) {
      const auto answer = Send("GET", "/?" + access_.Query(), {});
      EXPECT_EQ(answer.status, 303);
      const std::string set = answer.headers.at("set-cookie");
      EXPECT_THAT(set, HasSubstr("HttpOnly; SameSite=Strict"));
      cookie_ = "Cookie: " + std::string(set.substr(0, set.find(';')));
    }
    return cookie_;
  }
  adaptdl::HttpResponse Get(const std::string& path) { return Send("GET", path, {Cookie()}); }
  adaptdl::HttpResponse Post(const std::string& path, std::vector<std::string> headers) {
    headers.push_back(Cookie());
    return Send("POST", path, std::move(headers));
  }

  SomeJobs jobs_;
  SomeAdmin admin_;
  std::unique_ptr<grpc::Server> grpc_;
  Access access_;
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<httpd::HttpServer> server_;
  std::string cookie_;
};

TEST_F(GatewayTest, TheKeyIsGoodForOneBrowser) {
  EXPECT_EQ(Send("GET", "/", {}).status, 403);
  EXPECT_EQ(Send("GET", "/api/session", {}).status, 403);
  EXPECT_EQ(Send("GET", "/?key=guessed", {}).status, 403);
  EXPECT_EQ(Get("/").status, 200);
  EXPECT_EQ(Send("GET", "/?" + access_.Query(), {}).status, 403);
  EXPECT_EQ(Send("GET", "/api/session", {"Cookie: adaptdl_12345678=guessed"}).status, 403);
}

TEST_F(GatewayTest, OtherNamesOfThisMachineAreRefused) {
  EXPECT_EQ(Send("GET", "/?" + access_.Query(), {"Host: evil.example"}).status, 421);
  EXPECT_EQ(Send("GET", "/", {Cookie(), absl::StrCat("Host: evil.example:", server_->port())}).status, 421);
  EXPECT_EQ(Send("GET", "/", {Cookie(), absl::StrCat("Host: LocalHost:", server_->port())}).status, 200);
}

TEST_F(GatewayTest, FilesAreStrictAndKnownByTheirContent) {
  const auto page = Get("/");
  EXPECT_THAT(page.headers.at("content-security-policy"), HasSubstr("default-src 'none'; script-src 'self'"));
  EXPECT_EQ(page.headers.at("x-content-type-options"), "nosniff");
  EXPECT_THAT(page.body, HasSubstr("<title>AdaptDL</title>"));
  EXPECT_THAT(page.body, Not(HasSubstr("https://")));
  const auto again = Send("GET", "/", {Cookie(), "If-None-Match: " + page.headers.at("etag")});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(page.headers.at("cache-control"), "no-cache");
  const size_t begin = page.body.find("src=\"/") + 5;
  const std::string script = page.body.substr(begin, page.body.find('"', begin) - begin);
  EXPECT_THAT(script, MatchesRegex("/[0-9a-f]+/app.js"));
  const auto packed = Send("GET", script, {Cookie(), "Accept-Encoding: gzip"});
  EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
  EXPECT_THAT(packed.headers.at("cache-control"), HasSubstr("immutable"));
  EXPECT_EQ(Get("/app.js").status, 404);  // what it says could change
  EXPECT_EQ(Get("/../etc/passwd").status, 404);
}

TEST_F(GatewayTest, AnswersAreTheCallersOwn) {
  const auto job = Get("/api/job?namespace=default&name=job");
  EXPECT_EQ(job.status, 200);
  EXPECT_EQ(job.headers.at("cache-control"), "no-store");
  EXPECT_EQ(nlohmann::json::parse(job.body).at("uid"), "uid");
  EXPECT_EQ(Get("/api/job?namespace=other&name=job").status, 403);
  EXPECT_EQ(Get("/api/job?namespace=default&name=none").status, 404);
  // One that an older supervisor does not have.
  const auto history = Get("/api/history?name=job");
  EXPECT_EQ(history.status, 501);
  EXPECT_EQ(nlohmann::json::parse(history.body).at("code"), "UNIMPLEMENTED");
  EXPECT_EQ(Get("/api/secrets").status, 404);
}

TEST_F(GatewayTest, StreamsJobs) {
  const auto stream = Get("/api/jobs?namespace=default");
  EXPECT_EQ(stream.headers.at("content-type"), "text/event-stream");
  EXPECT_THAT(stream.body, HasSubstr("event: jobs\ndata: {"));
  EXPECT_THAT(stream.body, HasSubstr("\"initial\":true"));
  EXPECT_THAT(Get("/api/jobs?namespace=other").body,
              HasSubstr("event: end\ndata: {\"code\":\"PERMISSION_DENIED\""));
}

TEST_F(GatewayTest, ChangesNeedThePagesToken) {
  const std::string token = "X-Adaptdl-Token: " + access_.token();
  EXPECT_EQ(nlohmann::json::parse(Get("/api/session").body).at("token"), access_.token());
  EXPECT_EQ(Post("/api/cancel?name=job", {}).status, 403);
  EXPECT_EQ(Post("/api/cancel?name=job", {"X-Adaptdl-Token: guessed"}).status, 403);
  EXPECT_EQ(Post("/api/cancel?name=job", {token, "Sec-Fetch-Site: cross-site"}).status, 403);
  EXPECT_EQ(Send("POST", "/api/cancel?name=job", {token}).status, 403);
  EXPECT_EQ(Get("/api/cancel?name=job").status, 404);
  EXPECT_TRUE(jobs_.cancelled.empty());
  EXPECT_EQ(Post("/api/cancel?name=job", {token, "Sec-Fetch-Site: same-origin"}).status, 200);
  EXPECT_THAT(jobs_.cancelled, testing::ElementsAre("job"));
  EXPECT_EQ(Post("/api/scale?name=job&min=1&max=%34", {token}).status, 200);
  EXPECT_THAT(jobs_.scaled, testing::ElementsAre("job 1-4"));
  EXPECT_EQ(Post("/api/scale?name=job&min=x&max=", {token}).status, 400);
}

TEST_F(GatewayTest, ASupervisorThatHasGoneIsSaidSo) {
  grpc_->Shutdown();
  EXPECT_EQ(Get("/api/session").status, 503);
  EXPECT_THAT(Get("/api/jobs").body, HasSubstr("event: end\ndata: {\"code\":\"UNAVAILABLE\""));
}

}  // namespace
}  // namespace adaptdl::dashboard
