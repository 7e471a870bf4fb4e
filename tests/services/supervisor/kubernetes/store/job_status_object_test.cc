// What the status of an AdaptDLJob keeps of a job, and what it refuses. A field of the record that is added breaks the
// build (full_record.h), until somebody has said whether it is in the status, or soft.

#include "services/supervisor/kubernetes/store/job_status_object.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/supervisor/store/job_codec.h"
#include "tests/kube/yaml.h"
#include "tests/services/supervisor/full_record.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::HasSubstr;

v1::Hints FullHints() {
  v1::Hints hints;
  hints.set_init_batch_size(128);
  hints.set_max_batch_size(1024);
  hints.set_min_local_batch_size(32);
  hints.set_max_local_batch_size(512);
  hints.set_gradient_accumulation(true);
  hints.set_max_profiled_replicas(4);
  const auto fill = [](v1::PerfParams* perf) {
    perf->set_alpha_c(0.1);
    perf->set_beta_c(0.012345678901234567);
    perf->set_alpha_n(1);
    perf->set_beta_n(1e-7);
    perf->set_alpha_r(0.3);
    perf->set_beta_r(0.4);
    perf->set_gamma(1.1);
  };
  fill(hints.mutable_perf_params());
  hints.mutable_grad_params()->set_norm(0.5);
  hints.mutable_grad_params()->set_var(2);
  v1::GpuTypePerfParams* known = hints.add_perf_params_by_gpu_type();
  known->set_gpu_type("a100");
  fill(known->mutable_perf_params());
  return hints;
}

// Replicas of the current group (3), of which one has ended, and one that was launched for a plan.
std::vector<ReplicaRecord> Replicas(const JobRecord& record) {
  std::vector<ReplicaRecord> replicas(4);
  for (int i = 0; i < 4; ++i) {
    ReplicaRecord& replica = replicas[i];
    replica.job_uid = record.uid();
    replica.launch_group = i < 3 ? 3 : 4;
    replica.launch_rank = i;
    replica.replica.set_replica_id(
        absl::StrCat(record.state.id_prefix, "-", replica.launch_group, "-", replica.launch_rank));
    replica.replica.set_group(replica.launch_group);
    replica.replica.set_rank(i);
    replica.replica.set_node_id("n1");
    replica.replica.set_state(v1::REPLICA_STATE_RUNNING);
  }
  replicas[3].replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  replicas[2].launch_group = 2;
  replicas[2].launch_rank = 7;
  replicas[2].replica.set_replica_id("an-unusual-name");
  replicas[2].stop_requested = true;
  replicas[0].master_port = 4711;
  ReplicaRecord& ended = replicas[1];
  ended.node_leaving = true;
  ended.end_handled = true;
  ended.loss = jobs::LossCause::kVanished;
  ended.replica.set_state(v1::REPLICA_STATE_LOST);
  ended.replica.set_exit_code(3);
  ended.replica.set_signal(9);
  ended.replica.set_end_cause(v1::END_CAUSE_STORAGE);
  ended.replica.set_message("gone");
  *ended.replica.mutable_start_time() = ToProto(At(41));
  *ended.replica.mutable_end_time() = ToProto(At(42));
  return replicas;
}

JobRecord Record() {
  JobRecord record = FullRecord();
  record.hints = FullHints();
  return record;
}

StoredInStatus Read(const Json& status) {
  const absl::StatusOr<StoredInStatus> stored = ReadStatus(status, UserJob());
  EXPECT_TRUE(stored.ok()) << stored.status();
  return stored.value_or(StoredInStatus());
}

// What the status does not hold: see there, and job_codec.h.
JobRecord WithoutWhatIsSoft(JobRecord record) {
  const jobs::Job none;
  record.state.faults = none.faults;
  record.state.starting_since = none.starting_since;
  record.state.retry_time = none.retry_time;
  record.state.start_time = none.start_time;
  record.state.completion_time = none.completion_time;
  record.progress.reset();
  record.times.estimated_completion = absl::InfinitePast();
  record.tokens.clear();
  return record;
}

