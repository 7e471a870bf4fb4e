// Output and files of jobs, through workers whose LogService the test plays.

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "adaptdl/v1/log_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;

// Keeps lines by replica, as "second:text". A replica that is followed gets lines until it is closed.
class FakeLogService final : public v1::LogService::Service {
 public:
  void Add(const std::string& replica_id, int64_t second, const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    v1::LogLine& line = logs_[replica_id].emplace_back();
    line.mutable_time()->set_seconds(second);
    line.set_text(text);
    changed_.notify_all();
  }
  // It has started, and has written nothing yet.
  void Create(const std::string& replica_id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    logs_[replica_id];
  }
  void Close(const std::string& replica_id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_.insert(replica_id);
    changed_.notify_all();
  }
  v1::StreamReplicaLogsRequest last_request() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_request_;
  }
  void CloseAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_closed_ = true;
    changed_.notify_all();
  }

  grpc::Status StreamReplicaLogs(grpc::ServerContext* context, const v1::StreamReplicaLogsRequest* request,
                                 grpc::ServerWriter<v1::StreamReplicaLogsResponse>* writer) override {
    std::unique_lock<std::mutex> lock(mutex_);
    last_request_ = *request;
    if (logs_.count(request->replica_id()) == 0) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such log");
    }
    size_t sent = 0;
    while (!context->IsCancelled()) {
      const std::vector<v1::LogLine>& lines = logs_[request->replica_id()];
      for (; sent < lines.size(); ++sent) {
        v1::StreamReplicaLogsResponse response;
        *response.add_lines() = lines[sent];
        writer->Write(response);
      }
      if (!request->follow() || all_closed_ || closed_.count(request->replica_id()) > 0) break;
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
    return grpc::Status::OK;
  }

  grpc::Status ReadJobFiles(grpc::ServerContext* /*context*/, const v1::ReadJobFilesRequest* request,
                            grpc::ServerWriter<v1::ReadJobFilesResponse>* writer) override {
    if (request->path() == "missing")
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "missing: no such file");
    for (int i = 0; i < 3; ++i) {
      v1::ReadJobFilesResponse response;
      response.mutable_chunk()->set_path(request->job() + "/" + request->path());
      response.mutable_chunk()->set_offset(i);
      writer->Write(response);
    }
    return grpc::Status::OK;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<v1::LogLine>> logs_;
  std::set<std::string> closed_;
  v1::StreamReplicaLogsRequest last_request_;
  bool all_closed_ = false;
};

class LogsTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&logs_);
    log_server_ = builder.BuildAndStart();
    worker_ = std::make_unique<FakeWorker>(channel_, "n1");
    worker_->node()->set_worker_address(absl::StrCat("127.0.0.1:", port));
    ASSERT_TRUE(worker_->Register().ok());
    worker_->Connect();
    // A second node, whose worker does not answer.
    dead_ = AddWorker("n0");
    job_ = Submit(NewJob("a"));
  }
  void TearDown() override {
    logs_.CloseAll();
    worker_ = nullptr;
    dead_ = nullptr;
    ClusterTest::TearDown();
    log_server_->Shutdown();
  }
  // Runs a group of `size` on n1 until it runs.
  std::vector<v1::LaunchReplica> RunGroup(int size) {
    Allocate(job_, std::vector<std::string>(size, "n1"));
    std::vector<v1::LaunchReplica> launches;
    for (int i = 0; i < size; ++i) launches.push_back(worker_->NextLaunch());
    for (const auto& launch : launches) worker_->Running(launch);
    const int64_t group = launches[0].group();
    WaitFor("a", [group](const v1::Job& job) {
      return job.status().group() == group && job.status().phase() == v1::JOB_PHASE_RUNNING;
    });
    return launches;
  }
  std::vector<std::string> Read(const v1::StreamLogsRequest& request,
                                std::vector<std::string>* warnings = nullptr) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto stream = jobs_->StreamLogs(&context, request);
    v1::StreamLogsResponse response;
    std::vector<std::string> lines;
    while (stream->Read(&response)) {
      for (const v1::LogLine& line : response.lines()) {
        lines.push_back(absl::StrCat(line.group(), ".", line.rank(), ":", line.text()));
      }
      if (!response.warning().empty() && warnings != nullptr) warnings->push_back(response.warning());
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return lines;
  }

  FakeLogService logs_;
  std::unique_ptr<grpc::Server> log_server_;
  std::unique_ptr<FakeWorker> worker_;
  std::unique_ptr<FakeWorker> dead_;
  v1::Job job_;
};

