#include "cli/cloud/cluster_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/cloud/document_text.h"
#include "cli/cloud/head_script.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/cloud/cloud_test_file.h"

namespace adaptdl::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<ClusterFile> With(const std::string& from, const std::string& to) {
  return ParseClusterFile(absl::StrReplaceAll(kClusterText, {{from, to}}), "c.yaml");
}

TEST(ClusterFileTest, PoolsAreCompletedFromTheHead) {
  const auto file = ParseClusterFile(kClusterText, "c.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->pools.cluster, "demo");
  ASSERT_EQ(file->pools.pools.size(), 1u);
  const poolfile::Pool& pool = file->pools.pools[0];
  EXPECT_EQ(pool.provider, poolfile::Provider::kAws);
  EXPECT_EQ(pool.aws.region, "us-east-1");
  EXPECT_EQ(pool.aws.image, "ami-1");
  EXPECT_THAT(pool.aws.subnets, ElementsAre("subnet-1"));
  EXPECT_THAT(pool.aws.security_groups, ElementsAre("sg-1"));
  EXPECT_EQ(pool.aws.worker.launch, poolfile::Launch::kBinary);
  EXPECT_EQ(pool.aws.worker.binary, "/usr/bin/adaptdl-worker");
  EXPECT_THAT(pool.mounts, ElementsAre(poolfile::Mount{"fs-1:/", "/srv/jobs", "nfs4", "hard,vers=4.1"}));
  EXPECT_EQ(pool.capacity.cpu_millis(), 1500);
  EXPECT_EQ(pool.taints.size(), 1u);
}

TEST(ClusterFileTest, WhatAPoolSaysCounts) {
  const auto file =
      With("maxNodes: 3", "maxNodes: 3, aws: {image: ami-2, workerImage: \"x/y:1\", securityGroups: [sg-9]}");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->pools.pools[0].aws.image, "ami-2");
  EXPECT_EQ(file->pools.pools[0].aws.worker.image, "x/y:1");
  EXPECT_THAT(file->pools.pools[0].aws.security_groups, ElementsAre("sg-9"));
}

TEST(ClusterFileTest, WithAnImageOfTheServicesWorkersRunItToo) {
  const auto file =
      With("instanceProfile: heads", "instanceProfile: heads\n  serviceImage: registry/adaptdl:1");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->pools.pools[0].aws.worker.launch, poolfile::Launch::kContainer);
  EXPECT_EQ(file->pools.pools[0].aws.worker.image, "registry/adaptdl:1");
}

TEST(ClusterFileTest, JobsFilesMayBeInABucket) {
  const std::string mount = "source: \"fs-1:/\", target: /srv/jobs, options: \"hard,vers=4.1\"";
  const auto bucket = [&](const std::string& fields, const std::string& profile) {
    return ParseClusterFile(
        absl::StrReplaceAll(kClusterText, {{mount, fields}, {"maxNodes: 3", "maxNodes: 3" + profile}}),
        "c.yaml");
  };
  const auto file = bucket("url: \"s3://models/jobs\"", ", aws: {instanceProfile: workers}");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->pools.pools[0].storage, (poolfile::ObjectStorage{"s3://models/jobs", "", "us-east-1"}));
  EXPECT_THAT(file->pools.pools[0].mounts, ElementsAre());
  EXPECT_THAT(bucket("url: \"s3://models/jobs\"", "").status().message(), HasSubstr("aws.instanceProfile"));
  EXPECT_THAT(
      bucket("url: \"s3://models/jobs\", target: /x", ", aws: {instanceProfile: w}").status().message(),
      HasSubstr("storage.target has no place here"));
  EXPECT_THAT(bucket(mount + ", region: r", "").status().message(), HasSubstr("belong to storage.url"));
}

TEST(ClusterFileTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(With("  image: ami-1\n", "").status().message(), HasSubstr("head.image is missing"));
  EXPECT_THAT(With("name: demo", "name: De_mo").status().message(),
              HasSubstr("c.yaml:2: name must be a DNS label"));
  EXPECT_THAT(With("image: ami-1", "imag: ami-1").status().message(), HasSubstr("imag"));
  EXPECT_THAT(With("budgetPerHour: 10", "budgetPerHour: no").status().message(), HasSubstr("budgetPerHour"));
  EXPECT_THAT(With("maxNodes: 3", "maxNodes: 3, provider: process").status().ok(), false);
  EXPECT_THAT(With("maxNodes: 3", "maxNodes: 3, aws: {region: eu-west-1}").status().message(),
              HasSubstr("aws.region and aws.endpoint must be the cluster's"));
  EXPECT_THAT(With("instanceTypes: [c7i.large], ", "aws: {autoScalingGroup: g}, ").status().message(),
              HasSubstr("aws.autoScalingGroup can't be launched"));
  EXPECT_THAT(With("pools:", "cluster: other\n  pools:").status().message(), HasSubstr("workers.cluster"));
  EXPECT_THAT(ParseClusterFile("[1]", "c.yaml").status().message(), HasSubstr("must be a map"));
}

TEST(DocumentTextTest, ReadsAsTheSameTree) {
  const char* text =
      "{a: [1, '2', true, x-y, \"it's: \\\"so\\\"\", null], b: {c: 'true', d: 'a#b, c'}, e: -x, f: 1.5e3}\n";
  const auto root = jobfile::ParseDocument(text, "t");
  ASSERT_TRUE(root.ok());
  const std::string once = DocumentText(*root);
  const auto again = jobfile::ParseDocument(once, "t");
  ASSERT_TRUE(again.ok()) << again.status() << once;
  EXPECT_EQ(DocumentText(*again), once);
  EXPECT_FALSE(again->Find("a")->items[0].quoted);
  EXPECT_TRUE(again->Find("a")->items[1].quoted);
  EXPECT_EQ(again->Find("a")->items[4].text, "it's: \"so\"");
  EXPECT_EQ(again->Find("a")->items[5].kind, jobfile::Node::Kind::kNull);
  EXPECT_TRUE(again->Find("b")->Find("c")->quoted);
}

TEST(HeadScriptTest, HoldsThePoolsAndNoSecret) {
  const auto file = ParseClusterFile(kClusterText, "c.yaml");
  ASSERT_TRUE(file.ok());
  const auto script = MakeHeadScript(*file, "-----BEGIN CERTIFICATE-----\n");
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(*script, HasSubstr(file->pools_text));
  EXPECT_THAT(*script, HasSubstr("PORT=7100"));
  EXPECT_THAT(*script, Not(HasSubstr("PRIVATE KEY")));
}

TEST(HeadScriptTest, WhatAmazonDoesNotTakeIsRefused) {
  auto file = ParseClusterFile(kClusterText, "c.yaml");
  ASSERT_TRUE(file.ok());
  file->pools_text.append(16 << 10, '#');
  EXPECT_THAT(MakeHeadScript(*file, "").status().message(), HasSubstr("Amazon takes 16384"));
  file->pools_text = "ADAPTDL-END\n";
  EXPECT_EQ(MakeHeadScript(*file, "").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::cli
