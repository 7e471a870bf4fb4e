#include "services/worker/replica_preparer.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/worker/shim/records.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReplicaPreparerTest : public ::testing::Test {
 protected:
  ReplicaPreparerTest()
      : storage_(*JobStorage::Create(folder_ / "storage", {.user = "self"})),
        store_(*ReplicaStore::Create(folder_ / "replicas")),
        preparer_({.node_id = "node-a", .replica_host = "10.0.0.1", .supervisor_address = "super:7100"},
                  &storage_, &store_, &python_) {
    launch_.set_namespace_("default");
    launch_.set_job("mnist");
    launch_.set_job_uid("0123456789abcdef");
    launch_.set_replica_id("r-0");
    launch_.set_num_replicas(1);
    launch_.mutable_template_()->add_command("true");
  }

  TempFolder folder_;
  const JobStorage storage_;
  ReplicaStore store_;
  PythonEnvironments python_{{.folder = folder_ / "python", .program = "/bin/adaptdl-environment"}};
  const ReplicaPreparer preparer_;
  v1::LaunchReplica launch_;
};

TEST_F(ReplicaPreparerTest, MakesTheFoldersAndTheOrderForTheShim) {
  const ReplicaPreparer::Outcome outcome = preparer_.Prepare(launch_, {"1"});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.cgroup, "");
  EXPECT_TRUE(std::filesystem::is_directory(storage_.CheckpointPath(launch_)));
  const auto spec = ProcessSpecFromLaunchFile(ReadFile(store_.FolderOf("r-0") + "/" + kLaunchFile));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->argv, ElementsAre("true"));
  EXPECT_THAT(spec->env, ::testing::Contains(::testing::Pair("ADAPTDL_SUPERVISOR_ADDRESS", "super:7100")));
  EXPECT_THAT(spec->env, ::testing::Contains(::testing::Pair("CUDA_VISIBLE_DEVICES", "1")));
}

TEST_F(ReplicaPreparerTest, AMistakeOfTheJobIsItsFaultAndLeavesAFolderForTheRecord) {
  launch_.mutable_template_()->set_working_directory("data");
  const ReplicaPreparer::Outcome outcome = preparer_.Prepare(launch_, {});
  EXPECT_THAT(outcome.status.ToString(), HasSubstr("is relative"));
  EXPECT_EQ(outcome.cause, Cause::kJob);
  EXPECT_TRUE(std::filesystem::is_directory(store_.FolderOf("r-0")));
}

TEST_F(ReplicaPreparerTest, AVirtualEnvironmentComesBeforeTheProgram) {
  launch_.mutable_template_()->mutable_python()->set_requirements("numpy\n");
  ASSERT_TRUE(preparer_.Prepare(launch_, {}).status.ok());
  const auto spec = ProcessSpecFromLaunchFile(ReadFile(store_.FolderOf("r-0") + "/" + kLaunchFile));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->argv.front(), "/bin/adaptdl-environment");
  EXPECT_EQ(spec->argv.back(), "true");
  EXPECT_TRUE(spec->prepares);
  const std::string folder =
      folder_ / absl::StrCat("python/", python_.NameOf("default", launch_.template_()));
  EXPECT_THAT(spec->argv, ::testing::Contains(folder));
  EXPECT_EQ(ReadFile(folder + "/requirements.txt"), "numpy\n");
}

TEST_F(ReplicaPreparerTest, AStorageThatDoesNotWorkIsToBlame) {
  std::filesystem::remove_all(folder_ / "storage");
  WriteFile(folder_ / "storage", "a file");
  const ReplicaPreparer::Outcome outcome = preparer_.Prepare(launch_, {});
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.cause, Cause::kStorage);
}

TEST_F(ReplicaPreparerTest, AControlGroupThatCannotBeMadeIsTheNodesFault) {
  const ReplicaPreparer preparer({.node_id = "node-a",
                                  .replica_host = "",
                                  .supervisor_address = "",
                                  .cgroup_base = folder_ / "no/cgroup"},
                                 &storage_, &store_, &python_);
  const ReplicaPreparer::Outcome outcome = preparer.Prepare(launch_, {});
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.cause, Cause::kNode);
}

}  // namespace
}  // namespace adaptdl::worker
