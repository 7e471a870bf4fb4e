// What AdaptDL's Python package asks over HTTP, as it was recorded from the real client (recorded/record.py),
// and what nobody should.

#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/http_client.h"

namespace adaptdl::supervisor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kHints[] =
    R"({"initBatchSize": 64, "localBszBounds": [16, 128], "globalBatchSize": null, "maxBatchSize": 256,
        "maxProfiledReplicas": 2, "gradientAccumulation": true, "gradParams": {"norm": 0.5, "var": 2.5},
        "perfParams": {"alpha_c": 0.01, "beta_c": 0.001, "alpha_n": 0.02, "beta_n": 0.003, "alpha_r": 0.004,
                       "beta_r": 0.005, "gamma": 1.5}})";

int ThreadsOfThisProcess() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

class AdaptdlHttpTest : public ClusterTest {
 protected:
  void SetUp() override {
    options_.cluster.heartbeat_period = absl::Hours(1);  // The clock goes on, and the workers say nothing.
    ClusterTest::SetUp();
    http_options_.listen = "127.0.0.1:0";
    const absl::Status status = supervisor_->ServeHttp(http_options_);
    ASSERT_TRUE(status.ok()) << status;
    const std::string address = supervisor_->http_address();
    ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port_));
  }

  std::unique_ptr<FakeWorker> AddNode(const std::string& id, const std::vector<int>& ports) {
    auto worker = std::make_unique<FakeWorker>(channel_, id);
    worker->node()->set_replica_host(absl::StrCat(id, ".test"));
    EXPECT_TRUE(worker->Register().ok());
    worker->Connect({}, ports);
    return worker;
  }

  // A job with two replicas, on nodes "a" and "b", that run.
  void StartPair(const std::string& name) {
    a_ = AddNode("a", {20001, 20002});
    b_ = AddNode("b", {20003});
    Allocate(Submit(NewJob(name)), {"a", "b"});
    first_ = a_->NextLaunch();
    second_ = b_->NextLaunch();
    a_->Running(first_);
    b_->Running(second_);
    WaitForPhase(name, v1::JOB_PHASE_RUNNING);
  }

  // The path that a replica's URL begins with.
  static std::string PathOf(const v1::LaunchReplica& launch) {
    const std::string& url = launch.adaptdl_http().supervisor_url();
    return url.substr(url.find('/', url.find("://") + 3));
  }
  static std::string Discover(const v1::LaunchReplica& launch, const std::string& job = "job") {
    return absl::StrCat(PathOf(launch), "/discover/default/", job, "/", launch.num_restarts());
  }
  static std::string HintsPath(const v1::LaunchReplica& launch) {
    return absl::StrCat(PathOf(launch), "/hints/default/job");
  }

  HttpAnswer Ask(const std::string& method, const std::string& path, const std::string& body = "") {
    HttpClient client(port_);
    client.Request(method, path, body);
    return client.Answer();
  }
  // Returns when the server has taken all requests that were sent before: it takes them in rounds, in each
  // all that are there.
  void TakeAll() {
    for (int round = 0; round < 2; ++round) EXPECT_EQ(Ask("GET", "/healthz").status, 200);
  }
  v1::Hints StoredHints() {
    Advance(absl::Seconds(1));
    return Get("job").status().hints();
  }

  // What was recorded, for the job and secret of this replica.
  static json Recorded(const std::string& kind, const v1::LaunchReplica& launch) {
    const auto text = ReadWholeFile(
        absl::StrCat(ADAPTDL_SOURCE_DIR, "/tests/services/supervisor/recorded/", kind, ".json"));
    EXPECT_TRUE(text.ok()) << text.status();
    json recorded = json::parse(*text);
    recorded["request"] =
        absl::StrReplaceAll(recorded["request"].get<std::string>(),
                            {{"/SECRET/0", PathOf(launch)}, {"default/recorded", "default/job"}});
    return recorded;
  }

  httpd::HttpServerOptions http_options_;
  int port_ = 0;
  std::unique_ptr<FakeWorker> a_;
  std::unique_ptr<FakeWorker> b_;
  v1::LaunchReplica first_;
  v1::LaunchReplica second_;
};

TEST_F(AdaptdlHttpTest, IsHealthy) { EXPECT_EQ(Ask("GET", "/healthz").status, 200); }

