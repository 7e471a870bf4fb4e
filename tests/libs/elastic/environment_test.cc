#include "libs/elastic/environment.h"

#include <map>
#include <optional>
#include <string>

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
}

TEST(Environment, ReadsAReplicaOfAJob) {
  const auto environment = Read({{"ADAPTDL_SUPERVISOR_ADDRESS", "host:7100"},
                                 {"ADAPTDL_JOB_ID", "default/mnist"},
                                 {"ADAPTDL_REPLICA_ID", "mnist-12345678-2-1"},
                                 {"ADAPTDL_GROUP", "2"},
                                 {"ADAPTDL_REPLICA_RANK", "1"},
                                 {"ADAPTDL_NUM_REPLICAS", "3"},
                                 {"ADAPTDL_HINTS_PERIOD_SECONDS", "0.5"}});
  ASSERT_TRUE(environment.ok()) << environment.status();
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

}  // namespace
}  // namespace adaptdl::elastic
