// Texts of any length and in any script, and a store in which some can't be read: nobody else feels it.

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "libs/base/utf8.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "services/supervisor/store/sqlite.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Longer than any bound for a text, so that the bound falls within a character.
std::string Long() {
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "é";
  return text;
}

class TextTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Restart() {
    Stop();
    Start();
    registry_ = std::make_shared<prometheus::Registry>();
    supervisor_->ExportMetrics(registry_);
  }
  std::string Metrics() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

  grpc::Status List(v1::ListJobsResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return jobs_->ListJobs(&context, v1::ListJobsRequest(), response);
  }
  grpc::Status ListEvents(const std::string& job, v1::ListEventsResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListEventsRequest request;
    request.set_name(job);
    return jobs_->ListEvents(&context, request, response);
  }
  void Damage(const std::string& job, const char* column) {
    absl::StatusOr<Database> database = Database::Open(folder_.path() + "/supervisor.db");
    ASSERT_TRUE(database.ok());
    const absl::Status status = database->Execute(
        absl::StrCat("UPDATE jobs SET ", column, " = x'FFFFFFFF' WHERE name = '", job, "'"));
    ASSERT_TRUE(status.ok()) << status;
  }

  TemporaryFolder folder_;
  std::shared_ptr<prometheus::Registry> registry_;
};

TEST_F(TextTest, WhatNodesAndAdministratorsSayIsCutBetweenCharacters) {
  auto worker = AddWorker("n1");
  auto other = AddWorker("n2");
  const v1::Job job = Submit(NewJob("a"));
  v1::JobAllocation allocation = AllocationOf(job, {"n1"});
  allocation.set_reason(Long());
  allocation.add_explanation(Long());
  const grpc::Status applied = Apply({allocation});
  ASSERT_TRUE(applied.ok()) << applied.error_message();
  v1::ReplicaReport report = FakeWorker::ReportOf(worker->NextLaunch(), v1::REPLICA_STATE_EXITED, 1);
  report.mutable_replica()->set_message(Long());
  worker->Report(report);
  WaitFor("a", [](const v1::Job& now) { return now.status().failures() > 0; });
  {
    v1::ConnectRequest notice;
    notice.mutable_preemption_notice()->set_reason(Long());
    worker->Send(notice);
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::DrainNodeRequest request;
    request.set_request_id("drain");
    request.set_node_id("n2");
    request.set_reason(Long());
    v1::DrainNodeResponse response;
    const grpc::Status drained = nodes_->DrainNode(&context, request, &response);
    ASSERT_TRUE(drained.ok()) << drained.error_message();
    EXPECT_TRUE(IsUtf8(response.node().status().message()));
  }
  worker->Disconnect();
  other->Disconnect();
  Restart();
  v1::ListJobsResponse jobs;
  const grpc::Status listed = List(&jobs);
  ASSERT_TRUE(listed.ok()) << listed.error_message();
  EXPECT_EQ(jobs.jobs_size(), 1);
  v1::ListEventsResponse events;
  EXPECT_TRUE(ListEvents("a", &events).ok());
  EXPECT_GT(events.events_size(), 1);
  const v1::ClusterSnapshot snapshot = Snapshot();
  for (const auto& node : snapshot.nodes()) EXPECT_TRUE(IsUtf8(node.status().message()));
  EXPECT_THAT(Metrics(), AllOf(Not(HasSubstr("damaged_rows_total{")), Not(HasSubstr("where=\"text\""))));
}

// gRPC reads no message with such text: what comes to a handler is valid.
TEST_F(TextTest, ARequestWithTextThatIsNoUtf8IsRefused) {
  v1::Job job = NewJob("a");
  job.mutable_spec()->mutable_template_()->add_args("half a character: \xC3");
  EXPECT_FALSE(TrySubmit(job).ok());
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(List(&jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0);
}

TEST_F(TextTest, AJobThatCannotBeReadIsSetAsideAndTheOthersAreServed) {
  Submit(NewJob("a"));
  Submit(NewJob("b"));
  Stop();
  Damage("a", "state");
  Restart();
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(List(&jobs).ok());
  ASSERT_EQ(jobs.jobs_size(), 1);
  EXPECT_EQ(jobs.jobs(0).name(), "b");
  EXPECT_THAT(Metrics(),
              HasSubstr("adaptdl_supervisor_damaged_rows_total{outcome=\"set_aside\",table=\"jobs\"} 1"));
  v1::ListEventsResponse events;
  ASSERT_TRUE(ListEvents("", &events).ok());
  EXPECT_EQ(events.events(events.events_size() - 1).reason(), "RecordUnreadable");
  EXPECT_EQ(events.events(events.events_size() - 1).job(), "a");

  // Whoever asks for it learns why it is gone, and nobody takes its name.
  const grpc::Status asked = ListEvents("a", &events);
  EXPECT_EQ(asked.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(asked.error_message(), HasSubstr("adaptdl admin check"));
  EXPECT_EQ(TrySubmit(NewJob("a")).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  Submit(NewJob("c"));

  // The next start tells of it, but not once more among the events.
  Restart();
  v1::ListEventsResponse again;
  ASSERT_TRUE(ListEvents("", &again).ok());
  int told = 0;
  for (const v1::Event& event : again.events()) told += event.reason() == "RecordUnreadable";
  EXPECT_EQ(told, 1);
  ASSERT_TRUE(List(&jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 2);
}

}  // namespace
}  // namespace adaptdl::supervisor
