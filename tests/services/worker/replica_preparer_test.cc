#include "services/worker/replica_preparer.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/worker/shim/records.h"
#include "tests/services/worker/code/fake_code_source.h"
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
                  &storage_, &store_, &python_, &code_) {
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
  FakeCodeSource source_;
  ManualClock clock_;
  JobCode code_{{.archives = folder_ / "code", .folder = folder_ / "job-code"}, &source_, &clock_};
  const ReplicaPreparer preparer_;
  v1::LaunchReplica launch_;
};

TEST_F(ReplicaPreparerTest, MakesTheFoldersAndTheOrderForTheShim) {
  const ReplicaPreparer::Outcome outcome = preparer_.Prepare(launch_, {"1"}, {});
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
  const ReplicaPreparer::Outcome outcome = preparer_.Prepare(launch_, {}, {});
  EXPECT_THAT(outcome.status.ToString(), HasSubstr("is relative"));
  EXPECT_EQ(outcome.cause, Cause::kJob);
  EXPECT_TRUE(std::filesystem::is_directory(store_.FolderOf("r-0")));
}

TEST_F(ReplicaPreparerTest, AVirtualEnvironmentComesBeforeTheProgram) {
  launch_.mutable_template_()->mutable_python()->set_requirements("numpy\n");
  ASSERT_TRUE(preparer_.Prepare(launch_, {}, {}).status.ok());
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

TEST_F(ReplicaPreparerTest, AProgramStartsInTheFolderThatComesWithItsJob) {
  std::filesystem::create_directory(folder_ / "src");
  WriteFile(folder_ / "src/train.py", "print()");
  *launch_.mutable_template_()->mutable_code() = source_.Add(folder_ / "src");
  std::vector<bool> fetching;
  const auto outcome =
      preparer_.Prepare(launch_, {}, {.fetching = [&](bool now) { fetching.push_back(now); }});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(fetching, ElementsAre(true, false));
  const std::string job = folder_ / "job-code/default/mnist-0123456789abcdef";
  const auto directory = [&](const std::string& id) {
    return ProcessSpecFromLaunchFile(ReadFile(store_.FolderOf(id) + "/" + kLaunchFile))->working_directory;
  };
  EXPECT_EQ(directory("r-0"), job);
  EXPECT_EQ(ReadFile(job + "/train.py"), "print()");
  launch_.set_replica_id("r-1");
  launch_.mutable_template_()->set_working_directory("sub/folder");
  ASSERT_TRUE(preparer_.Prepare(launch_, {}, {}).status.ok());
  EXPECT_EQ(directory("r-1"), job + "/sub/folder");
  launch_.set_replica_id("r-2");
  launch_.mutable_template_()->set_working_directory("/elsewhere");
  ASSERT_TRUE(preparer_.Prepare(launch_, {}, {}).status.ok());
  EXPECT_EQ(directory("r-2"), "/elsewhere");
  EXPECT_EQ(source_.calls(), 1);
}

TEST_F(ReplicaPreparerTest, AFolderThatIsNowhereIsTheJobsFaultAndASilentSupervisorIsNot) {
  launch_.mutable_template_()->mutable_code()->set_digest(std::string(64, 'a'));
  launch_.mutable_template_()->mutable_code()->set_size(5);
  const ReplicaPreparer::Outcome gone = preparer_.Prepare(launch_, {}, {});
  EXPECT_EQ(gone.cause, Cause::kJob);
  EXPECT_THAT(gone.status.message(), HasSubstr(std::string(64, 'a')));
  EXPECT_TRUE(std::filesystem::is_directory(store_.FolderOf("r-0")));
  source_.FailAlways(absl::UnavailableError("nobody there"));
  const ReplicaPreparer::Outcome silent = preparer_.Prepare(launch_, {}, {});
  EXPECT_EQ(silent.cause, Cause::kStorage);
  EXPECT_THAT(silent.status.message(), HasSubstr("nobody there"));
}

TEST_F(ReplicaPreparerTest, AStorageThatDoesNotWorkIsToBlame) {
  std::filesystem::remove_all(folder_ / "storage");
  WriteFile(folder_ / "storage", "a file");
  const ReplicaPreparer::Outcome outcome = preparer_.Prepare(launch_, {}, {});
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.cause, Cause::kStorage);
}

TEST_F(ReplicaPreparerTest, AControlGroupThatCannotBeMadeIsTheNodesFault) {
  const ReplicaPreparer preparer({.node_id = "node-a",
                                  .replica_host = "",
                                  .supervisor_address = "",
                                  .cgroup_base = folder_ / "no/cgroup"},
                                 &storage_, &store_, &python_, &code_);
  const ReplicaPreparer::Outcome outcome = preparer.Prepare(launch_, {}, {});
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.cause, Cause::kNode);
}

}  // namespace
}  // namespace adaptdl::worker