TEST_F(LogsTest, LinesAreOrderedByGroupAndMergedByTime) {
  const auto first = RunGroup(2);
  logs_.Add(first[0].replica_id(), 10, "a");
  logs_.Add(first[1].replica_id(), 11, "b");
  logs_.Add(first[0].replica_id(), 12, "c");
  logs_.Add(first[1].replica_id(), 13, "d");
  Allocate(job_, {"n1"});
  worker_->Exited(first[0], 143);
  worker_->Exited(first[1], 143);
  const v1::LaunchReplica second = worker_->NextLaunch();
  logs_.Add(second.replica_id(), 1, "e");  // A clock that was set back does not mix groups.
  v1::StreamLogsRequest request;
  request.set_name("a");
  EXPECT_THAT(Read(request), ElementsAre("1.0:a", "1.1:b", "1.0:c", "1.1:d", "2.0:e"));
  request.set_rank(1);
  EXPECT_THAT(Read(request), ElementsAre("1.1:b", "1.1:d"));
  request.clear_rank();
  request.set_group(2);
  EXPECT_THAT(Read(request), ElementsAre("2.0:e"));
}

// The worker that the test plays knows nothing of either, as an older one would.
TEST_F(LogsTest, LinesAreChosenByTimeAndPattern) {
  const auto group = RunGroup(2);
  for (int second = 10; second < 14; ++second) {
    logs_.Add(group[second % 2].replica_id(), second, absl::StrCat("loss ", second));
    logs_.Add(group[second % 2].replica_id(), second, "other");
  }
  v1::StreamLogsRequest request;
  request.set_name("a");
  request.set_pattern("loss");
  EXPECT_THAT(Read(request), ElementsAre("1.0:loss 10", "1.1:loss 11", "1.0:loss 12", "1.1:loss 13"));
  request.mutable_since()->set_seconds(12);
  EXPECT_THAT(Read(request), ElementsAre("1.0:loss 12", "1.1:loss 13"));
  EXPECT_EQ(logs_.last_request().pattern(), "loss");
  EXPECT_EQ(logs_.last_request().since().seconds(), 12);
  request.clear_pattern();
  EXPECT_THAT(Read(request), ElementsAre("1.0:loss 12", "1.0:other", "1.1:loss 13", "1.1:other"));
  request.set_pattern("(");
  grpc::ClientContext context;
  SetDeadline(&context);
  const grpc::Status refused = jobs_->StreamLogs(&context, request)->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("pattern: \"(\" is no regular expression"));
}

TEST_F(LogsTest, OutputThatCannotBeReadIsWarnedOf) {
  const auto group = RunGroup(1);
  logs_.Add(group[0].replica_id(), 1, "a");
  Allocate(job_, {"n0"});
  worker_->Exited(group[0], 143);
  dead_->NextLaunch();
  v1::StreamLogsRequest request;
  request.set_name("a");
  std::vector<std::string> warnings;
  EXPECT_THAT(Read(request, &warnings), ElementsAre("1.0:a"));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], testing::HasSubstr("node n0"));
}

