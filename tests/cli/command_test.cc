// Listing, showing, following and ending jobs by the real program.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/messages/proto_time.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

nlohmann::json Json(const ProgramResult& result) { return nlohmann::json::parse(result.out, nullptr, false); }

TEST_F(CommandTest, ListsJobsAsATable) {
  supervisor_.AddJob(EndedJob("first", v1::JOB_PHASE_SUCCEEDED));
  supervisor_.AddJob(PendingJob("second"));
  const ProgramResult result = Run({"ls"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "NAME     STATUS                    START(UTC)     RUNTIME   REPLICAS   RESTARTS   ETA\n"
            "first    Succeeded                 Nov-14 22:13   1h00m     0          1          -\n"
            "second   Pending (Unschedulable)   -              -         0          0          -\n");
}

TEST_F(CommandTest, ListsJobsAsJsonAndYaml) {
  supervisor_.AddJob(EndedJob("first", v1::JOB_PHASE_FAILED));
  const nlohmann::json json = Json(Run({"ls", "-o", "json"}));
  EXPECT_EQ(json["jobs"][0]["name"], "first");
  EXPECT_EQ(json["jobs"][0]["status"]["phase"], "JOB_PHASE_FAILED");
  EXPECT_EQ(json["jobs"][0]["status"]["failures"], 0);
  EXPECT_EQ(json["jobs"][0]["status"]["startTime"], "2023-11-14T22:13:20Z");
  const ProgramResult yaml = Run({"-o", "yaml", "ls"});
  EXPECT_THAT(yaml.out, StartsWith("jobs:\n  - namespace: \"default\"\n    name: \"first\"\n"));
}

TEST_F(CommandTest, FiltersJobs) {
  v1::Job job = PendingJob("labelled");
  (*job.mutable_labels())["team"] = "vision";
  supervisor_.AddJob(job);
  supervisor_.AddJob(EndedJob("ended", v1::JOB_PHASE_SUCCEEDED));
  job = PendingJob("elsewhere");
  job.set_namespace_("other");
  supervisor_.AddJob(job);
  EXPECT_EQ(Json(Run({"ls", "-o", "json"}))["jobs"].size(), 2u);
  EXPECT_EQ(Json(Run({"ls", "-A", "-o", "json"}))["jobs"].size(), 3u);
  EXPECT_EQ(Json(Run({"ls", "--namespace", "other", "-o", "json"}))["jobs"].size(), 1u);
  EXPECT_EQ(Json(Run({"ls", "--phase", "pending,running", "-o", "json"}))["jobs"][0]["name"], "labelled");
  EXPECT_EQ(Json(Run({"ls", "-l", "team=vision", "-o", "json"}))["jobs"].size(), 1u);
  EXPECT_THAT(Run({"ls", "-l", "team=audio"}).err, HasSubstr("no jobs"));
  EXPECT_EQ(Run({"ls", "--phase", "sleeping"}).code, 2);
  EXPECT_EQ(Run({"ls", "-l", "team"}).code, 2);
}

TEST_F(CommandTest, SortsAndChoosesJobs) {
  supervisor_.AddJob(EndedJob("train-b", v1::JOB_PHASE_SUCCEEDED));
  v1::Job job = PendingJob("train-a");
  job.mutable_status()->add_allocation("n0");
  supervisor_.AddJob(job);
  const auto names = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"ls", "-o", "json"});
    std::string text;
    const nlohmann::json document = Json(Run(arguments));
    for (const nlohmann::json& found : document["jobs"]) text += found["name"].get<std::string>() + " ";
    return text;
  };
  EXPECT_EQ(names({"--sort", "name"}), "train-a train-b ");
  EXPECT_EQ(names({"--sort", "name", "--reverse"}), "train-b train-a ");
  EXPECT_EQ(names({"--sort", "replicas"}), "train-a train-b ");
  EXPECT_EQ(names({"--since", "1h"}), "train-a ");
  EXPECT_EQ(names({"--name", "*-b"}), "train-b ");
  EXPECT_THAT(Run({"ls", "-o", "wide"}).out, HasSubstr("GOODPUT"));
  EXPECT_EQ(Run({"ls", "--sort", "colour"}).code, 2);
  EXPECT_EQ(Run({"ls", "--since", "then"}).code, 2);
}