TEST_F(AdaptdlHttpTest, LaunchesTellUrlAndPort) {
  StartPair("job");
  const std::string url = absl::StrCat("http://:", port_, "/");
  EXPECT_THAT(first_.adaptdl_http().supervisor_url(), testing::StartsWith(url));
  EXPECT_NE(first_.adaptdl_http().supervisor_url(), second_.adaptdl_http().supervisor_url());
  // Only what the worker told was free; the same for all members.
  EXPECT_EQ(first_.adaptdl_http().master_port(), 20001);
  EXPECT_EQ(second_.adaptdl_http().master_port(), 20001);
  // Programs print their URL when something fails.
  EXPECT_THAT(url, testing::Not(HasSubstr(first_.token())));
}

TEST_F(AdaptdlHttpTest, PortsOfANodeThatIsGoneAreForgotten) {
  auto worker = AddNode("c", {5000});
  worker->Disconnect();
  Advance(absl::Hours(4), absl::Minutes(30));  // It is lost.
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::RemoveNodeRequest request;
  request.set_request_id("remove");
  request.set_node_id("c");
  v1::RemoveNodeResponse response;
  ASSERT_TRUE(nodes_->RemoveNode(&context, request, &response).ok());
  ASSERT_TRUE(worker->Register().ok());
  Allocate(Submit(NewJob("job")), {"c"});
  EXPECT_THAT(Get("job").status().message(), HasSubstr("node c has offered no free port"));
}

TEST_F(AdaptdlHttpTest, GroupsOnOneNodeGetDifferentPorts) {
  auto worker = AddNode("a", {20001, 20002});
  Allocate(Submit(NewJob("one")), {"a"});
  Allocate(Submit(NewJob("two")), {"a"});
  EXPECT_EQ(worker->NextLaunch().adaptdl_http().master_port(), 20001);
  EXPECT_EQ(worker->NextLaunch().adaptdl_http().master_port(), 20002);
  // The third one waits until the worker has found another.
  Allocate(Submit(NewJob("three")), {"a"});
  EXPECT_EQ(Get("three").status().reason(), "WaitingForRoom");
  EXPECT_THAT(Get("three").status().message(), HasSubstr("no free port"));
  v1::ConnectRequest more;
  for (const int port : {20002, 20003}) more.mutable_free_ports()->add_ports(port);
  worker->Send(more);
  EXPECT_EQ(worker->NextLaunch().adaptdl_http().master_port(), 20003);
}

TEST_F(AdaptdlHttpTest, RecordedRendezvous) {
  a_ = AddNode("a", {20001});
  Allocate(Submit(NewJob("job")), {"a"});
  first_ = a_->NextLaunch();
  const json recorded = Recorded("discover", first_);
  HttpClient client(port_);
  client.Send(recorded["request"]);
  const HttpAnswer answer = client.Answer();
  EXPECT_EQ(answer.status, recorded["status"]);
  EXPECT_EQ(json::parse(answer.body), json::array({"a.test"}));
  EXPECT_TRUE(Get("job").status().replicas(0).joined());
}

TEST_F(AdaptdlHttpTest, RecordedRendezvousThatTimesOut) {
  StartPair("job");
  const json recorded = Recorded("discover-timeout", first_);
  HttpClient client(port_);
  client.Send(recorded["request"]);
  TakeAll();
  ASSERT_TRUE(Get("job").status().replicas(0).joined());
  Advance(absl::Seconds(31));
  const HttpAnswer answer = client.Answer();
  EXPECT_EQ(answer.status, recorded["status"]);
  EXPECT_EQ(json::parse(answer.body), recorded["answer"]);
}

