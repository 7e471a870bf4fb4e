#include "libs/jobspec/job_spec.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::jobspec {
namespace {

using ::testing::HasSubstr;

v1::Job GoodJob() {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name("mnist");
  job.mutable_spec()->mutable_template_()->add_command("train");
  return job;
}

TEST(NewJobTest, WrongFieldsAreRefusedByName) {
  EXPECT_TRUE(CheckNewJob(GoodJob(), "").ok());
  const std::vector<std::pair<std::string, std::function<void(v1::Job*)>>> cases = {
      {"job.name", [](v1::Job* job) { job->set_name(std::string(64, 'a')); }},
      {"job.name", [](v1::Job* job) { job->set_name("Mnist"); }},
      {"job.name", [](v1::Job* job) { job->set_name("-a"); }},
      {"job.name", [](v1::Job* job) { job->set_name("a-"); }},
      {"job.name", [](v1::Job* job) { job->set_name("a/../b"); }},
      {"job.name", [](v1::Job* job) { job->clear_name(); }},
      {"job.namespace", [](v1::Job* job) { job->set_namespace_("a.b"); }},
      {"labels", [](v1::Job* job) { (*job->mutable_labels())[std::string(64, 'a')] = "x"; }},
      {"labels", [](v1::Job* job) { (*job->mutable_labels())["a"] = std::string(64, 'x'); }},
      {"spec.template.command",
       [](v1::Job* job) { job->mutable_spec()->mutable_template_()->clear_command(); }},
      {"spec.template.command",
       [](v1::Job* job) { job->mutable_spec()->mutable_template_()->add_command(std::string("a\0b", 3)); }},
      {"spec.template.args",
       [](v1::Job* job) {
         for (int i = 0; i < 1025; ++i) job->mutable_spec()->mutable_template_()->add_args();
       }},
      {"spec.template.env",
       [](v1::Job* job) { job->mutable_spec()->mutable_template_()->add_env()->set_name("A=B"); }},
      {"spec.template.env",
       [](v1::Job* job) {
         job->mutable_spec()->mutable_template_()->add_env()->set_name("ADAPTDL_GROUP_TOKEN");
       }},
      {"spec: ",
       [](v1::Job* job) { job->mutable_spec()->mutable_template_()->add_args(std::string(257 << 10, 'x')); }},
      {"spec.template.python.interpreter",
       [](v1::Job* job) {
         job->mutable_spec()->mutable_template_()->mutable_python()->set_interpreter("python\n");
       }},
      {"spec.template.python.requirements",
       [](v1::Job* job) {
         job->mutable_spec()->mutable_template_()->mutable_python()->set_requirements(
             std::string((64 << 10) + 1, '#'));
       }},
      {"spec.min_replicas", [](v1::Job* job) { job->mutable_spec()->set_min_replicas(-1); }},
      {"spec.min_replicas",
       [](v1::Job* job) {
         job->mutable_spec()->set_min_replicas(3);
         job->mutable_spec()->set_max_replicas(2);
       }},
      {"spec.min_replicas", [](v1::Job* job) { job->mutable_spec()->set_min_replicas(20'000); }},
      {"spec.max_replicas", [](v1::Job* job) { job->mutable_spec()->set_max_replicas(-5); }},
      {"spec.max_replicas", [](v1::Job* job) { job->mutable_spec()->set_max_replicas(16'385); }},
      {"spec.allowed_replicas", [](v1::Job* job) { job->mutable_spec()->add_allowed_replicas(0); }},
      {"spec.allowed_replicas", [](v1::Job* job) { job->mutable_spec()->add_allowed_replicas(16'385); }},
      {"spec.allowed_replicas",
       [](v1::Job* job) {
         for (int i = 1; i <= 65; ++i) job->mutable_spec()->add_allowed_replicas(i);
       }},
      {"spec.allowed_replicas: 2 after 2",
       [](v1::Job* job) {
         for (int i = 0; i < 2; ++i) job->mutable_spec()->add_allowed_replicas(2);
       }},
      {"spec.allowed_replicas: 2, 8: none lies between",
       [](v1::Job* job) {
         job->mutable_spec()->add_allowed_replicas(2);
         job->mutable_spec()->add_allowed_replicas(8);
         job->mutable_spec()->set_min_replicas(3);
         job->mutable_spec()->set_max_replicas(7);
       }},
      {"spec.priority", [](v1::Job* job) { job->mutable_spec()->set_priority(1001); }},
      {"spec.priority", [](v1::Job* job) { job->mutable_spec()->set_priority(-1001); }},
      {"spec.max_restarts", [](v1::Job* job) { job->mutable_spec()->set_max_restarts(1001); }},
      {"spec.rescale",
       [](v1::Job* job) { job->mutable_spec()->set_rescale(static_cast<v1::RescaleMode>(77)); }},
      {"resources.cpu_millis",
       [](v1::Job* job) {
         job->mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(-1);
       }},
      {"resources.memory_bytes",
       [](v1::Job* job) {
         job->mutable_spec()->mutable_template_()->mutable_resources()->set_memory_bytes(
             std::numeric_limits<int64_t>::max());
       }},
      {"resources.gpus",
       [](v1::Job* job) { job->mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(-1); }},
      {"resources.extended",
       [](v1::Job* job) {
         (*job->mutable_spec()->mutable_template_()->mutable_resources()->mutable_extended())["fpga"] = -1;
       }},
      {"termination_grace_period",
       [](v1::Job* job) {
         job->mutable_spec()->mutable_template_()->mutable_termination_grace_period()->set_seconds(3601);
       }},
      {"termination_grace_period",
       [](v1::Job* job) {
         job->mutable_spec()->mutable_template_()->mutable_termination_grace_period()->set_seconds(-1);
       }},
  };
  for (const auto& [field, spoil] : cases) {
    v1::Job job = GoodJob();
    spoil(&job);
    const absl::Status status = CheckNewJob(job, "");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
}

TEST(NewJobTest, SizesNeedOneThatTheBoundsAllow) {
  v1::Job job = GoodJob();
  for (const int count : {1, 2, 4}) job.mutable_spec()->add_allowed_replicas(count);
  job.mutable_spec()->set_priority(-1000);
  EXPECT_TRUE(CheckNewJob(job, "").ok());
  job.mutable_spec()->set_min_replicas(3);
  EXPECT_TRUE(CheckNewJob(job, "").ok());
  job.mutable_spec()->set_max_replicas(3);
  EXPECT_FALSE(CheckNewJob(job, "").ok());
}

TEST(NewJobTest, GeneratedNamesNeedAPrefixThatLeavesRoom) {
  v1::Job job = GoodJob();
  EXPECT_FALSE(CheckNewJob(job, "both-").ok());
  job.clear_name();
  EXPECT_TRUE(CheckNewJob(job, "run-").ok());
  EXPECT_FALSE(CheckNewJob(job, std::string(58, 'a')).ok());
  EXPECT_FALSE(CheckNewJob(job, "Run").ok());
}

TEST(FillDefaultsTest, AskForOneCoreOnlyWhenNothingElseIsAskedFor) {
  v1::JobSpec spec;
  FillDefaults(&spec);
  EXPECT_TRUE(spec.preemptible());
  EXPECT_EQ(spec.max_restarts(), 3);
  EXPECT_EQ(spec.template_().resources().cpu_millis(), 1000);
  EXPECT_EQ(spec.template_().termination_grace_period().seconds(), 30);
  v1::JobSpec gpu;
  gpu.mutable_template_()->mutable_resources()->set_gpus(1);
  FillDefaults(&gpu);
  EXPECT_EQ(gpu.template_().resources().cpu_millis(), 0);
}

TEST(FillDefaultsTest, WhatCallsTheApiMayGoWithoutACore) {
  v1::JobSpec caller;
  caller.mutable_template_()->set_api_access(true);
  v1::JobSpec frugal = caller;
  frugal.mutable_template_()->mutable_resources()->set_memory_bytes(1 << 27);
  FillDefaults(&caller);
  FillDefaults(&frugal);
  EXPECT_EQ(caller.template_().resources().cpu_millis(), 1000);
  EXPECT_EQ(frugal.template_().resources().cpu_millis(), 0);
}

TEST(ApiAccessTest, IsForProcessesAndSetsItsVariablesItself) {
  v1::Job job = GoodJob();
  job.mutable_spec()->mutable_template_()->set_image("registry/tuner:1");
  job.mutable_spec()->mutable_template_()->add_env()->set_name("ADAPTDL_TOKEN");
  EXPECT_TRUE(CheckNewJob(job, "").ok()) << "a token of the user's own";
  job.mutable_spec()->mutable_template_()->set_api_access(true);
  EXPECT_THAT(std::string(CheckNewJob(job, "").message()), HasSubstr("ADAPTDL_TOKEN"));
  job.mutable_spec()->mutable_template_()->clear_env();
  EXPECT_TRUE(CheckNewJob(job, "").ok());
  EXPECT_THAT(std::string(CheckNewJob(job, "", ReplicaKind::kPod).message()),
              HasSubstr("spec.template.api_access: true: replicas are pods here"));
}

TEST(StartFromTest, NamesAJobAndIsForProcesses) {
  v1::Job job = GoodJob();
  job.mutable_spec()->mutable_template_()->set_image("registry/trainer:1");
  job.mutable_spec()->mutable_start_from()->set_job("digits-7");
  EXPECT_TRUE(CheckNewJob(job, "").ok());
  EXPECT_THAT(std::string(CheckNewJob(job, "", ReplicaKind::kPod).message()),
              HasSubstr("spec.start_from.job: \"digits-7\": replicas are pods here"));
  job.mutable_spec()->mutable_start_from()->set_job("../other");
  EXPECT_THAT(std::string(CheckNewJob(job, "").message()), HasSubstr("spec.start_from.job"));
  job.mutable_spec()->mutable_start_from()->clear_job();
  EXPECT_THAT(std::string(CheckNewJob(job, "").message()), HasSubstr("spec.start_from.job"));
}

TEST(SystemVariablesTest, UsersSetAllOthers) {
  for (const char* name : {"ADAPTDL_HANG_TIMEOUT_SECONDS", "ADAPTDL_CHECKPOINT_PERIOD_SECONDS",
                           "ADAPTDL_TENSORBOARD_LOGDIR", "ADAPTDL_KEEP_MEMORY", "ADAPTDL_X"}) {
    v1::Job job = GoodJob();
    job.mutable_spec()->mutable_template_()->add_env()->set_name(name);
    const absl::Status status = CheckNewJob(job, "");
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const char* name : {"ADAPTDL_JOB_ID", "ADAPTDL_GROUP_TOKEN", "ADAPTDL_SERVER_TOKEN_FILE"}) {
    v1::Job job = GoodJob();
    job.mutable_spec()->mutable_template_()->add_env()->set_name(name);
    const absl::Status status = CheckNewJob(job, "");
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

TEST(GracePeriodTest, LiesWithinItsBounds) {
  v1::ReplicaTemplate replica;
  EXPECT_EQ(GracePeriod(replica), absl::Seconds(30));
  replica.mutable_termination_grace_period()->set_seconds(5);
  EXPECT_EQ(GracePeriod(replica), absl::Seconds(5));
  replica.mutable_termination_grace_period()->set_seconds(1 << 30);
  EXPECT_EQ(GracePeriod(replica), kMaxGracePeriod);
  replica.mutable_termination_grace_period()->set_seconds(-1);
  EXPECT_EQ(GracePeriod(replica), absl::ZeroDuration());
}

TEST(PodSpecTest, ImagesHaveEntryPoints) {
  v1::JobSpec spec = GoodJob().spec();
  EXPECT_FALSE(CheckSpec(spec, ReplicaKind::kPod).ok()) << "without an image there is no pod";
  spec.mutable_template_()->set_image("registry/mnist:1");
  EXPECT_TRUE(CheckSpec(spec, ReplicaKind::kPod).ok());
  spec.mutable_template_()->clear_command();
  EXPECT_TRUE(CheckSpec(spec, ReplicaKind::kPod).ok());
  EXPECT_FALSE(CheckSpec(spec, ReplicaKind::kProcess).ok());
  spec.mutable_template_()->add_command("");
  EXPECT_FALSE(CheckSpec(spec, ReplicaKind::kPod).ok());
}

TEST(UpdateTest, OnlyWishesMayChange) {
  const v1::Job before = GoodJob();
  const std::vector<std::function<void(v1::JobSpec*)>> allowed = {
      [](v1::JobSpec* spec) { spec->set_min_replicas(2); },
      [](v1::JobSpec* spec) { spec->set_max_replicas(3); }, [](v1::JobSpec* spec) { spec->set_priority(4); },
      [](v1::JobSpec* spec) { spec->set_suspend(true); }};
  for (const auto& change : allowed) {
    v1::Job after = before;
    change(after.mutable_spec());
    EXPECT_TRUE(CheckUpdate(before, after).ok());
  }
  const std::vector<std::pair<std::string, std::function<void(v1::JobSpec*)>>> refused = {
      {"spec.template", [](v1::JobSpec* spec) { spec->mutable_template_()->add_args("x"); }},
      {"spec.preemptible", [](v1::JobSpec* spec) { spec->set_preemptible(false); }},
      {"spec.max_restarts", [](v1::JobSpec* spec) { spec->set_max_restarts(9); }},
      {"spec.rescale", [](v1::JobSpec* spec) { spec->set_rescale(v1::RESCALE_MODE_RESTART); }},
      {"spec.allowed_replicas", [](v1::JobSpec* spec) { spec->add_allowed_replicas(2); }}};
  for (const auto& [field, change] : refused) {
    v1::Job after = before;
    change(after.mutable_spec());
    const absl::Status status = CheckUpdate(before, after);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << field;
    EXPECT_THAT(status.message(), ::testing::HasSubstr(field));
  }
  v1::Job wrong = before;
  wrong.mutable_spec()->set_priority(1001);
  EXPECT_EQ(CheckUpdate(before, wrong).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::jobspec