TEST_F(CommandTest, DescribesAJob) {
  supervisor_.AddJob(EndedJob("a", v1::JOB_PHASE_SUCCEEDED));
  v1::Event event;
  event.set_id(1);
  event.set_job("a");
  event.set_reason("Submitted");
  supervisor_.AddEvent(event);
  const ProgramResult result = Run({"describe", "a"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Phase:             Succeeded"));
  EXPECT_THAT(result.out, HasSubstr("Submitted"));
  const nlohmann::json json = Json(Run({"describe", "default/a", "-o", "json"}));
  EXPECT_EQ(json["job"]["name"], "a");
  EXPECT_EQ(json["events"][0]["reason"], "Submitted");
}

TEST_F(CommandTest, ExplainsAJob) {
  v1::Job job = PendingJob("a");
  job.mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  job.mutable_status()->clear_reason();
  for (const char* node : {"n0", "n1", "n0"}) {
    job.mutable_status()->add_allocation(node);
    job.mutable_status()->add_desired_allocation(node);
  }
  job.mutable_status()->set_allocation_reason("maxReplicas is 3");
  job.mutable_status()->add_allocation_explanation("3 replicas bring 2.5.");
  supervisor_.AddJob(job);
  const ProgramResult result = Run({"explain", "a"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Job:        default/a\n"
            "Phase:      Running\n"
            "Replicas:   3 on n0 (2), n1\n"
            "Reason:     maxReplicas is 3\n"
            "  - 3 replicas bring 2.5.\n");
  const nlohmann::json json = Json(Run({"explain", "default/a", "-o", "json"}));
  EXPECT_EQ(json["name"], "a");
  EXPECT_EQ(json["phase"], "JOB_PHASE_RUNNING");
  EXPECT_EQ(json["allocation"].size(), 3u);
  EXPECT_EQ(json["allocationReason"], "maxReplicas is 3");
  EXPECT_EQ(json["allocationExplanation"][0], "3 replicas bring 2.5.");
  EXPECT_THAT(Run({"explain", "a", "-o", "yaml"}).out, HasSubstr("allocationReason: \"maxReplicas is 3\"\n"));
}

TEST_F(CommandTest, NamesAJobThatDoesNotExist) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"describe", "ghost"},
                                             {"explain", "ghost"},
                                             {"logs", "ghost"},
                                             {"wait", "ghost"},
                                             {"cancel", "ghost"},
                                             {"delete", "ghost"}}) {
    const ProgramResult result = Run(arguments);
    EXPECT_EQ(result.code, 1) << arguments[0];
    EXPECT_EQ(result.err, "error: job ghost does not exist\n") << arguments[0];
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(CommandTest, PrintsLogsWithRanks) {
  supervisor_.AddJob(EndedJob("a", v1::JOB_PHASE_SUCCEEDED));
  v1::StreamLogsResponse logs;
  const auto add = [&](int rank, const std::string& text, bool partial) {
    v1::LogLine* line = logs.add_lines();
    line->set_rank(rank);
    line->set_replica_id(absl::StrCat("r", rank));
    line->set_text(text);
    line->set_partial(partial);
    line->mutable_time()->set_seconds(1'700'000'000 + logs.lines_size());
  };
  add(0, "first", false);
  add(1, "a long ", true);
  add(0, "between", false);
  add(1, "line", false);
  supervisor_.AddLogs(logs);
  v1::StreamLogsResponse warning;
  warning.set_warning("the log of r2 is gone with its node");
  supervisor_.AddLogs(warning);
  ProgramResult result = Run({"logs", "a"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[0] first\n[0] between\n[1] a long line\n");
  EXPECT_EQ(result.err, "warning: the log of r2 is gone with its node\n");
  result = Run({"logs", "a", "--rank", "1", "--tail", "5", "--group", "2", "--timestamps"});
  EXPECT_THAT(result.out, StartsWith("2023-11-14T22:13:21.000000Z first\n"));
  EXPECT_EQ(supervisor_.last_logs_request().rank(), 1);
  EXPECT_EQ(supervisor_.last_logs_request().tail_lines(), 5);
  EXPECT_EQ(supervisor_.last_logs_request().group(), 2);
  result = Run({"logs", "a", "--grep", "fir.t", "--since", "2023-11-14T22:00:00Z", "--all-ranks"});
  EXPECT_EQ(supervisor_.last_logs_request().pattern(), "fir.t");
  EXPECT_EQ(supervisor_.last_logs_request().since().seconds(), 1'699'999'200);
  EXPECT_FALSE(supervisor_.last_logs_request().has_rank());
  EXPECT_EQ(Run({"logs", "a", "--all-ranks", "--rank", "0"}).code, 2);
  EXPECT_EQ(Run({"logs", "a", "--since", "yesterday"}).code, 2);
  result = Run({"logs", "a", "-o", "json"});
  EXPECT_THAT(result.out, StartsWith("{\"time\":\"2023-11-14T22:13:21.000000Z\",\"source\":\"stdout\""));
}

TEST_F(CommandTest, SaysWhereTheLinesOfTheNextAttemptBegin) {
  supervisor_.AddJob(EndedJob("a", v1::JOB_PHASE_SUCCEEDED));
  // Group 2 is the first attempt's, changed in place; groups 3 and 4 are attempts of their own.
  const std::vector<std::pair<std::string, int64_t>> events = {
      {"Submitted", 0}, {"Allocated", 1}, {"GroupStarted", 1}, {"GroupStarted", 2},
      {"BackOff", 2},   {"Allocated", 3}, {"GroupStarted", 3}};
  int64_t id = 0;
  for (const auto& [reason, group] : events) {
    v1::Event event;
    event.set_id(++id);
    event.set_job("a");
    event.set_reason(reason);
    event.set_group(group);
    event.set_message(absl::StrCat("group ", group, ": 1 replica on n", group));
    event.mutable_time()->set_seconds(1'700'000'000 + group);
    supervisor_.AddEvent(event);
  }
  v1::StreamLogsResponse logs;
  for (const int64_t group : {1, 2, 1, 3, 3}) {
    v1::LogLine* line = logs.add_lines();
    line->set_replica_id(absl::StrCat("r", group));
    line->set_group(group);
    line->set_text(absl::StrCat("line ", logs.lines_size()));
    line->mutable_time()->set_seconds(1'700'000'000 + logs.lines_size());
  }
  supervisor_.AddLogs(logs);
  const ProgramResult result = Run({"logs", "a"});
  EXPECT_EQ(result.out, "[0] line 1\n[0] line 2\n[0] line 3\n[0] line 4\n[0] line 5\n");
  EXPECT_EQ(result.err, "--- attempt 2, Nov-14 22:13:23 UTC, group 3: 1 replica on n3 ---\n");
  EXPECT_EQ(Run({"logs", "a", "--attempt", "1"}).out, "[0] line 1\n[0] line 2\n[0] line 3\n");
  EXPECT_EQ(Run({"logs", "a", "--attempt", "2"}).out, "[0] line 4\n[0] line 5\n");
  EXPECT_THAT(Run({"logs", "a", "--attempt", "2", "-o", "json"}).out, Not(HasSubstr("line 3")));
  EXPECT_EQ(Run({"logs", "a", "--attempt", "2"}).err, "");
  EXPECT_EQ(Run({"logs", "a", "--group", "3"}).err, "") << "who asks for it knows";
  EXPECT_EQ(Run({"logs", "a", "-o", "json"}).err, "");
  EXPECT_EQ(Run({"logs", "a", "--attempt", "3"}).err,
            "error: --attempt 3: the newest attempt at job a is 2\n");
  EXPECT_EQ(Run({"logs", "a", "--attempt", "1", "--group", "3"}).code, 2);
}

TEST_F(CommandTest, SaysWhatASubmittedJobWaitsForBeforeItPrintsItsOutput) {
  supervisor_.LetJobsWaitUntilWatched("one replica needs 2 CPUs");
  v1::StreamLogsResponse logs;
  logs.add_lines()->set_text("trained");
  supervisor_.AddLogs(logs);
  const ProgramResult result =
      Run({"submit", "--name", "a", "--follow", "--max-replicas", "1", "--", "true"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "default/a waits: one replica needs 2 CPUs\n");
  EXPECT_THAT(result.out, HasSubstr("trained\n"));
}

TEST_F(CommandTest, TakesABrokenStreamUpAgainWithoutRepeatingLines) {
  supervisor_.AddJob(EndedJob("a", v1::JOB_PHASE_SUCCEEDED));
  v1::StreamLogsResponse logs;
  for (const char* text : {"one", "two", "three", "two"}) {
    v1::LogLine* line = logs.add_lines();
    line->set_replica_id("r");
    line->set_text(text);
    // Several lines bear one time.
    line->mutable_time()->set_seconds(1'700'000'000 + logs.lines_size() / 3);
  }
  supervisor_.AddLogs(logs);
  supervisor_.BreakNextLogs();
  const ProgramResult result = Run({"logs", "-f", "a", "--rank", "0"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "one\ntwo\nthree\ntwo\n");
  supervisor_.BreakNextLogs();
  EXPECT_EQ(Run({"logs", "a"}).code, 1);
}

TEST_F(CommandTest, WaitsAndTellsTheEndByItsExitCode) {
  supervisor_.AddJob(EndedJob("good", v1::JOB_PHASE_SUCCEEDED));
  supervisor_.AddJob(EndedJob("bad", v1::JOB_PHASE_FAILED));
  supervisor_.AddJob(EndedJob("gone", v1::JOB_PHASE_CANCELLED));
  supervisor_.AddJob(PendingJob("slow"));
  EXPECT_EQ(Run({"wait", "good"}).code, 0);
  EXPECT_EQ(Run({"wait", "good", "bad", "gone"}).code, 3);
  EXPECT_EQ(Run({"wait", "gone", "good"}).code, 4);
  EXPECT_EQ(Run({"wait", "good"}).out, "default/good Succeeded\n");
  const ProgramResult slow = Run({"wait", "slow", "--timeout", "100ms"});
  EXPECT_EQ(slow.code, 124);
  EXPECT_EQ(slow.err, "timeout: job default/slow is still Pending (Unschedulable)\n");
  v1::Job large = PendingJob("large");
  large.mutable_status()->set_message("one replica needs 2 CPUs");
  supervisor_.AddJob(large);
  EXPECT_THAT(Run({"wait", "large", "--timeout", "100ms"}).err,
              StartsWith("default/large waits: one replica needs 2 CPUs\n"));
  EXPECT_THAT(Run({"logs", "-f", "large"}).err, HasSubstr("one replica needs 2 CPUs, has written nothing"));
}

TEST_F(CommandTest, ListsEventsOfAllPages) {
  for (int i = 1; i <= 5; ++i) {
    v1::Event event;
    event.set_id(i);
    event.set_job(i % 2 == 1 ? "odd" : "even");
    event.set_reason("Rescaling");
    event.set_type(v1::EVENT_TYPE_NORMAL);
    event.set_group(i);
    event.set_message(absl::StrCat("from ", i, " to ", i + 1, " replicas"));
    event.mutable_time()->set_seconds(1'700'000'000 + i);
    supervisor_.AddEvent(event);
  }
  supervisor_.AddJob(EndedJob("odd", v1::JOB_PHASE_SUCCEEDED));
  EXPECT_EQ(Json(Run({"events", "-o", "json"}))["events"].size(), 5u);
  EXPECT_EQ(Run({"events", "even"}).out,
            "TIME(UTC)         TYPE     REASON      GROUP   MESSAGE\n"
            "Nov-14 22:13:22   Normal   Rescaling   2       from 2 to 3 replicas\n"
            "Nov-14 22:13:24   Normal   Rescaling   4       from 4 to 5 replicas\n");
  EXPECT_EQ(Json(Run({"events", "--since", "2023-11-14T22:13:23Z", "-o", "json"}))["events"].size(), 3u);
  EXPECT_THAT(Run({"events", "--type", "warning"}).err, HasSubstr("no events"));
  EXPECT_EQ(Run({"events", "--type", "strange"}).code, 2);
  const ProgramResult followed = Run({"events", "-f", "odd"});
  EXPECT_EQ(followed.code, 0);
  EXPECT_THAT(followed.out, HasSubstr("from 5 to 6 replicas"));
}

TEST_F(CommandTest, DrawsATimeline) {
  v1::Job job = EndedJob("a", v1::JOB_PHASE_SUCCEEDED);
  job.mutable_status()->mutable_completion_time()->set_seconds(1'700'000'004);
  supervisor_.AddJob(job);
  v1::Event event;
  event.set_id(1);
  event.set_job("a");
  event.set_job_uid("uid-a");
  event.set_replicas(2);
  event.mutable_time()->set_seconds(1'700'000'001);
  supervisor_.AddEvent(event);
  EXPECT_THAT(Run({"timeline"}).out, HasSubstr("\na  .222\n"));
  EXPECT_EQ(Json(Run({"timeline", "a", "-o", "json"}))["jobs"][0]["changes"][0]["replicas"], 2);
}

TEST_F(CommandTest, UpdatesHoldsAndResumes) {
  supervisor_.AddJob(PendingJob("a"));
  EXPECT_EQ(Run({"update", "a", "--max-replicas", "8", "--priority", "-3"}).out, "job default/a updated\n");
  EXPECT_EQ(Run({"suspend", "a"}).out, "job default/a is held\n");
  EXPECT_EQ(Json(Run({"resume", "a", "-o", "json"}))["jobs"][0]["name"], "a");
  const std::vector<v1::UpdateJobRequest> updates = supervisor_.updates();
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_EQ(updates[0].max_replicas(), 8);
  EXPECT_EQ(updates[0].priority(), -3);
  EXPECT_FALSE(updates[0].has_min_replicas() || updates[0].has_suspend());
  EXPECT_TRUE(updates[1].suspend());
  EXPECT_TRUE(updates[2].has_suspend() && !updates[2].suspend());
  EXPECT_THAT(Run({"update", "a"}).err, HasSubstr("nothing to change"));
}

TEST_F(CommandTest, CancelsAndDeletes) {
  supervisor_.AddJob(PendingJob("a"));
  const ProgramResult refused = Run({"delete", "a"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "error: job a has not finished (--cancel stops it first)\n");
  EXPECT_EQ(Run({"delete", "a", "--cancel"}).out, "job default/a deleted\n");
  EXPECT_EQ(supervisor_.cancellations().size(), 1u);
  EXPECT_EQ(Run({"describe", "a"}).code, 1);
  supervisor_.AddJob(PendingJob("b"));
  EXPECT_EQ(Run({"cancel", "b"}).out, "job default/b is being cancelled\n");
}

TEST_F(CommandTest, ListsDrainsAndForgetsNodes) {
  v1::Node node;
  node.set_node_id("local-0");
  node.add_taints()->set_key("gpu");
  node.mutable_taints(0)->set_effect(v1::TAINT_EFFECT_NO_SCHEDULE);
  node.mutable_capacity()->set_cpu_millis(2000);
  node.mutable_capacity()->set_memory_bytes(int64_t{4} << 30);
  (*node.mutable_labels())["pool"] = "local";
  node.mutable_status()->set_phase(v1::NODE_PHASE_READY);
  node.mutable_status()->set_replicas(1);
  node.mutable_status()->mutable_allocated()->set_cpu_millis(1000);
  supervisor_.AddNode(node);
  EXPECT_EQ(Run({"nodes"}).out,
            "NAME      STATUS   REPLICAS   CPU   MEMORY   GPUS   AGE   LABELS, TAINTS\n"
            "local-0   Ready    1          1/2   0/4Gi    0/0    -     pool=local,gpu:NoSchedule\n");
  node.set_node_id("local-1");
  node.mutable_capacity()->set_gpus(7);
  node.add_problems("GPU-1f: GPU is lost");
  supervisor_.AddNode(node);
  EXPECT_EQ(Run({"nodes"}).out,
            "NAME      STATUS             REPLICAS   CPU   MEMORY   GPUS   AGE   LABELS, TAINTS\n"
            "local-0   Ready              1          1/2   0/4Gi    0/0    -     pool=local,gpu:NoSchedule\n"
            "local-1   Ready (problems)   1          1/2   0/4Gi    0/7    -     pool=local,gpu:NoSchedule\n"
            "\n"
            "local-1: GPU-1f: GPU is lost\n");
  EXPECT_EQ(Run({"forget", "local-0"}).err, "error: node local-0 is ready; drain it first\n");
  EXPECT_EQ(Run({"drain", "local-0"}).out, "node local-0 is draining, 1 replicas on it\n");
  EXPECT_EQ(Json(Run({"nodes", "-o", "json"}))["nodes"][0]["status"]["phase"], "NODE_PHASE_DRAINING");
  EXPECT_EQ(Run({"drain", "ghost"}).err, "error: node ghost does not exist\n");
  EXPECT_EQ(Run({"forget", "local-0"}).out, "node local-0 is forgotten\n");
  EXPECT_EQ(Run({"forget", "local-0"}).err, "error: node local-0 does not exist\n");
}

TEST_F(CommandTest, SetsListsAndRemovesQuotas) {
  EXPECT_EQ(Run({"quota", "ls"}).err, "no quotas\n");
  EXPECT_EQ(Run({"quota", "set", "team-a", "--gpus", "4"}).out, "namespace team-a: GPUs 4, weight 1\n");
  EXPECT_EQ(Run({"quota", "set", "team-a", "--weight", "2.5"}).out, "namespace team-a: GPUs 4, weight 2.5\n");
  EXPECT_EQ(Run({"quota", "set", "b", "--gpus", "0"}).out, "namespace b: GPUs no bound, weight 1\n");
  EXPECT_EQ(Run({"quota", "ls"}).out,
            "NAMESPACE   GPUS       WEIGHT   JOBS      SUBMISSIONS/MIN\n"
            "b           no bound   1        default   default\n"
            "team-a      4          2.5      default   default\n");
  EXPECT_EQ(Run({"quota", "set", "team-a", "--jobs", "50", "--submissions-per-minute", "6"}).out,
            "namespace team-a: GPUs 4, weight 2.5, unfinished jobs 50, submissions per minute 6\n");
  EXPECT_EQ(Json(Run({"quota", "ls", "-o", "json"}))["quotas"][1]["gpus"], 4);
  EXPECT_EQ(Run({"quota", "rm", "b"}).out, "namespace b has no quota any more\n");
  EXPECT_EQ(Run({"quota", "rm", "b"}).err, "error: namespace b has no quota\n");
  EXPECT_EQ(Run({"quota", "set", "b"}).code, 2);
  EXPECT_EQ(Run({"quota", "set", "b", "--gpus", "many"}).code, 2);
}

TEST_F(CommandTest, AsksForHealth) {
  EXPECT_EQ(Run({"health", supervisor_.address()}).out, "SERVING\n");
  EXPECT_EQ(Run({"health", supervisor_.address(), "--service", "no.such.Service"}).code, 1);
  const ProgramResult dead = Run({"health", "127.0.0.1:1", "--timeout", "1s"});
  EXPECT_EQ(dead.code, 1);
  EXPECT_THAT(dead.err, HasSubstr("127.0.0.1:1 is not healthy"));
}

TEST_F(CommandTest, RepeatsCallsThatDidNotGetThrough) {
  supervisor_.AddJob(EndedJob("a", v1::JOB_PHASE_SUCCEEDED));
  supervisor_.FailNext(2);
  EXPECT_EQ(Run({"ls"}).code, 0);
}

TEST_F(CommandTest, SaysHowToGetASupervisor) {
  const ProgramResult result = Run({"--supervisor", "127.0.0.1:1", "ls"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, StartsWith("error: supervisor unreachable at 127.0.0.1:1: is the cluster up? "
                                     "\"adaptdl cluster up\" starts one here"));
}

TEST_F(CommandTest, FindsTheLocalClustersSupervisor) {
  folder_.Write(".adaptdl/cluster.json", absl::StrCat("{\"supervisor\": \"", supervisor_.address(), "\"}"));
  EXPECT_EQ(RunProgram(folder_.path(), {"ls"}).err, "no jobs\n");
  folder_.Write("elsewhere/cluster.json", "{\"supervisor\": \"127.0.0.1:1\"}");
  EXPECT_EQ(RunProgram(folder_.path(), {"ls"}, {"ADAPTDL_HOME=" + folder_.path() + "/elsewhere"}).code, 1);
}

TEST_F(CommandTest, SaysWhyThereAreNoLogs) {
  v1::Job job = PendingJob("a");
  job.mutable_status()->set_reason("Unschedulable");
  job.mutable_status()->set_message("one replica needs 2 CPUs");
  supervisor_.AddJob(job);
  ProgramResult result = Run({"logs", "a"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_EQ(result.err,
            "note: default/a, which is Pending (Unschedulable): one replica needs 2 CPUs, has written "
            "nothing\n");
  EXPECT_THAT(Run({"logs", "a", "--grep", "x"}).err,
              HasSubstr("no line of default/a is among what you asked for"));
}

TEST_F(CommandTest, TellsThatARunningJobTakesNoSteps) {
  v1::Job job = PendingJob("a");
  job.mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  job.mutable_status()->mutable_progress()->set_optimizer_steps(1999);
  supervisor_.AddJob(job);
  EXPECT_THAT(Run({"describe", "a"}).out, HasSubstr("Steps:             1999\n")) << "without a history";
  v1::GetJobHistoryResponse history;
  for (const int ago : {300, 200, 100}) {
    v1::HistoryPoint* point = history.add_points();
    *point->mutable_end() = messages::ToProto(RealClock().Now() - absl::Seconds(ago));
    point->set_replicas(1);
    point->set_optimizer_steps(ago == 300 ? 1000 : 1999);
  }
  supervisor_.history().SetHistory(history);
  EXPECT_THAT(Run({"describe", "a"}).out, HasSubstr("Steps:             1999, and none for 3m2"));
  history.mutable_points()->rbegin()->set_optimizer_steps(1998);
  supervisor_.history().SetHistory(history);
  EXPECT_THAT(Run({"describe", "a"}).out, HasSubstr("Steps:             1999\n")) << "it has taken one since";
}

TEST_F(CommandTest, ShowsNoEscapesWithoutATerminal) {
  v1::Job job = PendingJob("a");
  job.mutable_status()->set_reason("\x1b[31mEvil");
  supervisor_.AddJob(job);
  EXPECT_THAT(Run({"ls"}).out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace adaptdl::cli
