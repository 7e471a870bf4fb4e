// What a doctor concludes, and what a bundle leaves out.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/support/checkup.h"
#include "cli/support/redaction.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/golden.h"
#include "tests/cli/sample_cluster.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ClusterState HealthyState() {
  ClusterState state;
  state.now = SampleNow();
  state.version = "1.2.3";
  state.addresses = {{.address = "127.0.0.1:7100", .health = "SERVING"}};
  v1::WhoAmIResponse identity;
  identity.set_name("ada");
  identity.set_role("admin");
  identity.add_namespaces("*");
  state.identity = identity;
  v1::ListNodesResponse nodes = SampleNodes();
  nodes.mutable_nodes()->RemoveLast();
  for (v1::Node& node : *nodes.mutable_nodes()) {
    node.set_version("1.2.3");
    *node.mutable_status()->mutable_last_heartbeat() = messages::ToProto(SampleNow() - absl::Seconds(2));
  }
  state.nodes = nodes;
  state.jobs = v1::ListJobsResponse();
  state.pools = v1::GetNodePoolsResponse();
  return state;
}

std::string Report(const ClusterState& state) {
  const std::vector<Check> checks = CheckUp(state);
  return absl::StrCat(Render(CheckTable(checks), false), Remedies(checks));
}

Verdict WorstOfState(const ClusterState& state) { return WorstOf(CheckUp(state)); }

TEST(CheckupTest, AHealthyClusterNeedsNothing) {
  EXPECT_EQ(WorstOfState(HealthyState()), Verdict::kOk);
  EXPECT_THAT(Report(HealthyState()), Not(HasSubstr("What helps")));
}

TEST(CheckupTest, SaysWhereMemoryIsNotLimitedAndWhy) {
  ClusterState state = HealthyState();
  state.nodes->mutable_nodes(0)->set_limits_missing("there is no control group");
  EXPECT_EQ(WorstOfState(state), Verdict::kOk) << "it may be meant so";
  EXPECT_THAT(Report(state), HasSubstr("that they ask for on gpu-node-0: there is no control group"));
}

TEST(CheckupTest, SaysWhatIsWrongAndWhatHelps) {
  ClusterState state = HealthyState();
  v1::ListNodesResponse nodes = SampleNodes();
  nodes.mutable_nodes(0)->add_problems("GPU-1f: GPU is lost");
  nodes.mutable_nodes(0)->mutable_status()->add_unreachable_nodes("gpu-node-1");
  nodes.mutable_nodes(1)->mutable_status()->add_unreachable_nodes("gpu-node-0");
  nodes.mutable_nodes(1)->mutable_status()->set_phase(v1::NODE_PHASE_QUARANTINED);
  nodes.mutable_nodes(1)->set_version("1.0.0");
  for (v1::Node& node : *nodes.mutable_nodes()) {
    *node.mutable_status()->mutable_last_heartbeat() = messages::ToProto(SampleNow() + absl::Seconds(40));
  }
  state.nodes = nodes;
  state.jobs = SampleJobs();
  *state.jobs->add_jobs() = SampleJob("forgotten", v1::JOB_PHASE_PENDING, 0);
  *state.pools->mutable_report_time() = messages::ToProto(SampleNow() - absl::Minutes(20));
  state.pools->add_pools()->set_name("spot");
  state.pools->mutable_pools(0)->add_conditions()->set_type("InsufficientCapacity");
  state.sick_services = {"allocator is DOWN"};
  state.disk =
      DiskState{.folder = "/home/ada/.adaptdl", .free_bytes = 100 << 20, .all_bytes = int64_t{64} << 30};
  EXPECT_EQ(WorstOfState(state), Verdict::kFailure);
  ExpectGolden("doctor", Report(state));
}

