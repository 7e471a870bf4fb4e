// What a pool file must not hold, and what its author is told.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobfile/document.h"
#include "libs/poolfile/pool_file.h"

namespace adaptdl::poolfile {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Refusal(absl::string_view text) {
  const absl::StatusOr<PoolFile> file = ParsePoolFile(text, "pools.yaml");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(file.status().message());
}

// With one pool of processes on line 2, which has the fields.
std::string WithFields(absl::string_view fields) {
  return absl::StrCat("pools:\n- {name: a, provider: process, maxNodes: 2", fields.empty() ? "" : ", ",
                      fields, "}\n");
}

// With a pool on line 2 that has the section.
std::string Aws(absl::string_view section, absl::string_view fields = "") {
  return absl::StrCat(
      "pools:\n- {name: a, provider: aws, maxNodes: 2, instanceType: t, cpus: 1, memory: 1Gi, ", fields,
      fields.empty() ? "" : ", ", "aws: {", section, "}}\n");
}

TEST(PoolFileRefusalTest, NamesFileLineFieldAndRemedy) {
  EXPECT_EQ(Refusal("pools:\n- {name: a, provider: process,\n   maxNodes: -1}\n"),
            "pools.yaml:3: pools[0].maxNodes must lie between 0 and 10000, not \"-1\"");
  EXPECT_EQ(Refusal(WithFields("maxNode: 3")),
            "pools.yaml:2: pools[0].maxNode is not a known field; did you mean pools[0].maxNodes?");
  EXPECT_EQ(Refusal(WithFields("maxNodes: 3")), "pools.yaml:2: pools[0].maxNodes is given twice; keep one");
  EXPECT_EQ(Refusal(WithFields("spot: 1")),
            "pools.yaml:2: pools[0].spot must be true or false, not the number 1");
  EXPECT_EQ(Refusal(WithFields("minNodes: 3")),
            "pools.yaml:2: pools[0].minNodes is 3, more than maxNodes, 2; lower it or raise maxNodes");
}

TEST(PoolFileRefusalTest, TellsOfAllProblemsAtOnce) {
  EXPECT_EQ(
      Refusal("cooldown: 60\npools:\n- name: Big\n  provider: procces\n"),
      "pools.yaml:1: cooldown must be a time such as 90s, 10m or 1h30m, from 0 to 24h, not \"60\"\n"
      "pools.yaml:3: pools[0].name must be 1 to 50 lower-case letters, digits and hyphens, with a letter or "
      "digit at both ends, not \"Big\"\n"
      "pools.yaml:3: pools[0].maxNodes is missing; it bounds what the pool may cost\n"
      "pools.yaml:4: pools[0].provider must be one of process, kubernetes, aws, gcp, not \"procces\"");
}

TEST(PoolFileRefusalTest, RefusesWhatIsNoPoolFile) {
  EXPECT_THAT(Refusal(""), HasSubstr("the file is empty"));
  EXPECT_THAT(Refusal("- a\n"), HasSubstr("a pool file must be a map of fields"));
  EXPECT_THAT(Refusal("pools: []\n"), HasSubstr("pools is empty; list at least one"));
  EXPECT_THAT(Refusal("target: {}\n"), HasSubstr("pools is missing; list at least one"));
  EXPECT_THAT(Refusal("pools: [a]\n"), HasSubstr("pools[0] must be a map of fields, not \"a\""));
  EXPECT_THAT(Refusal("pools: {\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(Refusal(std::string(jobfile::kMaxFileBytes + 1, ' ')), HasSubstr("the file is larger than"));
  EXPECT_THAT(Refusal(WithFields("") + "---\n" + WithFields("")), HasSubstr("a second document"));
}

TEST(PoolFileRefusalTest, BoundsHowManyThereAre) {
  std::string text = "pools:\n";
  for (int i = 0; i <= kMaxPools; ++i)
    absl::StrAppend(&text, "- {name: p", i, ", provider: process, maxNodes: 1}\n");
  EXPECT_THAT(Refusal(text), HasSubstr("pools has 65 entries; keep to 64"));
  std::string labels = "labels: {";
  for (int i = 0; i <= kMaxEntries; ++i) absl::StrAppend(&labels, "l", i, ": x, ");
  EXPECT_THAT(Refusal(WithFields(labels + "}")), HasSubstr("pools[0].labels has 65 entries; keep to 64"));
  EXPECT_THAT(Refusal(WithFields("labels: {k: " + std::string(64, 'x') + "}")),
              HasSubstr("pools[0].labels.k must have 0 to 63 printable characters"));
}

TEST(PoolFileRefusalTest, NamesAreUnique) {
  EXPECT_EQ(Refusal("pools:\n- {name: a, provider: process, maxNodes: 1}\n- {name: a, provider: process, "
                    "maxNodes: 1}\n"),
            "pools.yaml:3: pools[1].name is that of pools[0], \"a\"; give each its own");
}

TEST(PoolFileRefusalTest, HoldsTheTargetAgainstItsMode) {
  const auto target = [](absl::string_view fields) {
    return Refusal(absl::StrCat("target: {", fields, "}\n", WithFields("pricePerHour: 1")));
  };
  EXPECT_THAT(target("mode: best"), HasSubstr("target.mode must be one of band, budget, deadline, cost"));
  EXPECT_THAT(target("mode: budget"), HasSubstr("target.budgetPerHour is missing; mode: budget needs it"));
  EXPECT_THAT(target("mode: cost"), HasSubstr("target.goodputPerDollar is missing; mode: cost needs it"));
  EXPECT_THAT(target("budgetPerHour: 3"),
              HasSubstr("target.budgetPerHour has no place here: it belongs to mode: budget"));
  EXPECT_THAT(target("utilityLow: 0.7"), HasSubstr("target.utilityLow leaves no band"));
  EXPECT_THAT(target("utilityHigh: .nan"), HasSubstr("target.utilityHigh must lie between"));
  EXPECT_THAT(
      target("mode: deadline, deadline: tomorrow"),
      HasSubstr("target.deadline must be a time such as 2030-12-24T18:00:00+01:00, not \"tomorrow\""));
  EXPECT_THAT(target("mode: deadline, deadline: infinite-future"),
              HasSubstr("target.deadline must be a time"));
}

TEST(PoolFileRefusalTest, TargetsOfMoneyNeedPricesThatFit) {
  EXPECT_THAT(Refusal("target: {mode: budget, budgetPerHour: 1}\n" + WithFields("")),
              HasSubstr("pools.yaml:3: pools[0].pricePerHour is missing; target.mode: budget needs"));
  EXPECT_THAT(
      Refusal("target: {mode: budget, budgetPerHour: 1}\n" + WithFields("minNodes: 2, pricePerHour: 0.6")),
      HasSubstr("minNodes of all of them cost 1.2 per hour, more than target.budgetPerHour, 1"));
  EXPECT_THAT(Refusal("floorOn: on-demand\n" + WithFields("spot: true")),
              HasSubstr("floorOn is on-demand, and no pool without spot may have a node"));
  EXPECT_THAT(Refusal("currency: usd\n" + WithFields("")), HasSubstr("currency must be three letters"));
  EXPECT_THAT(Refusal(WithFields("pricePerHour: -1")), HasSubstr("pricePerHour must lie between 0 and"));
}

TEST(PoolFileRefusalTest, SectionsBelongToTheirProvider) {
  EXPECT_THAT(
      Refusal(WithFields("gcp: {zone: z}")),
      HasSubstr("pools[0].gcp has no place here: the provider of this pool is process; leave it out"));
  EXPECT_THAT(Refusal(WithFields("cpus: 2")),
              HasSubstr("pools[0].cpus has no place here: give process.workerCpus and process.workerMemory"));
  EXPECT_THAT(Refusal("pools:\n- {name: a, provider: gcp, maxNodes: 1}\n"),
              AllOf(HasSubstr("pools[0].cpus is missing"), HasSubstr("pools[0].gcp.project is missing"),
                    HasSubstr("pools[0].gcp.instanceGroup is missing")));
  EXPECT_THAT(Refusal("pools:\n- {name: a, provider: kubernetes, maxNodes: 1, cpus: 1, memory: 1Gi}\n"),
              StartsWith("pools.yaml:2: pools[0].kubernetes.nodeSelector is missing; give the labels"));
}

TEST(PoolFileRefusalTest, AwsNeedsToKnowWhatToLaunch) {
  EXPECT_THAT(Refusal(Aws("region: r")), AllOf(HasSubstr("pools[0].aws.image is missing"),
                                               HasSubstr("pools[0].aws.subnets is missing")));
  EXPECT_THAT(Refusal(Aws("image: i, subnets: [s]")), HasSubstr("pools[0].aws.region is missing"));
  EXPECT_THAT(Refusal(Aws("region: r, autoScalingGroup: g, image: i", "disk: 1Gi")),
              AllOf(HasSubstr("pools[0].aws.image has no place here: the group says it"),
                    HasSubstr("pools[0].disk has no place here: the group says it")));
  EXPECT_THAT(Refusal(Aws("region: r, autoScalingGroup: g, launch: binary")),
              HasSubstr("pools[0].aws.workerBinary is missing; launch: binary runs it"));
  EXPECT_THAT(Refusal(Aws("region: r, launchTemplate: l, launch: binary")),
              HasSubstr("pools[0].aws.workerBinary is missing; launch: binary runs it"));
  EXPECT_THAT(Refusal(Aws("region: r, launchTemplate: l, launch: binary, workerBinary: bin/w")),
              HasSubstr("pools[0].aws.workerBinary must be an absolute path"));
  EXPECT_THAT(Refusal(Aws("region: r, launchTemplate: l, endpoint: ftp://x")),
              HasSubstr("pools[0].aws.endpoint must begin with http:// or https://"));
  EXPECT_THAT(Refusal(Aws("region: r, launchTemplate: l, tags: {\"aws:x\": y}")),
              HasSubstr("names that begin with adaptdl: or aws: are taken"));
}

TEST(PoolFileRefusalTest, AGroupHasOnePool) {
  const auto pool = [](absl::string_view name, absl::string_view provider) {
    return absl::StrCat("- {name: ", name, ", maxNodes: 1, cpus: 1, memory: 1Gi, ", provider, "}\n");
  };
  const std::string aws =
      "provider: aws, instanceType: t, aws: {region: r, autoScalingGroup: g, workerImage: i}";
  const std::string gcp = "provider: gcp, gcp: {project: p, zone: z, instanceGroup: g}";
  EXPECT_THAT(Refusal(absl::StrCat("pools:\n", pool("a", aws), pool("b", gcp), pool("c", aws))),
              StartsWith("pools.yaml:4: pools[2] resizes the same group as pools[0]; give each its own"));
  EXPECT_THAT(Refusal(absl::StrCat("pools:\n", pool("a", gcp), pool("b", gcp))),
              HasSubstr("pools[1] resizes the same group as pools[0]"));
}

TEST(PoolFileRefusalTest, MountsHoldNothingThatAShellWouldRead) {
  const auto mount = [](absl::string_view fields) {
    return Refusal(Aws("region: r, launchTemplate: l", absl::StrCat("mounts: [{", fields, "}]")));
  };
  EXPECT_THAT(mount("source: \"a:/$(reboot)\", target: /data"),
              HasSubstr("pools[0].mounts[0].source may hold letters, digits and"));
  EXPECT_THAT(mount("source: \"a:/\", target: data"), HasSubstr("target must be an absolute path"));
  EXPECT_THAT(mount("source: \"a:/\", target: /data/../etc"), HasSubstr("target must be an absolute path"));
  EXPECT_THAT(mount("source: \"a:/\", target: /d}, {source: \"b:/\", target: /d"),
              HasSubstr("pools[0].mounts[1].target is that of another one"));
}

TEST(PoolFileRefusalTest, StorageIsABucketThatMachinesCanReach) {
  const auto storage = [](absl::string_view fields) {
    return Refusal(Aws("region: r, launchTemplate: l", absl::StrCat("storage: {", fields, "}")));
  };
  EXPECT_THAT(storage("region: r"), HasSubstr("pools[0].storage.url is missing"));
  EXPECT_THAT(storage("url: /data"),
              HasSubstr("pools[0].storage.url must be s3://BUCKET/PREFIX, not \"/data\""));
  EXPECT_THAT(storage("url: \"s3://a/$(reboot)\""), HasSubstr("pools[0].storage.url must be"));
  EXPECT_THAT(storage("url: \"s3://a/b\", endpoint: \"http://$x\""),
              HasSubstr("pools[0].storage.endpoint may hold"));
  EXPECT_THAT(Refusal("pools:\n- {name: a, provider: gcp, maxNodes: 1, cpus: 1, memory: 1Gi, storage: {url: "
                      "\"s3://a/b\"}}\n"),
              HasSubstr("no credentials of Amazon"));
  EXPECT_THAT(
      Refusal(Aws("region: r, image: i, subnets: [s], workerImage: w", "storage: {url: \"s3://a/b\"}")),
      HasSubstr("storage needs aws.instanceProfile"));
}

TEST(PoolFileRefusalTest, RefusesAmountsThatAreNone) {
  EXPECT_THAT(Refusal(Aws("region: r, launchTemplate: l", "gpus: 1.5")),
              HasSubstr("gpus must be a whole number"));
  EXPECT_THAT(Refusal("pools:\n- {name: a, provider: gcp, maxNodes: 1, cpus: many, memory: 1Qi}\n"),
              AllOf(HasSubstr("pools[0].cpus is no number of cores"),
                    HasSubstr("pools[0].memory is no number of bytes")));
  EXPECT_THAT(Refusal(Aws("region: r, launchTemplate: l", "extendedResources: {fpga: 1}")),
              HasSubstr("holds \"fpga\", which is no name of a device"));
  EXPECT_THAT(Refusal(WithFields("taints: [\"gpu\"]")), HasSubstr("pools[0].taints holds a taint: \"gpu\""));
}

}  // namespace
}  // namespace adaptdl::poolfile
