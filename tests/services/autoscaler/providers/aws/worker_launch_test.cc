#include "services/autoscaler/providers/aws/worker_launch.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

WorkerLaunch Launch() {
  WorkerLaunch launch;
  launch.image = "registry.example/adaptdl:1";
  launch.supervisor = "supervisor.example:7100";
  launch.ca_pem = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n";
  launch.labels = {{"adaptdl.petuum.com/pool", "spot"}};
  return launch;
}

TEST(WorkerLaunchTest, TheScriptStartsTheWorkerAndGuardsTheMetadataService) {
  const auto script = MakeUserData(Launch());
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(*script, HasSubstr("--enrol-instance"));
  EXPECT_THAT(*script, HasSubstr("--supervisor='supervisor.example:7100'"));
  EXPECT_THAT(*script, HasSubstr("--label='adaptdl.petuum.com/pool=spot'"));
  EXPECT_THAT(*script, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(*script, HasSubstr("--uid-owner \"$REPLICA_UIDS\" -j REJECT"));
  EXPECT_THAT(*script, HasSubstr("--on-terminate=drain"));
  EXPECT_THAT(*script, Not(HasSubstr("PRIVATE KEY")));
}

TEST(WorkerLaunchTest, WhatComesFromOutsideIsQuoted) {
  WorkerLaunch launch = Launch();
  launch.labels["x"] = "'; rm -rf / #";
  const auto script = MakeUserData(launch);
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(*script, HasSubstr("--label='x='\\''; rm -rf / #'"));
  launch.supervisor = "a:1\nreboot";
  EXPECT_THAT(MakeUserData(launch).status().message(), HasSubstr("line ends"));
}

TEST(WorkerLaunchTest, RefusesWhatCantStart) {
  WorkerLaunch launch = Launch();
  launch.image.clear();
  EXPECT_THAT(CheckWorkerLaunch(launch).message(), HasSubstr("workerImage"));
  launch = Launch();
  launch.ca_pem.clear();
  EXPECT_THAT(CheckWorkerLaunch(launch).message(), HasSubstr("CA certificate"));
  launch = Launch();
  launch.mounts = {{"fs:/", "data"}};
  EXPECT_THAT(CheckWorkerLaunch(launch).message(), HasSubstr("absolute path"));
  launch = Launch();
  launch.arguments = {std::string(20'000, 'x')};
  EXPECT_THAT(MakeUserData(launch).status().message(), HasSubstr("Amazon takes 16384"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