TEST(CheckupTest, WhereNothingAnswersTheFirstThingCounts) {
  ClusterState state = HealthyState();
  state.addresses[0].connection = absl::UnavailableError("Connection refused");
  state.identity = absl::UnavailableError("supervisor unreachable");
  const std::vector<Check> checks = CheckUp(state);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_THAT(checks[0].remedy, HasSubstr("adaptdl cluster up"));
  // One of several that is away is no catastrophe.
  state = HealthyState();
  state.addresses.push_back(
      {.address = "b:7100", .connection = absl::UnavailableError("Connection refused")});
  EXPECT_EQ(WorstOfState(state), Verdict::kWarning);
  // It is there, but talks otherwise.
  state.addresses = {{.address = "b:7100", .health = absl::UnavailableError("Ssl handshake failed")}};
  EXPECT_THAT(CheckUp(state)[0].remedy, HasSubstr("--ca"));
}

TEST(CheckupTest, ATokenThatIsNoneIsNamed) {
  ClusterState state = HealthyState();
  state.identity = absl::UnauthenticatedError("the token has expired");
  const std::vector<Check> checks = CheckUp(state);
  EXPECT_EQ(checks.back().verdict, Verdict::kFailure);
  EXPECT_THAT(checks.back().remedy, HasSubstr("--token-file"));
}

TEST(CheckupTest, WhatOneMayNotSeeIsNoFailure) {
  ClusterState state = HealthyState();
  state.pools = absl::PermissionDeniedError("no");
  EXPECT_EQ(WorstOfState(state), Verdict::kOk);
}

TEST(RedactionTest, ShowsOnlyWhatIsHarmless) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"EPOCHS", "10"},
                                                        {"LR", "1e-3"},
                                                        {"USE_AMP", "true"},
                                                        {"NCCL_DEBUG", "INFO"},
                                                        {"TZ", "UTC"},
                                                        {"PYTHONPATH", "/srv/code"},
                                                        {"EMPTY", ""}}) {
    EXPECT_TRUE(MayBeShown(name, value)) << name;
  }
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"AWS_SECRET_ACCESS_KEY", "abc"},
                                                        {"WANDB_API_KEY", "12345"},
                                                        {"PASSWORD", "1234"},
                                                        {"MY_SETTING", "correct horse"},
                                                        {"DATABASE_URL", "postgres://u:p@h/db"},
                                                        {"TORCH_HOME", "https://u:p@host/x"},
                                                        {"ADAPTDL_TOKEN", "t"},
                                                        {"NETRC", "machine x login y"}}) {
    EXPECT_FALSE(MayBeShown(name, value)) << name;
  }
}

TEST(RedactionTest, TakesCredentialsOutOfUrls) {
  EXPECT_EQ(WithoutCredentials("get https://me:secret@host/path?x=@y now"),
            "get https://<redacted>@host/path?x=@y now");
  EXPECT_EQ(WithoutCredentials("s3://bucket/a@b http://h"), "s3://bucket/a@b http://h");
  EXPECT_EQ(WithoutCredentials("a://b@c://d@e"), "a://<redacted>@c://<redacted>@e");
}

TEST(RedactionTest, LeavesAJobThatTellsNoSecrets) {
  v1::Job job;
  v1::ReplicaTemplate* replica = job.mutable_spec()->mutable_template_();
  for (const char* word : {"python3", "train.py", "--lr", "0.1", "--api-key", "abc", "--hub-token=def",
                           "API_KEY=ghi", "--tokens=512", "--url=https://u:jkl@h/"}) {
    replica->add_args(word);
  }
  v1::EnvironmentVariable* variable = replica->add_env();
  variable->set_name("HF_TOKEN");
  variable->set_value("mno");
  replica->mutable_python()->set_requirements("--index-url https://u:pqr@pypi.local/\nnumpy\n");
  replica->add_data_sets()->set_url("s3://bucket/data");
  const std::string text = Redacted(job).ShortDebugString();
  for (const char* secret : {"abc", "def", "ghi", "jkl", "mno", "pqr"})
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  for (const char* kept : {"0.1", "--tokens=512", "numpy", "s3://bucket/data", "HF_TOKEN", "train.py"}) {
    EXPECT_THAT(text, HasSubstr(kept));
  }
}

}  // namespace
}  // namespace adaptdl::cli
