// Reports of a replica: numbered, told until they are acknowledged, and again over a new stream.

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/elastic/control/grpc/pending_reports.h"
#include "tests/libs/elastic/control/grpc/grpc_control_plane_fixture.h"

namespace adaptdl::elastic {
namespace {

v1::HeartbeatRequest Told(const PendingReports& reports, bool leads = true) {
  v1::HeartbeatRequest request;
  reports.FillIn(leads, &request);
  return request;
}

TEST(PendingReportsTest, EachIsToldUntilItIsAcknowledged) {
  PendingReports reports;
  EXPECT_EQ(Told(reports).report_id(), 0);
  reports.Broken(3, "rank 1 is lost");
  reports.Rescaled({.group = 3});
  const v1::HeartbeatRequest first = Told(reports);
  EXPECT_EQ(first.report_id(), 2);
  EXPECT_EQ(first.broken().reason(), "rank 1 is lost");
  EXPECT_EQ(first.rescale().group(), 3);
  reports.Acknowledge(1);
  EXPECT_FALSE(Told(reports).has_broken());
  EXPECT_TRUE(Told(reports).has_rescale());
  reports.Acknowledge(2);
  EXPECT_FALSE(Told(reports).has_rescale());
  EXPECT_EQ(Told(reports).report_id(), 2);
  // A late answer takes nothing back.
  reports.Acknowledge(1);
  EXPECT_FALSE(Told(reports).has_rescale());
}

TEST(PendingReportsTest, ANewStreamIsToldAllButTheGroupItBeganWith) {
  PendingReports reports;
  reports.Broken(3, "rank 1 is lost");
  reports.Entered({.group = 4, .token = "t"});
  EXPECT_EQ(Told(reports).entered_group().group(), 4);
  EXPECT_EQ(Told(reports).entered_group().token(), "t");
  reports.Acknowledge(2);
  EXPECT_EQ(reports.entered(), nullptr);
  reports.BeginStream();
  EXPECT_EQ(reports.entered(), nullptr);
  EXPECT_FALSE(Told(reports).has_entered_group());
  EXPECT_TRUE(Told(reports).has_broken());
  reports.ForgetBrokenBefore(3);
  EXPECT_EQ(reports.broken_group(), 3);
  reports.ForgetBrokenBefore(4);
  EXPECT_EQ(reports.broken_group(), std::nullopt);
}

TEST(PendingReportsTest, WhetherTheEnteredGroupTrainsIsSaidWithIt) {
  PendingReports reports;
  reports.Broken(4, "the last barrier failed");
  reports.Acknowledge(1);
  EXPECT_FALSE(Told(reports).has_broken());
  reports.Entered({.group = 4});
  EXPECT_EQ(Told(reports).broken().group(), 4);
}

TEST(PendingReportsTest, OnlyAChangeOfCheckpointsIsNews) {
  PendingReports reports;
  EXPECT_FALSE(reports.CheckpointTaken(1, absl::OkStatus()));
  EXPECT_TRUE(reports.CheckpointTaken(2, absl::ResourceExhaustedError("disk \xff full")));
  EXPECT_EQ(Told(reports).checkpoint().error(), "disk \\377 full");
  EXPECT_FALSE(reports.CheckpointTaken(3, absl::ResourceExhaustedError("disk full")));
  EXPECT_TRUE(reports.CheckpointTaken(4, absl::OkStatus()));
  EXPECT_EQ(Told(reports).checkpoint().step(), 4);
  EXPECT_FALSE(Told(reports, /*leads=*/false).has_checkpoint());
}

TEST_F(GrpcControlPlaneTest, EntersTheNextGroupOnTheStreamThatItHas) {
  Mailbox<v1::HeartbeatRequest> entered;
  Mailbox<v1::HeartbeatRequest> after;
  supervisor_.on_heartbeat = [&](grpc::ServerContext* context, HeartbeatStream* stream) {
    v1::HeartbeatRequest request;
    stream->Read(&request);
    EXPECT_EQ(Caller(context, request.identity()), "3 Bearer secret");
    v1::HeartbeatResponse plan = PlanFor(4, 0, 6);
    plan.mutable_period()->set_seconds(0);
    plan.mutable_period()->set_nanos(10'000'000);
    plan.set_takes_reports(true);
    stream->Write(plan);
    while (stream->Read(&request) && !request.has_entered_group()) {
    }
    entered.Put(request);
    // It may not have been heard.
    EXPECT_TRUE(stream->Read(&request));
    EXPECT_TRUE(request.has_entered_group());
    v1::HeartbeatResponse answer = Command(v1::REPLICA_COMMAND_NONE, 0, "");
    answer.set_takes_reports(true);
    answer.set_acknowledged_report_id(request.report_id());
    stream->Write(answer);
    while (stream->Read(&request) && request.has_entered_group()) {
    }
    after.Put(request);
    ReadAll(stream);
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  control_->EnterGroup(observer_.plans.Take().next);
  const v1::HeartbeatRequest request = entered.Take();
  EXPECT_EQ(request.entered_group().group(), 4);
  EXPECT_EQ(request.entered_group().token(), "token of 4");
  EXPECT_EQ(request.identity().group(), 4);
  EXPECT_EQ(request.acknowledged_command_id(), 6);
  const v1::HeartbeatRequest later = after.Take();
  EXPECT_FALSE(later.has_entered_group());
  EXPECT_EQ(later.identity().group(), 4);
  ASSERT_TRUE(control_->ReportHints({}).ok());
  EXPECT_EQ(supervisor_.hints_callers.Take(), "4 Bearer token of 4");
}

TEST_F(GrpcControlPlaneTest, AReportThatWasNotAcknowledgedIsToldOverTheNextStream) {
  Mailbox<v1::HeartbeatRequest> reports;
  int streams = 0;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    ++streams;
    v1::HeartbeatRequest request;
    v1::HeartbeatResponse response = Command(v1::REPLICA_COMMAND_NONE, 0, "");
    response.set_takes_reports(true);
    stream->Read(&request);
    if (streams == 1) stream->Write(response);
    while (!request.has_broken() && stream->Read(&request)) {
    }
    reports.Put(request);
    if (streams == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is slow");
    response.set_acknowledged_report_id(request.report_id());
    stream->Write(response);
    while (stream->Read(&request) && request.has_broken()) {
    }
    reports.Put(request);
    ReadAll(stream);
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  control_->ReportBroken(3, "rank 2 is lost");
  const v1::HeartbeatRequest lost = reports.Take();
  const v1::HeartbeatRequest again = reports.Take();
  EXPECT_EQ(again.broken().reason(), "rank 2 is lost");
  EXPECT_EQ(again.report_id(), lost.report_id());
  EXPECT_FALSE(reports.Take().has_broken());
}

}  // namespace
}  // namespace adaptdl::elastic
