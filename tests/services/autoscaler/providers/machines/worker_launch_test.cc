#include "services/autoscaler/providers/machines/worker_launch.h"

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"

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

TEST(WorkerLaunchTest, AMachineOfGoogleAsksGoogleAndItsReplicasStillGetNames) {
  WorkerLaunch launch = Launch();
  launch.cloud = MachineCloud::kGcp;
  launch.arguments = {std::string(20'000, 'x')};
  const auto script = MakeUserData(launch);
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(*script, HasSubstr("Metadata-Flavor: Google"));
  EXPECT_THAT(*script, HasSubstr("--node-id=\"$node\""));
  EXPECT_THAT(*script, HasSubstr("--instance-id=\"$instance\""));
  EXPECT_THAT(*script, HasSubstr("--instance-metadata=gcp"));
  EXPECT_THAT(*script, HasSubstr("169.254.169.254 -p tcp ! --dport 53 -m owner"));
  EXPECT_THAT(*script, Not(HasSubstr("X-aws")));
}

// As bash reads it; what is in it is bash, too.
TEST(WorkerLaunchTest, TheScriptsAreWellFormed) {
  for (const MachineCloud cloud : {MachineCloud::kAws, MachineCloud::kGcp}) {
    WorkerLaunch launch = Launch();
    launch.cloud = cloud;
    launch.mounts = {{"fs:/", "/data"}};
    const auto script = MakeUserData(launch);
    ASSERT_TRUE(script.ok()) << script.status();
    const size_t start = script->find("#!/bin/bash\n", 1);
    ASSERT_NE(start, std::string::npos);
    const std::string inner = script->substr(start, script->find("\nADAPTDL-END\n", start) - start);
    for (const std::string& text : {*script, inner}) {
      const std::string path = ::testing::TempDir() + "/worker-launch.sh";
      ASSERT_TRUE(WriteFileAtomically(path, text, 0600).ok());
      EXPECT_EQ(std::system(("bash -n " + path).c_str()), 0) << text;
    }
  }
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
