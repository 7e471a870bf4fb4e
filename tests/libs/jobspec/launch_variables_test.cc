#include "libs/jobspec/launch_variables.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/version.h"
#include "libs/jobspec/job_spec.h"

namespace adaptdl::jobspec {
namespace {

std::map<std::string, std::string> Variables(const v1::LaunchReplica& launch, const std::string& address) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : LaunchVariables(launch, address)) {
    EXPECT_TRUE(variables.emplace(name, value).second) << name << " is there twice";
    EXPECT_TRUE(IsSystemVariable(name)) << name << " could be set by users";
  }
  return variables;
}

TEST(LaunchVariablesTest, SayWhichReplicaItIs) {
  v1::LaunchReplica launch;
  launch.set_namespace_("vision");
  launch.set_job("resnet");
  launch.set_group(4);
  launch.set_rank(1);
  launch.set_num_replicas(3);
  const std::map<std::string, std::string> variables = Variables(launch, "a:7000");
  EXPECT_EQ(variables.at("ADAPTDL_JOB_ID"), "vision/resnet");
  EXPECT_EQ(variables.at("ADAPTDL_GROUP"), "4");
  EXPECT_EQ(variables.at("ADAPTDL_REPLICA_RANK"), "1");
  EXPECT_EQ(variables.at("ADAPTDL_NUM_REPLICAS"), "3");
  EXPECT_EQ(variables.at("ADAPTDL_SUPERVISOR_ADDRESS"), "a:7000");
  EXPECT_EQ(variables.at("ADAPTDL_SCHED_VERSION"), Version());
  EXPECT_EQ(variables.count("ADAPTDL_SUPERVISOR_URL"), 0U);
  EXPECT_EQ(variables.count("ADAPTDL_MASTER_PORT"), 0U);
}

TEST(LaunchVariablesTest, UrlsWithoutHostGetThatOfTheFirstSupervisor) {
  v1::LaunchReplica launch;
  launch.mutable_adaptdl_http()->set_supervisor_url("https://:7300/key");
  launch.mutable_adaptdl_http()->set_master_port(4711);
  const std::map<std::string, std::string> variables = Variables(launch, "[::1]:7000,b:7000");
  EXPECT_EQ(variables.at("ADAPTDL_SUPERVISOR_URL"), "https://[::1]:7300/key");
  EXPECT_EQ(variables.at("ADAPTDL_MASTER_PORT"), "4711");
  EXPECT_EQ(variables.at("ADAPTDL_SCHED_VERSION"), "0.2.11") << "which AdaptDL's client takes for its own";
  launch.mutable_adaptdl_http()->set_supervisor_url("http://proxy:80/key");
  EXPECT_EQ(Variables(launch, "a:7000").at("ADAPTDL_SUPERVISOR_URL"), "http://proxy:80/key");
}

}  // namespace
}  // namespace adaptdl::jobspec
