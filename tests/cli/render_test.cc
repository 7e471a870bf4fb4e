// Values, tables and documents as text.

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/description.h"
#include "cli/explanation.h"
#include "cli/format.h"
#include "cli/job_table.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromCivil(absl::CivilSecond(2026, 11, 21, 1, 2, 3), absl::UTCTimeZone());

void Set(absl::Time time, google::protobuf::Timestamp* timestamp) {
  timestamp->set_seconds(absl::ToUnixSeconds(time));
}

TEST(FormatTest, DurationsNeverLoseTheirDays) {
  EXPECT_EQ(DurationText(absl::Seconds(0)), "0s");
  EXPECT_EQ(DurationText(absl::Milliseconds(59'900)), "59s");
  EXPECT_EQ(DurationText(absl::Seconds(61)), "1m01s");
  EXPECT_EQ(DurationText(absl::Minutes(125)), "2h05m");
  EXPECT_EQ(DurationText(absl::Hours(76)), "3d04h");
  EXPECT_EQ(DurationText(absl::Seconds(-5)), "0s");
}

TEST(FormatTest, ProgressSaysHowFarHowFastAndHowLong) {
  constexpr int64_t kMi = 1 << 20;
  EXPECT_EQ(ProgressLine("packing", 512 * kMi, 2048 * kMi, absl::Seconds(4), 99),
            "packing [======>                 ]  25%  512Mi of 2Gi, 128Mi/s, 12s left");
  EXPECT_EQ(ProgressLine("packing", 0, kMi, absl::ZeroDuration(), 99),
            "packing [>                       ]   0%  0 of 1Mi");
  EXPECT_EQ(ProgressLine("packing", 0, 0, absl::Seconds(1), 99),
            "packing [========================] 100%  0 of 0");
  EXPECT_EQ(ProgressLine("packing", 1, 2, absl::Seconds(1), 12), "packing [===");
}

TEST(FormatTest, TimesShowHoursAndMinutes) {
  EXPECT_EQ(FormatMinute(kNow), "Nov-21 01:02");
  EXPECT_EQ(FormatSecond(kNow), "Nov-21 01:02:03");
}

TEST(EventTableTest, SaysHowOftenAndSinceWhen) {
  v1::ListEventsResponse events;
  v1::Event* event = events.add_events();
  Set(kNow, event->mutable_time());
  event->set_message("disk full");
  *events.add_events() = *event;
  events.mutable_events(1)->set_count(37);
  Set(kNow - absl::Seconds(60), events.mutable_events(1)->mutable_first_time());
  const Table table = EventTable(events, false);
  EXPECT_EQ(table.rows.at(0).back().text, "disk full");
  EXPECT_EQ(table.rows.at(1).back().text, "disk full (37 times since Nov-21 01:01:03)");
}

TEST(FormatTest, Amounts) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1536), "1.5Ki");
  EXPECT_EQ(FormatBytes(int64_t{1} << 30), "1Gi");
  EXPECT_EQ(FormatCores(2000), "2");
  EXPECT_EQ(FormatCores(10'000), "10");
  EXPECT_EQ(FormatCores(250), "0.25");
  EXPECT_EQ(FormatCores(0), "0");
  EXPECT_EQ(FormatResources({}), "none");
}

TEST(FormatTest, StatusTellsWhy) {
  v1::JobStatus status;
  status.set_phase(v1::JOB_PHASE_PENDING);
  EXPECT_EQ(StatusText(status), "Pending");
  status.set_reason("Unschedulable");
  EXPECT_EQ(StatusText(status), "Pending (Unschedulable)");
  status.set_cancel_requested(true);
  EXPECT_EQ(StatusText(status), "Pending (Cancelling)");
  status.set_phase(v1::JOB_PHASE_CANCELLED);
  status.set_reason("Cancelled");
  EXPECT_EQ(StatusText(status), "Cancelled");
}

TEST(FormatTest, WhatGoesWrongIsNoFigureAmongOthers) {
  v1::JobStatus status;
  EXPECT_EQ(EtaText(status, kNow), "-");
  Set(kNow + absl::Seconds(5), status.mutable_estimated_completion_time());
  EXPECT_EQ(EtaText(status, kNow), "5s");
  EXPECT_EQ(EtaText(status, kNow + absl::Seconds(6)), "overdue") << "as of a job that hangs";
  v1::ReportedMetric* loss = status.mutable_progress()->add_metrics();
  loss->set_name("loss");
  loss->set_value(-std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(LossCell(status).text, "nan!");
  EXPECT_EQ(LossCell(status).colour, Colour::kRed);
  status.set_phase(v1::JOB_PHASE_SUCCEEDED);
  EXPECT_EQ(StatusText(status), "Succeeded (loss nan!)");
  status.set_phase(v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(StatusText(status), "Running (loss nan!)");
  loss->set_value(std::numeric_limits<double>::infinity());
  EXPECT_EQ(StatusText(status), "Running (loss inf!)");
  loss->set_value(0);
  EXPECT_EQ(LossCell(status).text, "0");
  EXPECT_EQ(StatusText(status), "Running");
  EXPECT_EQ(StatusColour(status), Colour::kGreen);
  status.set_reason("NoSteps");
  EXPECT_EQ(StatusText(status), "Running (NoSteps)");
  status.set_phase(v1::JOB_PHASE_RESCALING);
  EXPECT_EQ(StatusText(status), "Rescaling (NoSteps)");
  EXPECT_EQ(StatusColour(status), Colour::kRed);
  EXPECT_EQ(FigureText(3.561e32), "3.56e+32");
}

TEST(FormatTest, TextCannotSteerTheTerminal) {
  EXPECT_EQ(Printable("a\x1b[31mb\nc\xc2\x9b"), "a\\x1b[31mb c\\x9b");
  EXPECT_EQ(Printable("Zürich 東京"), "Zürich 東京");
}

TEST(TableTest, AlignsColumns) {
  const Table table = {{"NAME", "STATUS", "N"},
                       {{"a", Cell("Running", Colour::kGreen), "1"}, {"größe", "x", "10"}}};
  EXPECT_EQ(Render(table, false),
            "NAME    STATUS    N\n"
            "a       Running   1\n"
            "größe   x         10\n");
}

TEST(TableTest, ColoursCountForNoWidth) {
  const Table table = {{"A", "B"}, {{Cell("x", Colour::kRed), "y"}}};
  EXPECT_EQ(Render(table, true), "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n\x1b[31mx\x1b[0m   y\n");
}

TEST(JobTableTest, ShowsAJobWithoutAnyStatus) {
  v1::ListJobsResponse jobs;
  jobs.add_jobs()->set_name("a");
  EXPECT_EQ(Render(JobTable(jobs, {}, kNow), false),
            "NAME   STATUS        START(UTC)   RUNTIME   REPLICAS   RESTARTS   ETA\n"
            "a      Unspecified   -            -         0          0          -\n");
}

TEST(JobTableTest, ShowsRunningAndFinishedJobs) {
  v1::ListJobsResponse jobs;
  v1::Job* job = jobs.add_jobs();
  job->set_namespace_("default");
  job->set_name("a");
  job->mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  job->mutable_status()->add_allocation("n1");
  job->mutable_status()->add_allocation("n1");
  job->mutable_status()->set_restarts(3);
  Set(kNow - absl::Hours(50), job->mutable_status()->mutable_start_time());
  Set(kNow + absl::Minutes(7), job->mutable_status()->mutable_estimated_completion_time());
  job = jobs.add_jobs();
  job->set_namespace_("other");
  job->set_name("b");
  job->mutable_status()->set_phase(v1::JOB_PHASE_FAILED);
  job->mutable_status()->set_reason("TooManyFailures");
  Set(kNow - absl::Hours(2), job->mutable_status()->mutable_start_time());
  Set(kNow - absl::Hours(1), job->mutable_status()->mutable_completion_time());
  EXPECT_EQ(
      Render(JobTable(jobs, {.with_namespace = true}, kNow), false),
      "NAMESPACE   NAME   STATUS                     START(UTC)     RUNTIME   REPLICAS   RESTARTS   ETA\n"
      "default     a      Running                    Nov-18 23:02   2d02h     2          3          7m00s\n"
      "other       b      Failed (TooManyFailures)   Nov-20 23:02   1h00m     0          0          -\n");
}

TEST(DescriptionTest, TellsSpecStatusReplicasAndEvents) {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name("a");
  job.set_uid("u1");
  (*job.mutable_labels())["team"] = "vision";
  job.mutable_spec()->mutable_template_()->add_command("train");
  job.mutable_spec()->mutable_template_()->add_args("two words");
  for (const int count : {1, 2, 4}) job.mutable_spec()->add_allowed_replicas(count);
  job.mutable_spec()->set_priority(10);
  job.mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  job.mutable_status()->set_rescales(3);
  job.mutable_status()->mutable_rescale_duration()->set_nanos(62'000'000);
  job.mutable_status()->mutable_progress()->set_total_epochs(10);
  job.mutable_status()->mutable_progress()->set_fraction(0.25);
  job.mutable_status()->mutable_hints()->set_init_batch_size(64);
  v1::Replica* replica = job.mutable_status()->add_replicas();
  replica->set_replica_id("a-u1-1-0");
  replica->set_node_id("n1");
  replica->set_state(v1::REPLICA_STATE_EXITED);
  replica->set_exit_code(127);
  replica->set_message("command not found");
  v1::PythonEnvironment* python = job.mutable_spec()->mutable_template_()->mutable_python();
  python->set_interpreter("python3");
  python->set_requirements("# data\nnumpy==1.24\n\n  torch\n");
  v1::ListEventsResponse events;
  events.add_events()->set_reason("ReplicaFailed");
  v1::ReportedMetric* loss = job.mutable_status()->mutable_progress()->add_metrics();
  loss->set_name("loss");
  loss->set_value(std::numeric_limits<double>::quiet_NaN());
  loss->set_step(7);
  const std::string text = DescribeJob(job, {.events = events}, kNow, false);
  for (const char* part :
       {"default/a (u1)", "team=vision", "train 'two words'",
        "Python:            python3 with numpy==1.24, torch\n", "Replicas:          1 to any",
        "Allowed:           1, 2, 4", "Priority:          10", "Max restarts:      3",
        "Phase:             Running", "Epoch:             1 of 10", "Done:              25 %",
        "Exited (code 127)", "command not found", "ReplicaFailed", "Batch size:        64",
        "Re-scales:         3 in place", "Re-scale takes:    62ms",
        "Reports:           loss is not a number at step 7"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(NodeTableTest, TheWideOneSaysHowMuchOfEachMachineIsInUse) {
  v1::ListNodesResponse nodes;
  v1::Node* node = nodes.add_nodes();
  node->set_node_id("n0");
  node->mutable_status()->set_phase(v1::NODE_PHASE_READY);
  v1::MachineUse* use = node->mutable_status()->mutable_use();
  use->set_cpus(3.25);
  use->set_memory_bytes(int64_t{12} << 30);
  use->set_memory_total_bytes(int64_t{64} << 30);
  for (const int celsius : {60, 71}) {
    v1::GpuUse* gpu = use->add_gpus();
    gpu->set_utilization(celsius == 60 ? 0.5 : 1);
    gpu->set_memory_bytes(int64_t{4} << 30);
    gpu->set_memory_total_bytes(int64_t{16} << 30);
    gpu->set_temperature_celsius(celsius);
  }
  *nodes.add_nodes() = *node;
  nodes.mutable_nodes(1)->set_node_id("n1");
  nodes.mutable_nodes(1)->mutable_status()->clear_use();
  EXPECT_EQ(
      Render(NodeTable(nodes, /*wide=*/true, kNow), false),
      "NAME   STATUS   REPLICAS   CPU   MEMORY   GPUS   AGE   CPU BUSY   MEMORY IN USE   GPU BUSY   GPU "
      "MEMORY   HOTTEST GPU   LABELS, TAINTS\n"
      "n0     Ready    0          0/0   0/0      0/0    -     3.2        12Gi/64Gi       75%        "
      "8Gi/32Gi     71 °C         -\n"
      "n1     Ready    0          0/0   0/0      0/0    -     -          -               -          -     "
      "       -             -\n");
  EXPECT_EQ(Render(NodeTable(nodes, /*wide=*/false, kNow), false),
            "NAME   STATUS   REPLICAS   CPU   MEMORY   GPUS   AGE   LABELS, TAINTS\n"
            "n0     Ready    0          0/0   0/0      0/0    -     -\n"
            "n1     Ready    0          0/0   0/0      0/0    -     -\n");
}

TEST(ExplanationTest, SaysWhatAJobWaitsFor) {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name("a");
  v1::JobStatus* status = job.mutable_status();
  status->set_phase(v1::JOB_PHASE_PENDING);
  status->set_reason("Queued");
  status->set_message("waits for an allocation");
  EXPECT_EQ(ExplainJob(job, {}),
            "Job:        default/a\n"
            "Phase:      Pending (Queued)\n"
            "Replicas:   none\n"
            "Reason:     the allocator has not decided on this job yet\n");
  status->set_allocation_reason("waits for room for 2 replicas");
  status->set_message("waits for room for 2 replicas");
  status->add_allocation_explanation("Jobs of a higher priority hold the nodes.");
  EXPECT_EQ(ExplainJob(job, {}),
            "Job:        default/a\n"
            "Phase:      Pending (Queued)\n"
            "Replicas:   none\n"
            "Reason:     waits for room for 2 replicas\n"
            "  - Jobs of a higher priority hold the nodes.\n");
  status->set_allocation_reason("maxReplicas is 1");
  status->add_desired_allocation("n0");
  status->set_reason("WaitingForRoom");
  status->set_message("node n0 still runs other replicas");
  status->clear_allocation_explanation();
  EXPECT_EQ(ExplainJob(job, {}),
            "Job:        default/a\n"
            "Phase:      Pending (WaitingForRoom)\n"
            "Replicas:   none\n"
            "Gets:       1 on n0\n"
            "Reason:     maxReplicas is 1\n"
            "Waits:      node n0 still runs other replicas\n");
}

TEST(ExplanationTest, TellsOfMovesAndOfJobsThatHaveEnded) {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name("a");
  v1::JobStatus* status = job.mutable_status();
  status->set_phase(v1::JOB_PHASE_STOPPING);
  status->set_reason("Rescaling");
  status->add_allocation("n0");
  for (int i = 0; i < 2; ++i) status->add_desired_allocation("n1");
  status->set_allocation_reason("there is\x1b[31m room");
  EXPECT_EQ(ExplainJob(job, {}),
            "Job:        default/a\n"
            "Phase:      Stopping (Rescaling)\n"
            "Replicas:   1 on n0\n"
            "Moves to:   2 on n1 (2)\n"
            "Reason:     there is\\x1b[31m room\n");
  status->set_phase(v1::JOB_PHASE_FAILED);
  status->set_reason("MaxRestartsExceeded");
  status->set_message("replica 0 exited with code 1");
  status->clear_allocation();
  status->clear_desired_allocation();
  EXPECT_EQ(ExplainJob(job, {}),
            "Job:        default/a\n"
            "Phase:      Failed (MaxRestartsExceeded)\n"
            "Replicas:   none\n"
            "Reason:     the job has ended and gets no more replicas: replica 0 exited with code 1\n");
}

TEST(YamlTest, KeepsTextsTexts) {
  const Json json = {{"name", "a: b"},
                     {"number", 5},
                     {"text", "5"},
                     {"yes", "no"},
                     {"empty", Json::array()},
                     {"list", {1, Json{{"x", true}, {"y", nullptr}}}},
                     {"map", {{"a b", "c\nd"}}}};
  EXPECT_EQ(ToYaml(json),
            "name: \"a: b\"\n"
            "number: 5\n"
            "text: \"5\"\n"
            "\"yes\": \"no\"\n"
            "empty: []\n"
            "list:\n"
            "  - 1\n"
            "  - x: true\n"
            "    \"y\": null\n"
            "map:\n"
            "  \"a b\": \"c\\nd\"\n");
}

}  // namespace
}  // namespace adaptdl::cli