TEST_F(AdaptdlHttpTest, RecordedHints) {
  StartPair("job");
  const json recorded = Recorded("hints", first_);
  HttpClient client(port_);
  client.Send(recorded["request"]);
  EXPECT_EQ(client.Answer().status, recorded["status"]);
  const std::string request = recorded["request"];
  const json sent = json::parse(request.substr(request.find("\r\n\r\n") + 4));
  const v1::Hints hints = StoredHints();
  EXPECT_EQ(hints.init_batch_size(), sent["initBatchSize"]);
  EXPECT_EQ(hints.max_batch_size(), sent["maxBatchSize"]);
  EXPECT_EQ(hints.min_local_batch_size(), sent["localBszBounds"][0]);
  EXPECT_EQ(hints.max_local_batch_size(), sent["localBszBounds"][1]);
  EXPECT_EQ(hints.max_profiled_replicas(), sent["maxProfiledReplicas"]);
  EXPECT_EQ(hints.gradient_accumulation(), sent["gradientAccumulation"]);
  EXPECT_EQ(hints.perf_params().alpha_c(), sent["perfParams"]["alpha_c"]);
  EXPECT_EQ(hints.perf_params().gamma(), sent["perfParams"]["gamma"]);
  EXPECT_EQ(hints.grad_params().norm(), sent["gradParams"]["norm"]);
  EXPECT_EQ(hints.grad_params().var(), sent["gradParams"]["var"]);
}

TEST_F(AdaptdlHttpTest, AnswersAllMembersWhenTheLastOneAsks) {
  StartPair("job");
  HttpClient first(port_);
  first.Request("GET", Discover(first_));
  WaitFor("job", [](const v1::Job& job) { return job.status().replicas(0).joined(); });
  EXPECT_FALSE(Get("job").status().replicas(1).joined());
  const HttpAnswer second = Ask("GET", Discover(second_));
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(json::parse(second.body), json::array({"a.test", "b.test"}));
  EXPECT_EQ(first.Answer().body, second.body);
  EXPECT_TRUE(HasEvent("job", "RendezvousComplete"));
  // Whoever asks again learns the same.
  EXPECT_EQ(Ask("GET", Discover(first_)).body, second.body);
}

TEST_F(AdaptdlHttpTest, WaitsAsLongAsTheCallerSays) {
  StartPair("job");
  HttpClient later(port_);
  later.Request("GET", Discover(first_) + "?timeout=50");
  HttpClient soon(port_);
  soon.Request("GET", Discover(first_) + "?timeout=5");
  TakeAll();
  Advance(absl::Seconds(6));
  EXPECT_EQ(soon.Answer().status, 408);
  EXPECT_EQ(Ask("GET", Discover(second_)).status, 200);
  EXPECT_EQ(later.Answer().status, 200);
}

TEST_F(AdaptdlHttpTest, EverythingElseIsNotFound) {
  StartPair("job");
  const std::string good = Discover(first_);
  const std::string rest = good.substr(good.find('/', 1));
  const std::string secret = good.substr(1, good.find('/', 1) - 1);
  std::string wrong = secret;
  wrong[0] = wrong[0] == '0' ? '1' : '0';
  Submit(NewJob("other"));
  for (const std::string& path : std::vector<std::string>{
           "/",
           "",
           "//",
           "/healthz/",
           "/discover/default/job/0",
           "/hints/default/job",
           "/" + wrong + rest,                                        // wrong secret
           "/" + first_.token() + rest,                               // the token is none
           "/" + secret.substr(1) + rest,                             // too short
           "//" + rest,                                               // no secret
           absl::StrCat("/", secret, "/0/discover/default/other/0"),  // another job
           absl::StrCat("/", secret, "/0/discover/default/none/0"),   // no job
           absl::StrCat("/", secret, "/0/discover/elsewhere/job/0"),  // another namespace
           absl::StrCat("/", secret, "/0/discover/default/job/1"),    // a group that is to come
           absl::StrCat("/", secret, "/0/discover/default/job/-1"),   //
           absl::StrCat("/", secret, "/0/discover/default/job/x"),    //
           absl::StrCat("/", secret, "/0/discover/default/job/99999999999999999999"),
           absl::StrCat("/", secret, "/2/discover/default/job/0"),       // no such rank
           absl::StrCat("/", secret, "/-1/discover/default/job/0"),      //
           absl::StrCat("/", secret, "/x/discover/default/job/0"),       //
           absl::StrCat("/", secret, "/0/discover/default/job/0/more"),  //
           absl::StrCat("/", secret, "/0/discover/default/job"),         //
           absl::StrCat("/", secret, "/0/hints/default/job"),            // GET
           absl::StrCat("/", secret, "/0/../../healthz"),                //
           absl::StrCat("/%", secret, "/0/discover/default/job/0"),      //
       }) {
    const HttpAnswer answer = Ask("GET", path.empty() ? "*" : path);
    EXPECT_EQ(answer.status, 404) << path;
  }
  EXPECT_EQ(Ask("POST", good).status, 404);
  EXPECT_EQ(Ask("DELETE", good).status, 404);
  EXPECT_EQ(Ask("PUT", good, "{}").status, 404);
  EXPECT_EQ(Ask("PUT", absl::StrCat("/", wrong, "/0/hints/default/job"), kHints).status, 404);
  EXPECT_EQ(Ask("PUT", absl::StrCat("/", secret, "/0/hints/default/other"), kHints).status, 404);
  EXPECT_FALSE(StoredHints().has_perf_params());
  const v1::Job job = Get("job");
  for (const v1::Replica& replica : job.status().replicas()) EXPECT_FALSE(replica.joined());
}