TEST_F(LogsTest, FollowingGoesOnThroughNewGroupsUntilTheJobEnds) {
  const auto first = RunGroup(1);
  logs_.Add(first[0].replica_id(), 1, "a");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StreamLogsRequest request;
  request.set_name("a");
  request.set_follow(true);
  auto stream = jobs_->StreamLogs(&context, request);
  v1::StreamLogsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.lines(0).text(), "a");
  logs_.Add(first[0].replica_id(), 2, "b");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.lines(0).text(), "b");
  // Re-scaled: the next group's output follows by itself.
  Allocate(job_, {"n1", "n1"});
  worker_->Exited(first[0], 143);
  logs_.Close(first[0].replica_id());
  const v1::LaunchReplica rank0 = worker_->NextLaunch();
  const v1::LaunchReplica rank1 = worker_->NextLaunch();
  logs_.Create(rank0.replica_id());
  logs_.Add(rank1.replica_id(), 3, "c");
  worker_->Running(rank0);
  worker_->Running(rank1);
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.lines(0).group(), 2);
  EXPECT_EQ(response.lines(0).rank(), 1);
  EXPECT_EQ(response.lines(0).text(), "c");
  worker_->Exited(rank0, 0);
  worker_->Exited(rank1, 0);
  WaitForPhase("a", v1::JOB_PHASE_SUCCEEDED);
  logs_.CloseAll();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(LogsTest, NewcomersAreHeardWhileTheOthersGoOn) {
  const v1::LaunchReplica survivor = RunGroup(1)[0];
  v1::ReplicaIdentity identity = IdentityOf(survivor);
  Join join(replicas_.get(), identity, survivor.token(), "n1:1", /*rescales_in_place=*/true);
  Heart heart(replicas_.get(), identity, join.Formed().token());
  logs_.Add(survivor.replica_id(), 1, "a");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StreamLogsRequest request;
  request.set_name("a");
  request.set_follow(true);
  auto stream = jobs_->StreamLogs(&context, request);
  v1::StreamLogsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.lines(0).text(), "a");

  Allocate(job_, {"n1", "n1"});
  const v1::LaunchReplica newcomer = worker_->NextLaunch();
  worker_->Running(newcomer);
  Join joined(replicas_.get(), IdentityOf(newcomer), newcomer.token(), "n1:2", /*rescales_in_place=*/true);
  const v1::GroupFormed formed = joined.Formed();
  identity.set_group(formed.group());
  Heart later(replicas_.get(), identity, formed.token());
  later.BeatWithoutProgress();
  logs_.Add(newcomer.replica_id(), 2, "b");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.lines(0).text(), "b");
  EXPECT_EQ(response.lines(0).group(), 2);
  logs_.Add(survivor.replica_id(), 3, "c");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.lines(0).text(), "c");
  EXPECT_EQ(response.lines(0).group(), 2);

  // Read afterwards: in order of time, and under every group that a replica belonged to.
  request.set_follow(false);
  EXPECT_THAT(Read(request), ElementsAre("2.0:a", "2.1:b", "2.0:c"));
  request.set_group(1);
  EXPECT_THAT(Read(request), ElementsAre("2.0:a", "2.0:c"));
}

TEST_F(LogsTest, FollowingWaitsForAReplicaThatIsBeingLaunched) {
  Allocate(job_, {"n1"});
  const v1::LaunchReplica launch = worker_->NextLaunch();
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StreamLogsRequest request;
  request.set_name("a");
  request.set_follow(true);
  auto stream = jobs_->StreamLogs(&context, request);
  // Whether the worker has started it by then or not.
  logs_.Add(launch.replica_id(), 1, "hello");
  worker_->Running(launch);
  v1::StreamLogsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.warning(), "");
  ASSERT_EQ(response.lines_size(), 1);
  EXPECT_EQ(response.lines(0).text(), "hello");
  logs_.CloseAll();
  worker_->Exited(launch, 0);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(LogsTest, ReaderThatLeavesLetsGoOfTheWorkers) {
  const auto first = RunGroup(1);
  logs_.Add(first[0].replica_id(), 1, "a");
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::StreamLogsRequest request;
    request.set_name("a");
    request.set_follow(true);
    auto stream = jobs_->StreamLogs(&context, request);
    v1::StreamLogsResponse response;
    ASSERT_TRUE(stream->Read(&response));
    context.TryCancel();
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  // The worker's server can only end when nobody follows any more.
  log_server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(20));
}

TEST_F(LogsTest, FilesComeFromAnyWorkerThatAnswers) {
  v1::ReadFilesRequest request;
  request.set_name("a");
  request.set_folder(v1::JOB_FOLDER_SHARE);
  request.set_path("model.pt");
  const auto read = [&](int* chunks) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto stream = jobs_->ReadFiles(&context, request);
    v1::ReadFilesResponse response;
    *chunks = 0;
    while (stream->Read(&response)) {
      EXPECT_EQ(response.chunk().path(), "a/model.pt");
      ++*chunks;
    }
    return stream->Finish();
  };
  int chunks = 0;
  const grpc::Status status = read(&chunks);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(chunks, 3);
  request.set_path("missing");
  EXPECT_EQ(read(&chunks).error_code(), grpc::StatusCode::NOT_FOUND);
  for (const char* path : {"../other", "/etc/passwd", "a/../../b"}) {
    request.set_path(path);
    EXPECT_EQ(read(&chunks).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << path;
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
