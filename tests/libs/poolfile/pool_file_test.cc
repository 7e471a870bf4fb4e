#include "libs/poolfile/pool_file.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::poolfile {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kFull[] = R"(cluster: vision
currency: EUR
target:
  mode: deadline
  deadline: 2030-12-24T18:00:00+01:00
floorOn: on-demand
cooldown: 2m
drainTimeout: 1h30m
pools:
- name: gpu
  provider: aws
  instanceTypes: [g5.2xlarge, g5.4xlarge]
  gpuType: NVIDIA A10G
  gpus: 1
  cpus: 7500m
  memory: 30Gi
  extendedResources: {example.com/fpga: 2}
  pricePerHour: 1
  spot: true
  minNodes: 1
  maxNodes: 16
  startTime: 4m
  zones: [us-east-1a]
  labels: {tier: spot, "n": "1"}
  taints: ["gpu=yes:NoSchedule"]
  disk: 200Gi
  mounts:
  - {source: "fs-123:/", target: /data}
  - {source: "nfs:/x", target: /x, type: nfs, options: "ro,soft"}
  storage: {url: "s3://models/jobs", endpoint: "https://store:9000", region: eu-west-1}
  aws:
    region: us-east-1
    image: ami-1
    subnets: [subnet-1, subnet-2]
    securityGroups: [sg-1]
    instanceProfile: worker
    keyName: key
    launchTemplate: lt-1
    endpoint: http://127.0.0.1:5000
    launch: binary
    workerBinary: /usr/bin/adaptdl-worker
    tags: {team: vision}
- name: steady
  provider: kubernetes
  cpus: 7
  memory: 28Gi
  maxNodes: 2
  kubernetes:
    kubeconfig: /etc/kubeconfig
    context: prod
    namespace: elsewhere
    nodeSelector: {karpenter.sh/nodepool: steady}
    tolerations:
    - {key: nvidia.com/gpu, operator: Exists}
    placeholderImage: pause:1
    placeholderPriorityClass: low
    capacityDeadline: 5m
- name: google
  provider: gcp
  cpus: 4
  memory: 16Gi
  maxNodes: 3
  gcp: {project: p, zone: europe-west4-a, instanceGroup: g, credentialsFile: /key.json}
)";

PoolFile Parse(absl::string_view text) {
  absl::StatusOr<PoolFile> file = ParsePoolFile(text, "pools.yaml");
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : PoolFile();
}

TEST(PoolFileTest, ReadsWhatIsSaidOfAllPools) {
  const PoolFile file = Parse(kFull);
  EXPECT_EQ(file.cluster, "vision");
  EXPECT_EQ(file.currency, "EUR");
  EXPECT_EQ(file.target.mode, TargetMode::kDeadline);
  EXPECT_EQ(file.target.deadline, absl::FromCivil(absl::CivilSecond(2030, 12, 24, 17), absl::UTCTimeZone()));
  EXPECT_EQ(file.floor_on, FloorOn::kOnDemand);
  EXPECT_EQ(file.cooldown, absl::Minutes(2));
  EXPECT_EQ(file.drain_timeout, absl::Minutes(90));
  EXPECT_EQ(file.pools.size(), 3u);
}

