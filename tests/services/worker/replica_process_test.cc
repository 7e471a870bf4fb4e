#include "services/worker/replica_process.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobspec/job_spec.h"
#include "services/worker/machine.h"

namespace adaptdl::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

v1::LaunchReplica Launch() {
  v1::LaunchReplica launch;
  launch.set_namespace_("team-a");
  launch.set_job("mnist");
  launch.set_job_uid("0123456789abcdef");
  launch.set_replica_id("mnist-01234567-4-1");
  launch.set_group(4);
  launch.set_rank(1);
  launch.set_num_replicas(2);
  launch.set_num_nodes(2);
  launch.set_num_restarts(3);
  launch.set_token("token");
  launch.mutable_template_()->add_command("train");
  launch.mutable_template_()->add_args("--lr=0.1");
  return launch;
}

ReplicaPlace Place() {
  return {.checkpoint_path = "/s/team-a/mnist-u/checkpoint",
          .share_path = "/s/team-a/mnist-u/share",
          .node_id = "node-a",
          .replica_host = "10.0.0.1",
          .supervisor_address = "super:7100",
          .devices = {}};
}

std::map<std::string, std::string> EnvironmentOf(const v1::LaunchReplica& launch, const ReplicaPlace& place,
                                                 const Environment& inherited = {}) {
  const auto spec = MakeProcessSpec(launch, place, inherited);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return {spec->env.begin(), spec->env.end()};
}

void AddEnv(v1::LaunchReplica* launch, const std::string& name, const std::string& value) {
  v1::EnvironmentVariable* variable = launch->mutable_template_()->add_env();
  variable->set_name(name);
  variable->set_value(value);
}

TEST(ReplicaProcessTest, GivesTheWholeEnvironmentContract) {
  EXPECT_THAT(EnvironmentOf(Launch(), Place()),
              IsSupersetOf(std::map<std::string, std::string>{
                  {"ADAPTDL_JOB_ID", "team-a/mnist"},
                  {"ADAPTDL_JOB_UID", "0123456789abcdef"},
                  {"ADAPTDL_CHECKPOINT_PATH", "/s/team-a/mnist-u/checkpoint"},
                  {"ADAPTDL_SHARE_PATH", "/s/team-a/mnist-u/share"},
                  {"ADAPTDL_REPLICA_RANK", "1"},
                  {"ADAPTDL_NUM_REPLICAS", "2"},
                  {"ADAPTDL_NUM_NODES", "2"},
                  {"ADAPTDL_NUM_RESTARTS", "3"},
                  {"ADAPTDL_SUPERVISOR_ADDRESS", "super:7100"},
                  {"ADAPTDL_REPLICA_ID", "mnist-01234567-4-1"},
                  {"ADAPTDL_GROUP", "4"},
                  {"ADAPTDL_GROUP_TOKEN", "token"},
                  {"ADAPTDL_NODE_ID", "node-a"},
                  {"ADAPTDL_REPLICA_HOST", "10.0.0.1"},
                  {"CUDA_VISIBLE_DEVICES", ""},
                  {"ADAPTDL_NUM_GPUS", "0"},
                  {"OMP_NUM_THREADS", "1"}}));
  EXPECT_THAT(EnvironmentOf(Launch(), Place()), Contains(Key("ADAPTDL_SCHED_VERSION")));
}

TEST(ReplicaProcessTest, MeasuresTheNetworkWithTheWorkersOwnProgram) {
  v1::LaunchReplica launch = Launch();
  *launch.mutable_template_()->mutable_command(0) = "adaptdl-netperf";
  EXPECT_EQ(MakeProcessSpec(launch, Place(), {})->argv[0], "adaptdl-netperf") << "that in PATH";
  ReplicaPlace place = Place();
  place.netperf_program = "/build/bin/adaptdl-netperf";
  EXPECT_EQ(MakeProcessSpec(launch, place, {})->argv[0], "/build/bin/adaptdl-netperf");
  *launch.mutable_template_()->mutable_command(0) = "train";
  EXPECT_EQ(MakeProcessSpec(launch, place, {})->argv[0], "train");
}