// Whether all of `value` is in the schema; what is not, the API server would drop without a word.
void ExpectInSchema(const Json& value, const Json& schema, const std::string& path) {
  if (value.is_array()) {
    for (const Json& item : value) ExpectInSchema(item, kube::At(schema, {"items"}), path + "[]");
  }
  if (!value.is_object()) return;
  const Json& any = kube::At(schema, {"additionalProperties"});
  for (const auto& [name, field] : value.items()) {
    const Json& known = any.is_object() ? any : kube::At(schema, {"properties", name});
    ASSERT_TRUE(known.is_object()) << path << "." << name;
    ExpectInSchema(field, known, path + "." + name);
  }
}

TEST(JobStatusObjectTest, AllOfItIsInTheSchema) {
  const Json schema = kube::ReadCrd("adaptdljob")["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
  const JobRecord record = Record();
  ExpectInSchema(StatusOf(record, Replicas(record), 77), schema["properties"]["status"], "status");
}

TEST(JobStatusObjectTest, EverythingThatIsToSurviveDoes) {
  const JobRecord written = Record();
  const Json status = StatusOf(written, Replicas(written), 77);
  // As a server gives it back.
  const StoredInStatus stored = Read(*kube::ParseJson(kube::Dump(status)));
  EXPECT_EQ(stored.term, 77);
  const JobRecord expected = WithoutWhatIsSoft(written);
  const auto& [sequence, job, state, decision, times, hints, progress, checkpoint_error, tokens] =
      stored.record;
  EXPECT_EQ(sequence, expected.sequence);
  EXPECT_EQ(job->SerializeAsString(), expected.job->SerializeAsString());
  EXPECT_TRUE(state == expected.state) << kube::Dump(status);
  EXPECT_TRUE(decision == expected.decision) << kube::Dump(status);
  EXPECT_TRUE(times == expected.times) << kube::Dump(status);
  ASSERT_TRUE(hints.has_value());
  EXPECT_EQ(hints->SerializeAsString(), expected.hints->SerializeAsString());
  EXPECT_FALSE(progress.has_value());
  EXPECT_EQ(checkpoint_error, expected.checkpoint_error);
  EXPECT_TRUE(tokens.empty());
}

TEST(JobStatusObjectTest, ReplicasComeBackAsTheyWereButForWhatIsSoft) {
  const JobRecord record = Record();
  std::vector<ReplicaRecord> replicas = Replicas(record);
  std::vector<ReplicaRecord> with_more = replicas;
  with_more[0].address = "10.0.0.1:7";
  with_more[0].rescales_in_place = true;
  with_more[0].replica.set_joined(true);
  *with_more[0].replica.mutable_start_time() = ToProto(At(43));
  // Ended, and of another group: it counts no more.
  with_more.push_back(replicas[1]);
  with_more.back().launch_group = 1;
  with_more.back().replica.set_group(1);
  std::swap(with_more[0], with_more[2]);
  const StoredInStatus stored = Read(StatusOf(record, with_more, 1));
  ASSERT_EQ(stored.replicas.size(), replicas.size());
  for (size_t i = 0; i < replicas.size(); ++i) {
    const auto& [job_uid, launch_group, launch_rank, replica, stop_requested, node_leaving, loss, address,
                 rescales_in_place, end_handled, master_port] = stored.replicas[i];
    const ReplicaRecord& expected = replicas[i];
    EXPECT_EQ(job_uid, expected.job_uid);
    EXPECT_EQ(launch_group, expected.launch_group);
    EXPECT_EQ(launch_rank, expected.launch_rank);
    EXPECT_EQ(replica.SerializeAsString(), expected.replica.SerializeAsString()) << replica.DebugString();
    EXPECT_EQ(stop_requested, expected.stop_requested);
    EXPECT_EQ(node_leaving, expected.node_leaving);
    EXPECT_EQ(loss, expected.loss);
    EXPECT_EQ(address, "");
    EXPECT_FALSE(rescales_in_place);
    EXPECT_EQ(end_handled, expected.end_handled);
    EXPECT_EQ(master_port, expected.master_port);
  }
}

TEST(JobStatusObjectTest, MembersRunIfThePhaseSaysSo) {
  JobRecord record = Record();
  record.state.phase = jobs::Phase::kStarting;
  EXPECT_EQ(Read(StatusOf(record, Replicas(record), 1)).replicas[0].replica.state(),
            v1::REPLICA_STATE_LAUNCHING);
  record.state.phase = jobs::Phase::kRunning;
  EXPECT_EQ(Read(StatusOf(record, Replicas(record), 1)).replicas[0].replica.state(),
            v1::REPLICA_STATE_RUNNING);
}

// By that the next leader knows whom to wait for.
TEST(JobStatusObjectTest, WhetherMembersChangeInPlaceIsKeptOfAllThatLive) {
  JobRecord record = Record();
  record.state.phase = jobs::Phase::kRunning;
  std::vector<ReplicaRecord> replicas = Replicas(record);
  const Json before = StatusOf(record, replicas, 1);
  replicas[0].rescales_in_place = true;
  EXPECT_FALSE(DiffersForGood(before, StatusOf(record, replicas, 1)));
  EXPECT_FALSE(Read(StatusOf(record, replicas, 1)).replicas[0].rescales_in_place);
  replicas[2].rescales_in_place = true;
  EXPECT_TRUE(DiffersForGood(before, StatusOf(record, replicas, 1)));
  const StoredInStatus stored = Read(StatusOf(record, replicas, 1));
  EXPECT_TRUE(stored.replicas[0].rescales_in_place);
  EXPECT_FALSE(stored.replicas[0].replica.joined());
  EXPECT_FALSE(stored.replicas[1].rescales_in_place) << "it has ended";
  EXPECT_FALSE(stored.replicas[3].rescales_in_place) << "it is no member yet";
}

TEST(JobStatusObjectTest, EveryPhaseIsReadAsItWasWritten) {
  for (const auto phase :
       {jobs::Phase::kPending, jobs::Phase::kStarting, jobs::Phase::kRunning, jobs::Phase::kStopping,
        jobs::Phase::kSucceeded, jobs::Phase::kFailed, jobs::Phase::kCancelled, jobs::Phase::kRescaling}) {
    JobRecord record = MakeJob(1);
    record.state.phase = phase;
    EXPECT_EQ(Read(StatusOf(record, {}, 1)).record.state.phase, phase);
  }
}

TEST(JobStatusObjectTest, WhatIsNotAsItWouldBeWrittenIsRefusedByName) {
  const JobRecord record = Record();
  const Json good = StatusOf(record, Replicas(record), 1);
  struct Case {
    std::string patch;
    std::string names;
  };
  const std::vector<Case> cases = {
      {R"({"phase": "Walking"})", "status.phase"},
      {R"({"phase": null})", "status.phase"},
      {R"({"sequence": 0})", "status.sequence"},
      {R"({"sequence": "7"})", "status.sequence"},
      {R"({"group": -1})", "status.group"},
      {R"({"group": 3.5})", "status.group"},
      {R"({"group": 18446744073709551615})", "status.group"},
      {R"({"lastGroup": 4})", "status.lastGroup"},
      {R"({"restarts": 99999999999})", "status.restarts"},
      {R"({"allocation": "n1"})", "status.allocation"},
      {R"({"allocation": ["n1", 2]})", "status.allocation"},
      {R"({"cancelRequested": "yes"})", "status.cancelRequested"},
      {R"({"runningSince": "yesterday"})", "status.runningSince"},
      {R"({"runningSince": "infinite-future"})", "status.runningSince"},
      {R"({"runningTime": "-1s"})", "status.runningTime"},
      {R"({"runningTime": "inf"})", "status.runningTime"},
      {R"({"decision": []})", "status.decision"},
      {R"({"decision": {"why": "because"}})", "status.decision.why"},
      {R"({"plans": {}})", "status.plans"},
      {R"({"plans": [{"group": 5}, {"group": 4}]})", "status.plans"},
      {R"({"plans": [{"group": 4, "members": [7]}]})", "status.plans[0].members[0]"},
      {R"({"train": {"initBatchSize": "many"}})", "status.train.initBatchSize"},
      {R"({"train": {"localBszBounds": [1]}})", "status.train.localBszBounds"},
      {R"({"train": {"perfParams": {"gamma": 1e300}}})", "gamma"},
      {R"({"members": [{"launchRank": 0}, {"launchRank": 0}]})", "status.members"},
      {R"({"members": [{"launchGroup": 3, "launchRank": 1}]})", "status.members"},
      {R"({"members": [{"launchGroup": 3, "launchRank": 4194304}]})", "status.members[0].launchRank"},
      {R"({"members": [{"end": {"state": "Exploded"}}]})", "status.members[0].end.state"},
      {R"({"members": [{"masterPort": 70000}]})", "status.members[0].masterPort"},
      {R"({"surprise": 1})", "status.surprise"},
  };
  for (const auto& [patch, names] : cases) {
    Json bad = good;
    bad.merge_patch(*kube::ParseJson(patch));
    const absl::StatusOr<StoredInStatus> stored = ReadStatus(bad, UserJob());
    EXPECT_EQ(stored.status().code(), absl::StatusCode::kInvalidArgument) << patch;
    EXPECT_THAT(stored.status().message(), HasSubstr(names)) << patch;
  }
  for (const Json& bad : {Json(), Json("status"), Json::array({1, 2})}) {
    EXPECT_FALSE(ReadStatus(bad, UserJob()).ok()) << bad;
  }
}

TEST(JobStatusObjectTest, WhatIsFarTooLargeIsRefused) {
  const JobRecord record = Record();
  Json bad = StatusOf(record, {}, 1);
  bad["message"] = std::string(1 << 20, 'x');
  EXPECT_THAT(ReadStatus(bad, UserJob()).status().message(), HasSubstr("status.message"));
  bad = StatusOf(record, {}, 1);
  bad["allocation"] = std::vector<std::string>(100'000, "n");
  EXPECT_THAT(ReadStatus(bad, UserJob()).status().message(), HasSubstr("status.allocation"));
  bad = StatusOf(record, {}, 1);
  bad["plans"] = std::vector<Json>(1000, Json::object());
  EXPECT_THAT(ReadStatus(bad, UserJob()).status().message(), HasSubstr("status.plans"));
}

TEST(JobStatusObjectTest, TheLargestJobFitsIntoAnObject) {
  JobRecord record = MakeJob(1);
  constexpr int kReplicas = 1 << 14;
  std::vector<ReplicaRecord> replicas(kReplicas);
  record.state.group = 1;
  for (int rank = 0; rank < kReplicas; ++rank) {
    record.state.allocation.push_back(absl::StrCat("node-", rank));
    ReplicaRecord& replica = replicas[rank];
    replica.launch_group = 1;
    replica.launch_rank = rank;
    replica.replica.set_group(1);
    replica.replica.set_rank(rank);
    replica.replica.set_node_id(record.state.allocation.back());
    replica.replica.set_replica_id(absl::StrCat(record.state.id_prefix, "-1-", rank));
  }
  // Half of etcd's bound leaves room for the specification and for a plan.
  EXPECT_LT(kube::Dump(StatusOf(record, replicas, 1)).size(), size_t{3} << 19);
}

TEST(JobStatusObjectTest, SteadyTimesThatAreToldAgainAreTheSame) {
  JobRecord record = Record();
  const Json before = StatusOf(record, {}, 1);
  record.state.running_since += absl::Microseconds(3);
  record.state.rescaling_since -= absl::Milliseconds(5);
  record.state.plans[1].since += absl::Microseconds(1);
  Json status = StatusOf(record, {}, 1);
  EXPECT_TRUE(DiffersForGood(before, status));
  KeepSteadyTimes(before, &status);
  EXPECT_EQ(status, before);
  record.state.running_since += absl::Seconds(5);
  status = StatusOf(record, {}, 1);
  KeepSteadyTimes(before, &status);
  EXPECT_TRUE(DiffersForGood(before, status));
}

TEST(JobStatusObjectTest, NothingIsWrittenForTheTermOrForReadinessAlone) {
  const JobRecord record = Record();
  std::vector<ReplicaRecord> replicas = Replicas(record);
  const Json before = StatusOf(record, replicas, 1);
  EXPECT_EQ(before["readyReplicas"], 2);
  replicas[0].replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  EXPECT_FALSE(DiffersForGood(before, StatusOf(record, replicas, 2)));
  replicas[0].stop_requested = true;
  EXPECT_TRUE(DiffersForGood(before, StatusOf(record, replicas, 2)));
  EXPECT_TRUE(DiffersForGood(Json(), before));
}

}  // namespace
}  // namespace adaptdl::supervisor