TEST(PoolFileTest, ReadsAPool) {
  const PoolFile file = Parse(kFull);
  ASSERT_EQ(file.pools.size(), 3u);
  const Pool& pool = file.pools[0];
  EXPECT_EQ(pool.name, "gpu");
  EXPECT_EQ(pool.line, 10);
  EXPECT_EQ(pool.provider, Provider::kAws);
  EXPECT_THAT(pool.instance_types, ElementsAre("g5.2xlarge", "g5.4xlarge"));
  EXPECT_EQ(pool.capacity.cpu_millis(), 7500);
  EXPECT_EQ(pool.capacity.memory_bytes(), int64_t{30} << 30);
  EXPECT_EQ(pool.capacity.gpus(), 1);
  EXPECT_EQ(pool.capacity.extended().at("example.com/fpga"), 2);
  EXPECT_EQ(pool.gpu_type, "NVIDIA A10G");
  EXPECT_EQ(pool.price_per_hour, 1);
  EXPECT_TRUE(pool.spot);
  EXPECT_EQ(pool.min_nodes, 1);
  EXPECT_EQ(pool.max_nodes, 16);
  EXPECT_EQ(pool.start_time, absl::Minutes(4));
  EXPECT_THAT(pool.zones, ElementsAre("us-east-1a"));
  EXPECT_THAT(pool.labels, ElementsAre(Pair("n", "1"), Pair("tier", "spot")));
  ASSERT_EQ(pool.taints.size(), 1u);
  EXPECT_EQ(pool.taints[0].key(), "gpu");
  EXPECT_EQ(pool.taints[0].effect(), v1::TAINT_EFFECT_NO_SCHEDULE);
  EXPECT_EQ(pool.disk_bytes, int64_t{200} << 30);
  EXPECT_THAT(pool.mounts, ElementsAre(Mount{"fs-123:/", "/data"}, Mount{"nfs:/x", "/x", "nfs", "ro,soft"}));
  EXPECT_EQ(pool.storage, (ObjectStorage{"s3://models/jobs", "https://store:9000", "eu-west-1"}));
}

TEST(PoolFileTest, ReadsWhatBelongsToAProvider) {
  const PoolFile file = Parse(kFull);
  ASSERT_EQ(file.pools.size(), 3u);
  const AwsSection& aws = file.pools[0].aws;
  EXPECT_EQ(aws.region, "us-east-1");
  EXPECT_THAT(aws.subnets, ElementsAre("subnet-1", "subnet-2"));
  EXPECT_EQ(aws.launch_template, "lt-1");
  EXPECT_EQ(aws.worker.launch, Launch::kBinary);
  EXPECT_EQ(aws.worker.binary, "/usr/bin/adaptdl-worker");
  EXPECT_THAT(aws.tags, ElementsAre(Pair("team", "vision")));
  const KubernetesSection& kubernetes = file.pools[1].kubernetes;
  EXPECT_EQ(kubernetes.name_space, "elsewhere");
  EXPECT_THAT(kubernetes.node_selector, ElementsAre(Pair("karpenter.sh/nodepool", "steady")));
  ASSERT_EQ(kubernetes.tolerations.size(), 1u);
  EXPECT_TRUE(kubernetes.tolerations[0].any_value());
  EXPECT_EQ(kubernetes.capacity_deadline, absl::Minutes(5));
  EXPECT_EQ(file.pools[2].gcp.instance_group, "g");
  EXPECT_EQ(file.pools[2].gcp.credentials_file, "/key.json");
}

TEST(PoolFileTest, FillsInDefaults) {
  const PoolFile file = Parse("pools: [{name: local, provider: process, maxNodes: 3}]");
  EXPECT_EQ(file.cluster, "adaptdl");
  EXPECT_EQ(file.currency, "USD");
  EXPECT_EQ(file.target.mode, TargetMode::kBand);
  EXPECT_EQ(file.target.utility_low, 0.35);
  EXPECT_EQ(file.floor_on, FloorOn::kAny);
  EXPECT_EQ(file.cooldown, absl::Seconds(60));
  EXPECT_EQ(file.drain_timeout, std::nullopt);
  ASSERT_EQ(file.pools.size(), 1u);
  EXPECT_EQ(file.pools[0].min_nodes, 0);
  EXPECT_EQ(file.pools[0].price_per_hour, std::nullopt);
  EXPECT_EQ(file.pools[0].capacity.cpu_millis(), 1000) << "that of a worker";
}

TEST(PoolFileTest, SaysThatThereIsNoFile) {
  EXPECT_TRUE(absl::IsNotFound(ReadPoolFile("/nowhere/pools.yaml").status()));
}

}  // namespace
}  // namespace adaptdl::poolfile