TEST_F(AdaptdlHttpTest, TimeoutsThatAreNoneAreRefused) {
  StartPair("job");
  for (const std::string timeout : {"nan", "-1", "soon", "", "1e"}) {
    EXPECT_EQ(Ask("GET", Discover(first_) + "?timeout=" + timeout).status, 400) << timeout;
  }
}

TEST_F(AdaptdlHttpTest, TheUrlOfAnOldGroupIsWorthNothing) {
  StartPair("job");
  EXPECT_EQ(Ask("PUT", HintsPath(first_), kHints).status, 200);
  HttpClient waiting(port_);
  waiting.Request("GET", Discover(first_));
  WaitFor("job", [](const v1::Job& job) { return job.status().replicas(0).joined(); });
  a_->Exited(first_, 143);
  b_->Exited(second_, 1);
  WaitForPhase("job", v1::JOB_PHASE_PENDING);
  Advance(absl::Seconds(5));
  const v1::LaunchReplica next = a_->NextLaunch();
  EXPECT_EQ(next.num_restarts(), 1);
  EXPECT_EQ(waiting.Answer().status, 404);
  EXPECT_EQ(Ask("GET", Discover(first_)).status, 404);
  EXPECT_EQ(Ask("PUT", HintsPath(first_), kHints).status, 404);
  EXPECT_EQ(Ask("PUT", HintsPath(next), kHints).status, 200);
}

TEST_F(AdaptdlHttpTest, HintsOfAllKinds) {
  StartPair("job");
  EXPECT_EQ(Ask("PUT", HintsPath(first_), kHints).status, 200);
  EXPECT_EQ(StoredHints().max_batch_size(), 256);
  // A job that keeps its batch size, and has measured nothing yet; and what a newer client may say.
  EXPECT_EQ(
      Ask("PUT", HintsPath(second_),
          R"({"initBatchSize": 32, "localBszBounds": [null, 64], "maxBatchSize": null, "gradParams": null,
                    "perfParams": null, "maxProfiledReplicas": 1, "somethingNew": {"a": [1, "b"]}})")
          .status,
      200);
  const v1::Hints hints = StoredHints();
  EXPECT_EQ(hints.init_batch_size(), 32);
  EXPECT_FALSE(hints.has_max_batch_size());
  EXPECT_FALSE(hints.has_min_local_batch_size());
  EXPECT_EQ(hints.max_local_batch_size(), 64);
  EXPECT_FALSE(hints.has_perf_params());
  EXPECT_FALSE(hints.has_grad_params());
}

