// A job that is wrong says so, and hurts no other.

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);

class BadJobTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  v1::Job End(const std::string& name) {
    const auto job = cluster_.WaitForJob(name, Finished, kPatience);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : v1::Job();
  }

  TestCluster cluster_{{.workers = 2}};
};

TEST_F(BadJobTest, CrashLoopEndsAfterItsRetriesAndANeighbourIsUnharmed) {
  v1::Job bad = cluster_.CommandJob("bad", {"sh", "-c", "echo about to crash; exit 7"});
  bad.mutable_spec()->set_max_restarts(2);
  ASSERT_TRUE(cluster_.Submit(bad).ok());
  ASSERT_TRUE(
      cluster_.Submit(cluster_.CommandJob("good", {"sh", "-c", "echo fine > $ADAPTDL_SHARE_PATH/out"})).ok());
  const v1::Job job = End("bad");
  EXPECT_EQ(job.status().phase(), v1::JOB_PHASE_FAILED);
  EXPECT_EQ(job.status().failures(), 3);
  EXPECT_THAT(job.status().message(), HasSubstr("7"));
  EXPECT_THAT(cluster_.Logs("bad"), HasSubstr("about to crash"));
  const v1::Job good = End("good");
  EXPECT_EQ(good.status().phase(), v1::JOB_PHASE_SUCCEEDED);
  EXPECT_EQ(*ReadWholeFile(cluster_.storage() + "/default/good-" + good.uid() + "/share/out"), "fine\n");
}

TEST_F(BadJobTest, CommandThatDoesNotExist) {
  v1::Job job = cluster_.CommandJob("missing", {"no-such-program"});
  job.mutable_spec()->set_max_restarts(0);
  ASSERT_TRUE(cluster_.Submit(job).ok());
  const v1::Job ended = End("missing");
  EXPECT_EQ(ended.status().phase(), v1::JOB_PHASE_FAILED);
  EXPECT_THAT(ended.status().message(), HasSubstr("no-such-program"));
}

// What the system says of it is longer than a message may be, and none of it is ASCII.
TEST_F(BadJobTest, ACommandInAnyScriptHurtsNobody) {
  std::string name;
  for (int i = 0; i < 600; ++i) name += "é";
  v1::Job job = cluster_.CommandJob("wide", {name});
  job.mutable_spec()->set_max_restarts(0);
  ASSERT_TRUE(cluster_.Submit(job).ok());
  EXPECT_EQ(End("wide").status().phase(), v1::JOB_PHASE_FAILED);
  cluster_.supervisor().Kill();
  ASSERT_TRUE(cluster_.StartSupervisor().ok());
  v1::ListJobsResponse jobs;
  grpc::ClientContext context;
  const grpc::Status listed = cluster_.jobs().ListJobs(&context, v1::ListJobsRequest(), &jobs);
  ASSERT_TRUE(listed.ok()) << listed.error_message();
  EXPECT_EQ(jobs.jobs_size(), 1);
}

TEST_F(BadJobTest, SettingsOfTheLibraryReachTheProgram) {
  v1::Job job = cluster_.CommandJob(
      "settings",
      {"sh", "-c", "echo $ADAPTDL_KEEP_MEMORY $ADAPTDL_TENSORBOARD_LOGDIR > $ADAPTDL_SHARE_PATH/out"});
  v1::EnvironmentVariable* setting = job.mutable_spec()->mutable_template_()->add_env();
  setting->set_name("ADAPTDL_KEEP_MEMORY");
  setting->set_value("0");
  ASSERT_TRUE(cluster_.Submit(job).ok());
  const v1::Job ended = End("settings");
  EXPECT_EQ(ended.status().phase(), v1::JOB_PHASE_SUCCEEDED);
  const std::string share = cluster_.storage() + "/default/settings-" + ended.uid() + "/share";
  EXPECT_EQ(*ReadWholeFile(share + "/out"), "0 " + share + "/tensorboard\n");
}

TEST_F(BadJobTest, ImpossibleResourcesAreSaidAtOnce) {
  v1::Job job = cluster_.CommandJob("huge", {"true"});
  job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(64);
  ASSERT_TRUE(cluster_.Submit(job).ok());
  const auto said = cluster_.WaitForJob(
      "huge", [](const v1::Job& seen) { return seen.status().reason() == "Unschedulable"; }, kPatience);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->status().phase(), v1::JOB_PHASE_PENDING);
  EXPECT_THAT(said->status().message(), HasSubstr("GPU"));
}

TEST_F(BadJobTest, WrongFieldsAreRefusedByName) {
  const auto refused = [&](const v1::Job& job) {
    return std::string(cluster_.Submit(job).status().message());
  };
  EXPECT_THAT(refused(cluster_.CommandJob(std::string(64, 'a'), {"true"})), HasSubstr("name"));
  EXPECT_THAT(refused(cluster_.CommandJob("no_underscore", {"true"})), HasSubstr("name"));
  EXPECT_THAT(refused(cluster_.CommandJob("empty", {})), HasSubstr("command"));
  v1::Job job = cluster_.CommandJob("bounds", {"true"});
  job.mutable_spec()->set_min_replicas(3);
  job.mutable_spec()->set_max_replicas(2);
  EXPECT_THAT(refused(job), AllOf(HasSubstr("min_replicas"), HasSubstr("3"), HasSubstr("2")));
}

TEST_F(BadJobTest, CancelStopsAProgramThatDoesNotUseTheLibrary) {
  ASSERT_TRUE(cluster_.Submit(cluster_.CommandJob("sleeper", {"sleep", "1000"})).ok());
  ASSERT_TRUE(cluster_.WaitForJob("sleeper", RunningWith(1), kPatience).ok());
  v1::CancelJobRequest request;
  request.set_request_id("cancel-sleeper");
  request.set_name("sleeper");
  v1::CancelJobResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(cluster_.jobs().CancelJob(&context, request, &response).ok());
  EXPECT_EQ(End("sleeper").status().phase(), v1::JOB_PHASE_CANCELLED);
}

}  // namespace
}  // namespace adaptdl::integration
