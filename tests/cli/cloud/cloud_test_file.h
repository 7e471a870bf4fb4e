// A cluster file of tests.

#ifndef ADAPTDL_TESTS_CLI_CLOUD_CLOUD_TEST_FILE_H_
#define ADAPTDL_TESTS_CLI_CLOUD_CLOUD_TEST_FILE_H_

namespace adaptdl::cli {

inline constexpr char kClusterText[] = R"(
name: demo
region: us-east-1
head:
  instanceType: m7i.large
  image: ami-1
  subnet: subnet-1
  securityGroups: [sg-1]
  instanceProfile: heads
storage: {source: "fs-1:/", target: /srv/jobs, options: "hard,vers=4.1"}
workers:
  target: {mode: budget, budgetPerHour: 10}
  pools:
  - {name: spot, instanceTypes: [c7i.large], cpus: 1500m, memory: 2Gi, pricePerHour: 0.5, maxNodes: 3, taints: ["a=b:NoSchedule"]}
)";

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_CLOUD_CLOUD_TEST_FILE_H_