TEST_F(AdaptdlHttpTest, WrongHintsAreRefusedWithAReasonAndNeverStored) {
  StartPair("job");
  ASSERT_EQ(Ask("PUT", HintsPath(first_), kHints).status, 200);
  const std::string before = StoredHints().SerializeAsString();
  const json good = json::parse(kHints);
  const auto with = [&good](const std::string& pointer, const json& value) {
    json hints = good;
    hints[json::json_pointer(pointer)] = value;
    return hints.dump();
  };
  const auto without = [&good](const std::string& object, const std::string& name) {
    json hints = good;
    (object.empty() ? hints : hints[object]).erase(name);
    return hints.dump();
  };
  struct Case {
    std::string body;
    std::string reason;
  };
  const std::string nan = absl::StrReplaceAll(kHints, {{"0.01", "NaN"}});
  const std::string deep = std::string(30'000, '[');
  const std::vector<Case> cases = {
      {"", "JSON"},
      {"null", "JSON"},
      {"[]", "JSON"},
      {"{", "JSON"},
      {"\"text\"", "JSON"},
      {std::string("{\"initBatchSize\": 64}\0", 22), "JSON"},
      {"{\"initBatchSize\": \"\xff\xfe\"}", "JSON"},
      {nan, "JSON"},
      {absl::StrReplaceAll(kHints, {{"0.01", "Infinity"}}), "JSON"},
      {absl::StrReplaceAll(kHints, {{"0.01", "1e999"}}), "JSON"},
      {deep, "JSON"},
      {absl::StrCat("{\"initBatchSize\": ", deep, std::string(30'000, ']'), "}"), "initBatchSize"},
      {without("", "initBatchSize"), "initBatchSize"},
      {with("/initBatchSize", nullptr), "initBatchSize"},
      {with("/initBatchSize", 0), "init_batch_size"},
      {with("/initBatchSize", -5), "init_batch_size"},
      {with("/initBatchSize", 1.5), "initBatchSize"},
      {with("/initBatchSize", "64"), "initBatchSize"},
      {with("/initBatchSize", true), "initBatchSize"},
      {with("/initBatchSize", UINT64_MAX), "initBatchSize"},
      {with("/maxBatchSize", 63), "max_batch_size"},
      {with("/maxBatchSize", "many"), "maxBatchSize"},
      {with("/globalBatchSize", "x"), "globalBatchSize"},
      {with("/localBszBounds", 5), "localBszBounds"},
      {with("/localBszBounds", json::array({1})), "localBszBounds"},
      {with("/localBszBounds", json::array({1, 2, 3})), "localBszBounds"},
      {with("/localBszBounds", json::array({"1", 2})), "localBszBounds"},
      {with("/localBszBounds", json::array({65, 128})), "min_local_batch_size"},
      {with("/localBszBounds", json::array({32, 16})), "max_local_batch_size"},
      {with("/maxProfiledReplicas", -1), "maxProfiledReplicas"},
      {with("/maxProfiledReplicas", 5'000'000'000), "maxProfiledReplicas"},
      {with("/maxProfiledReplicas", "2"), "maxProfiledReplicas"},
      {with("/gradientAccumulation", 1), "gradientAccumulation"},
      {with("/gradParams", 3), "gradParams"},
      {with("/gradParams/norm", -1), "norm"},
      {with("/gradParams/var", "x"), "gradParams.var"},
      {without("gradParams", "var"), "gradParams.var"},
      {with("/perfParams", json::array()), "perfParams"},
      {with("/perfParams/gamma", 0.5), "gamma"},
      {with("/perfParams/gamma", 11), "gamma"},
      {with("/perfParams/alpha_c", -0.1), "alpha_c"},
      {with("/perfParams/beta_n", nullptr), "perfParams.beta_n"},
      {without("perfParams", "alpha_r"), "perfParams.alpha_r"},
  };
  for (const Case& wrong : cases) {
    const HttpAnswer answer = Ask("PUT", HintsPath(first_), wrong.body);
    EXPECT_EQ(answer.status, 400) << wrong.body.substr(0, 200);
    EXPECT_THAT(answer.body, HasSubstr(wrong.reason)) << wrong.body.substr(0, 200);
  }
  EXPECT_EQ(StoredHints().SerializeAsString(), before);
}

TEST_F(AdaptdlHttpTest, HugeBodiesAreNotTaken) {
  StartPair("job");
  // Announced: refused before it is sent.
  HttpClient announced(port_);
  announced.Send(absl::StrCat("PUT ", HintsPath(first_),
                              " HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n"));
  EXPECT_EQ(announced.Answer().status, 413);
  // Not announced: refused at its end, or cut off.
  HttpClient chunked(port_);
  chunked.Send(
      absl::StrCat("PUT ", HintsPath(first_), " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  const std::string chunk = absl::StrCat("10000\r\n", std::string(0x10000, ' '), "\r\n");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(chunked.Send(chunk));
  chunked.Send("0\r\n\r\n");
  EXPECT_EQ(chunked.Answer().status, 413);
  HttpClient endless(port_);
  endless.Send(
      absl::StrCat("PUT ", HintsPath(first_), " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  bool open = true;
  for (int i = 0; i < 4096 && open; ++i) open = endless.Send(chunk);
  EXPECT_FALSE(open);
  // Headers and paths.
  HttpClient path(port_);
  path.Send("GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_GE(path.Answer().status, 400);
  HttpClient headers(port_);
  headers.Send("GET /healthz HTTP/1.1\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n");
  EXPECT_GE(headers.Answer().status, 400);
  EXPECT_EQ(Ask("GET", "/healthz").status, 200);
}

TEST_F(AdaptdlHttpTest, WhatIsNoHttpHarmsNobody) {
  StartPair("job");
  for (const std::string& text : {std::string("\0\1\2\3\r\n\r\n", 8), std::string("GET\r\n\r\n"),
                                  std::string("\x16\x03\x01\x02\x00"), std::string("PUT /x HTTP/9.9\r\n\r\n"),
                                  std::string("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n")}) {
    HttpClient client(port_);
    client.Send(text);
  }
  EXPECT_EQ(Ask("PUT", HintsPath(first_), kHints).status, 200);
}

TEST_F(AdaptdlHttpTest, AThousandWaitingClientsCostNoThreads) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < 4096) GTEST_SKIP() << "both ends of a thousand connections need more descriptors";
  StartPair("job");
  ASSERT_EQ(Ask("GET", "/healthz").status, 200);
  const int threads = ThreadsOfThisProcess();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port_));
    ASSERT_TRUE(clients.back()->connected()) << i;
    clients.back()->Request("GET", Discover(first_) + "?timeout=100");
  }
  // Some give up.
  for (int i = 0; i < 100; ++i) clients.pop_back();
  // The server goes on with everything else.
  EXPECT_EQ(Ask("PUT", HintsPath(first_), kHints).status, 200);
  Advance(absl::Seconds(50));
  EXPECT_LE(ThreadsOfThisProcess(), threads + 4) << "gRPC may have started some for the worker";
  EXPECT_EQ(Ask("GET", Discover(second_)).status, 200);
  for (const auto& client : clients) {
    const HttpAnswer answer = client->Answer();
    ASSERT_EQ(answer.status, 200);
    ASSERT_EQ(answer.body, R"(["a.test","b.test"])");
  }
}

class CrowdedHttpTest : public AdaptdlHttpTest {
 protected:
  CrowdedHttpTest() {
    http_options_.max_connections = 32;
    http_options_.max_connections_per_address = 32;
    http_options_.strangers.most = 8;
  }
};

TEST_F(CrowdedHttpTest, ConnectionsThatSaySoLittleDoNotKeepOthersOut) {
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port_));
    ASSERT_TRUE(clients.back()->connected()) << i;
    clients.back()->Send("GET /health");
  }
  EXPECT_EQ(Ask("GET", "/healthz").status, 200);
}

TEST_F(CrowdedHttpTest, ARequestThatComesByteByByteIsCutOff) {
  HttpClient slow(port_);
  ASSERT_TRUE(slow.Send("PUT /x HTTP/1.1\r\nHost: test\r\nContent-Length: 60000\r\n\r\n"));
  int sent = 0;
  for (; sent < 60'000 && slow.Send("x"); ++sent) Advance(absl::Seconds(1));
  EXPECT_LT(sent, 60'000);
  EXPECT_EQ(Ask("GET", "/healthz").status, 200);
}

TEST_F(CrowdedHttpTest, WhoeverWaitsForOthersIsNoStranger) {
  StartPair("job");
  HttpClient first(port_);
  first.Request("GET", Discover(first_) + "?timeout=100");
  WaitFor("job", [](const v1::Job& job) { return job.status().replicas(0).joined(); });
  Advance(absl::Seconds(50));
  std::vector<std::unique_ptr<HttpClient>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(std::make_unique<HttpClient>(port_));
    others.back()->Send("G");
  }
  EXPECT_EQ(Ask("GET", Discover(second_)).status, 200);
  EXPECT_EQ(first.Answer().status, 200);
}

TEST_F(AdaptdlHttpTest, EndsWhileClientsWait) {
  StartPair("job");
  HttpClient client(port_);
  client.Request("GET", Discover(first_));
  WaitFor("job", [](const v1::Job& job) { return job.status().replicas(0).joined(); });
  a_->Disconnect();
  b_->Disconnect();
  Stop();
  const int status = client.Answer().status;
  EXPECT_TRUE(status == 503 || status == 0) << status;
}

}  // namespace
}  // namespace adaptdl::supervisor