TEST(ReplicaProcessTest, TellsHowToVerifyTheSupervisor) {
  // Empty where there is no TLS, whatever the job says.
  v1::LaunchReplica launch = Launch();
  AddEnv(&launch, "ADAPTDL_SUPERVISOR_CA", "/forged");
  EXPECT_THAT(EnvironmentOf(launch, Place()), Contains(Pair("ADAPTDL_SUPERVISOR_CA", "")));
  ReplicaPlace place = Place();
  place.supervisor_ca = "/tls/ca.pem";
  place.supervisor_tls_name = "adaptdl.example.com";
  EXPECT_THAT(EnvironmentOf(launch, place), IsSupersetOf(std::map<std::string, std::string>{
                                                {"ADAPTDL_SUPERVISOR_CA", "/tls/ca.pem"},
                                                {"ADAPTDL_SUPERVISOR_TLS_NAME", "adaptdl.example.com"}}));
}

TEST(ReplicaProcessTest, TellsClientsWhereTheClusterIsWhereTheJobMayCallIt) {
  ReplicaPlace place = Place();
  place.supervisor_ca = "/tls/ca.pem";
  place.supervisor_tls_name = "adaptdl.example.com";
  v1::LaunchReplica launch = Launch();
  EXPECT_THAT(EnvironmentOf(launch, place), Not(Contains(Key("ADAPTDL_CA_FILE"))));
  launch.mutable_template_()->set_api_access(true);
  AddEnv(&launch, "ADAPTDL_TOKEN", "adaptdl_job.x");
  EXPECT_THAT(EnvironmentOf(launch, place), IsSupersetOf(std::map<std::string, std::string>{
                                                {"ADAPTDL_TOKEN", "adaptdl_job.x"},
                                                {"ADAPTDL_CA_FILE", "/tls/ca.pem"},
                                                {"ADAPTDL_TLS_SERVER_NAME", "adaptdl.example.com"}}));
  EXPECT_THAT(EnvironmentOf(launch, place), Not(Contains(Key("ADAPTDL_INSECURE"))));
  EXPECT_THAT(EnvironmentOf(launch, Place()), Contains(Pair("ADAPTDL_INSECURE", "1")));
}

TEST(ReplicaProcessTest, TellsAdaptdlsPackageWhereToMeet) {
  v1::LaunchReplica launch = Launch();
  EXPECT_THAT(EnvironmentOf(launch, Place()), Not(Contains(Key("ADAPTDL_SUPERVISOR_URL"))));
  EXPECT_THAT(EnvironmentOf(launch, Place()), Not(Contains(Key("ADAPTDL_MASTER_PORT"))));
  launch.mutable_adaptdl_http()->set_supervisor_url("http://:7300/secret/1");
  launch.mutable_adaptdl_http()->set_master_port(20001);
  EXPECT_THAT(EnvironmentOf(launch, Place()), IsSupersetOf(std::map<std::string, std::string>{
                                                  {"ADAPTDL_SUPERVISOR_URL", "http://super:7300/secret/1"},
                                                  {"ADAPTDL_MASTER_PORT", "20001"},
                                                  // The client refuses another major version than its own.
                                                  {"ADAPTDL_SCHED_VERSION", "0.2.11"}}));
  launch.mutable_adaptdl_http()->set_supervisor_url("http://proxy:80/adaptdl/secret/1");
  EXPECT_THAT(EnvironmentOf(launch, Place()),
              Contains(Pair("ADAPTDL_SUPERVISOR_URL", "http://proxy:80/adaptdl/secret/1")));
}

TEST(ReplicaProcessTest, OursWinOverTheJobsAndTheJobsOverTheInherited) {
  v1::LaunchReplica launch = Launch();
  AddEnv(&launch, "ADAPTDL_GROUP_TOKEN", "forged");
  AddEnv(&launch, "CUDA_VISIBLE_DEVICES", "0,1,2,3");
  AddEnv(&launch, "ADAPTDL_NUM_GPUS", "4");
  AddEnv(&launch, "HOME", "/job");
  AddEnv(&launch, "ADAPTDL_SERVER_TOKEN", "x");
  ReplicaPlace place = Place();
  place.devices = {"2", "5"};
  const auto env = EnvironmentOf(launch, place, {{"HOME", "/root"}, {"PATH", "/opt/bin"}});
  EXPECT_THAT(env, IsSupersetOf(std::map<std::string, std::string>{{"ADAPTDL_GROUP_TOKEN", "token"},
                                                                   {"CUDA_VISIBLE_DEVICES", "2,5"},
                                                                   {"ADAPTDL_NUM_GPUS", "2"},
                                                                   {"HOME", "/job"},
                                                                   {"PATH", "/opt/bin"}}));
  EXPECT_THAT(env, Not(Contains(Key("ADAPTDL_SERVER_TOKEN"))));
}

