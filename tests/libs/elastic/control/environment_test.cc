#include "libs/elastic/control/environment.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "adaptdl/env.h"
#include "adaptdl/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<Environment> Read(const Variables& variables) {
  return ReadEnvironment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Environment, IsOneReplicaOfItsOwnWhenNothingIsSet) {
  const auto environment = Read({});
  ASSERT_TRUE(environment.ok());
  EXPECT_FALSE(environment->supervised());
  EXPECT_EQ(environment->num_replicas, 1);
  EXPECT_EQ(environment->replica_rank, 0);
  EXPECT_EQ(environment->checkpoint_path, "");
  EXPECT_TRUE(environment->keep_freed_memory);
}

TEST(Environment, LeavesMallocAsItIsWhenAskedTo) {
  const auto environment = Read({{"ADAPTDL_KEEP_MEMORY", "0"}});
  ASSERT_TRUE(environment.ok());
  EXPECT_FALSE(environment->keep_freed_memory);
}

TEST(Environment, ReadsAReplicaOfAJob) {
  const auto environment = Read({{"ADAPTDL_SUPERVISOR_ADDRESS", "host:7100"},
                                 {"ADAPTDL_SUPERVISOR_CA", "/tls/ca.pem"},
                                 {"ADAPTDL_JOB_ID", "default/mnist"},
                                 {"ADAPTDL_REPLICA_ID", "mnist-12345678-2-1"},
                                 {"ADAPTDL_GROUP", "2"},
                                 {"ADAPTDL_REPLICA_RANK", "1"},
                                 {"ADAPTDL_NUM_REPLICAS", "3"},
                                 {"ADAPTDL_HINTS_PERIOD_SECONDS", "0.5"}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->supervisor_ca, "/tls/ca.pem");
  EXPECT_EQ(environment->job_namespace, "default");
  EXPECT_EQ(environment->job, "mnist");
  EXPECT_EQ(environment->group, 2);
  EXPECT_EQ(environment->num_nodes, 3);
  EXPECT_EQ(environment->hints_period, absl::Milliseconds(500));
}

TEST(Environment, NamesTheVariableThatIsWrong) {
  const Variables wrong[] = {
      {{"ADAPTDL_NUM_REPLICAS", "many"}},
      {{"ADAPTDL_REPLICA_RANK", "1"}},
      {{"ADAPTDL_CHECKPOINT_PERIOD_SECONDS", "-1"}},
      {{"ADAPTDL_CHECKPOINT_PERIOD_STEPS", "-1"}},
      {{"ADAPTDL_CHECKPOINT_KEEP", "0"}},
      {{"ADAPTDL_JOB_ID", "mnist"}, {"ADAPTDL_SUPERVISOR_ADDRESS", "h:1"}, {"ADAPTDL_REPLICA_ID", "x"}},
  };
  for (const Variables& variables : wrong) {
    const auto environment = Read(variables);
    EXPECT_EQ(environment.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(environment.status().message()), HasSubstr(variables.begin()->first));
  }
}

TEST(Environment, NeedsAnAddressForSeveralReplicasWithoutSupervisor) {
  EXPECT_FALSE(Read({{"ADAPTDL_NUM_REPLICAS", "2"}}).ok());
  EXPECT_TRUE(Read({{"ADAPTDL_NUM_REPLICAS", "2"}, {"ADAPTDL_MASTER_PORT", "4711"}}).ok());
}

absl::StatusOr<Environment> ReadWith(const ProcessGroup& group, const Variables& variables) {
  return ReadEnvironment(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      },
      group);
}

TEST(ProcessGroup, TakesFromTheEnvironmentWhatIsLeftOut) {
  const Variables variables = {
      {"ADAPTDL_NUM_REPLICAS", "3"}, {"ADAPTDL_REPLICA_RANK", "2"}, {"ADAPTDL_MASTER_PORT", "4711"}};
  const auto inferred = ReadWith({}, variables);
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->replica_rank, 2);
  EXPECT_EQ(inferred->master_port, 4711);
  const auto given = ReadWith({.address = "tcp://host:99", .world_size = 5, .rank = 4}, variables);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->master_host, "host");
  EXPECT_EQ(given->master_port, 99);
  EXPECT_EQ(given->num_replicas, 5);
  EXPECT_EQ(given->replica_rank, 4);
  EXPECT_EQ(given->num_nodes, 5);
  EXPECT_TRUE(ReadWith({.address = "", .world_size = 1, .rank = 0}, {}).ok());
}

TEST(ProcessGroup, RefusesWhatCannotBe) {
  for (const char* backend : {"", "gloo", "nccl"})
    EXPECT_TRUE(ReadWith({.backend = backend}, {}).ok()) << backend;
  EXPECT_EQ(ReadWith({.backend = "mpi"}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* address : {"host", ":1", "host:0", "host:x", "tcp://host:70000"}) {
    EXPECT_FALSE(ReadWith({.address = address}, {}).ok()) << address;
  }
  EXPECT_FALSE(ReadWith({.address = "h:1", .world_size = 2, .rank = 2}, {}).ok());
  EXPECT_FALSE(ReadWith({.address = "", .world_size = 2, .rank = 0}, {}).ok());
}

TEST(ProcessGroup, TheSupervisorDecides) {
  const Variables variables = {{"ADAPTDL_SUPERVISOR_ADDRESS", "host:7100"},
                               {"ADAPTDL_JOB_ID", "default/mnist"},
                               {"ADAPTDL_REPLICA_ID", "mnist-1"},
                               {"ADAPTDL_NUM_REPLICAS", "2"},
                               {"ADAPTDL_REPLICA_RANK", "1"}};
  EXPECT_TRUE(ReadWith({.address = "", .world_size = 2, .rank = 1}, variables).ok());
  EXPECT_FALSE(ReadWith({.address = "", .world_size = 3}, variables).ok());
  EXPECT_FALSE(ReadWith({.address = "h:1"}, variables).ok());
}

TEST(Env, GivesDefaultsAndWhatIsSet) {
  EXPECT_EQ(env::NumReplicas(), 1);
  EXPECT_EQ(env::NumNodes(), 1);
  EXPECT_EQ(env::MasterAddr(), "127.0.0.1");
  EXPECT_EQ(env::CheckpointPeriodSeconds(), 30);
  EXPECT_EQ(env::JobId(), "");
  ASSERT_EQ(setenv("ADAPTDL_JOB_ID", "default/mnist", 1), 0);
  ASSERT_EQ(setenv("ADAPTDL_NUM_REPLICAS", "4", 1), 0);
  ASSERT_EQ(setenv("ADAPTDL_REPLICA_RANK", "3", 1), 0);
  EXPECT_EQ(env::JobId(), "default/mnist");
  EXPECT_EQ(env::NumReplicas(), 4);
  EXPECT_EQ(env::ReplicaRank(), 3);
  for (const char* name : {"ADAPTDL_JOB_ID", "ADAPTDL_NUM_REPLICAS", "ADAPTDL_REPLICA_RANK"}) unsetenv(name);
}

TEST(EnvDeathTest, AWrongValueEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("ADAPTDL_REPLICA_RANK", "first", 1);
        env::ReplicaRank();
      },
      ::testing::ExitedWithCode(1), "ADAPTDL_REPLICA_RANK=\"first\"");
  EXPECT_EXIT(InitProcessGroup("nccl"), ::testing::ExitedWithCode(1), "nccl");
}

}  // namespace
}  // namespace adaptdl::elastic