TEST(ReplicaProcessTest, SettingsOfTheLibraryAreTheUsers) {
  EXPECT_THAT(EnvironmentOf(Launch(), Place()),
              Contains(Pair("ADAPTDL_TENSORBOARD_LOGDIR", "/s/team-a/mnist-u/share/tensorboard")));
  v1::LaunchReplica launch = Launch();
  AddEnv(&launch, "ADAPTDL_TENSORBOARD_LOGDIR", "/elsewhere");
  AddEnv(&launch, "ADAPTDL_KEEP_MEMORY", "0");
  EXPECT_THAT(EnvironmentOf(launch, Place()),
              IsSupersetOf(std::map<std::string, std::string>{{"ADAPTDL_TENSORBOARD_LOGDIR", "/elsewhere"},
                                                              {"ADAPTDL_KEEP_MEMORY", "0"}}));
}

// A setting that the system sets and lets users set too would be overwritten without a word.
TEST(ReplicaProcessTest, WhatTheSystemSetsIsRefusedFromUsers) {
  v1::LaunchReplica launch = Launch();
  launch.mutable_adaptdl_http()->set_supervisor_url("http://:7300/x");
  launch.mutable_adaptdl_http()->set_master_port(20'001);
  for (const auto& [name, value] : EnvironmentOf(launch, Place())) {
    if (name.rfind("ADAPTDL_", 0) != 0 || name == "ADAPTDL_TENSORBOARD_LOGDIR") continue;
    EXPECT_TRUE(jobspec::IsSystemVariable(name)) << name;
  }
}

TEST(ReplicaProcessTest, ThreadsFollowTheCoresUnlessTheJobSaysOtherwise) {
  v1::LaunchReplica launch = Launch();
  launch.mutable_template_()->mutable_resources()->set_cpu_millis(3500);
  EXPECT_THAT(EnvironmentOf(launch, Place()), Contains(Pair("OMP_NUM_THREADS", "3")));
  AddEnv(&launch, "OMP_NUM_THREADS", "8");
  EXPECT_THAT(EnvironmentOf(launch, Place()), Contains(Pair("OMP_NUM_THREADS", "8")));
}

TEST(ReplicaProcessTest, InheritsOnlyWhatIsAllowed) {
  const char* const environment[] = {
      "PATH=/bin", "HOME=/root", "SECRET=1", "ADAPTDL_SERVER_X=1", "PROXY=http://", "ADAPTDL_GROUP_TOKEN=1",
      nullptr};
  EXPECT_THAT(InheritedEnvironment(environment, {"PROXY", "ADAPTDL_SERVER_X"}),
              ElementsAre(Pair("PATH", "/bin"), Pair("HOME", "/root"), Pair("PROXY", "http://")));
}

TEST(ReplicaProcessTest, AnAccountOfItsOwnHasItsOwnHome) {
  ReplicaPlace place = Place();
  place.account = Account{.uid = 200'001, .gid = 200'001, .name = "adaptdl-200001", .home = ""};
  place.max_processes = 100;
  v1::LaunchReplica launch = Launch();
  const Environment inherited = {{"HOME", "/root"}, {"USER", "root"}};
  std::map<std::string, std::string> environment = EnvironmentOf(launch, place, inherited);
  EXPECT_EQ(environment["HOME"], place.share_path);
  EXPECT_EQ(environment["USER"], "adaptdl-200001");
  const auto spec = MakeProcessSpec(launch, place, inherited);
  EXPECT_EQ(spec->uid, 200'001);
  EXPECT_EQ(spec->max_processes, 100);
  // What the job asks for wins.
  AddEnv(&launch, "HOME", "/data/home");
  EXPECT_EQ(EnvironmentOf(launch, place, inherited)["HOME"], "/data/home");
  EXPECT_EQ(MakeProcessSpec(Launch(), Place(), inherited)->uid, -1);
}

TEST(ReplicaProcessTest, StartsInTheShareFolderUnlessTold) {
  EXPECT_EQ(MakeProcessSpec(Launch(), Place(), {})->working_directory, "/s/team-a/mnist-u/share");
  EXPECT_THAT(MakeProcessSpec(Launch(), Place(), {})->argv, ElementsAre("train", "--lr=0.1"));
  v1::LaunchReplica launch = Launch();
  launch.mutable_template_()->set_working_directory("/data");
  EXPECT_EQ(MakeProcessSpec(launch, Place(), {})->working_directory, "/data");
  launch.mutable_template_()->set_working_directory("data");
  EXPECT_EQ(MakeProcessSpec(launch, Place(), {}).status().code(), absl::StatusCode::kInvalidArgument);
  v1::LaunchReplica empty = Launch();
  empty.mutable_template_()->clear_command();
  empty.mutable_template_()->clear_args();
  EXPECT_EQ(MakeProcessSpec(empty, Place(), {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReplicaProcessTest, RefusesWhatIsOutOfBounds) {
  EXPECT_TRUE(CheckLaunch(Launch()).ok());
  const auto refused = [](const std::function<void(v1::LaunchReplica*)>& change) {
    v1::LaunchReplica launch = Launch();
    change(&launch);
    return std::string(CheckLaunch(launch).message());
  };
  EXPECT_THAT(refused([](auto* l) { l->set_replica_id("a/b"); }), HasSubstr("replica_id \"a/b\""));
  EXPECT_THAT(refused([](auto* l) { l->set_job_uid(".."); }), HasSubstr("job_uid"));
  EXPECT_THAT(refused([](auto* l) { l->set_rank(2); }), HasSubstr("rank 2"));
  EXPECT_THAT(refused([](auto* l) { l->mutable_template_()->add_args(std::string("a\0b", 3)); }),
              HasSubstr("NUL"));
  EXPECT_THAT(refused([](auto* l) { l->mutable_template_()->add_args(std::string(1 << 18, 'x')); }),
              HasSubstr("262144 bytes"));
  EXPECT_THAT(refused([](auto* l) { AddEnv(l, "A=B", "x"); }), HasSubstr("template.env name"));
  EXPECT_THAT(refused([](auto* l) {
                for (int i = 0; i < 2000; ++i) *l->mutable_template_()->add_args() = std::string(2, 'x');
              }),
              HasSubstr("at most 1024"));
}

TEST(ReplicaProcessTest, GracePeriodsAreBounded) {
  v1::ReplicaTemplate replica;
  EXPECT_EQ(TerminationGracePeriod(replica), absl::Seconds(30));
  replica.mutable_termination_grace_period()->set_seconds(-5);
  EXPECT_EQ(TerminationGracePeriod(replica), absl::ZeroDuration());
  replica.mutable_termination_grace_period()->set_seconds(int64_t{1} << 40);
  EXPECT_EQ(TerminationGracePeriod(replica), absl::Hours(1));
}

TEST(MachineTest, ReadsTheLimitsOfControlGroups) {
  EXPECT_EQ(CpuMillisOfCgroup("150000 100000\n"), 1500);
  EXPECT_EQ(CpuMillisOfCgroup("max 100000\n"), 0);
  EXPECT_EQ(CpuMillisOfCgroup(""), 0);
  EXPECT_EQ(MemoryBytesOfCgroup("1073741824\n"), 1 << 30);
  EXPECT_EQ(MemoryBytesOfCgroup("max\n"), 0);
}

TEST(MachineTest, KnowsItself) {
  EXPECT_GE(MachineCpuMillis(), 1);
  EXPECT_GT(MachineMemoryBytes(), 1 << 20);
  EXPECT_EQ(*FindAdvertiseHost("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*FindAdvertiseHost("localhost"), "127.0.0.1");
  EXPECT_EQ(*FindAdvertiseHost("192.0.2.7"), "192.0.2.7");
}

}  // namespace
}  // namespace adaptdl::worker
