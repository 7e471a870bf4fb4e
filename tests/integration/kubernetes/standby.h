// A second supervisor of a test's cluster, which stands by.

#ifndef ADAPTDL_TESTS_INTEGRATION_KUBERNETES_STANDBY_H_
#define ADAPTDL_TESTS_INTEGRATION_KUBERNETES_STANDBY_H_

#include <string>
#include <vector>

#include "tests/integration/process.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {

inline std::string StandbyAddressFile(const TestCluster& cluster) {
  return cluster.folder() + "/standby.address";
}

// With these flags beside those that the cluster's own has. Its log is "standby.log" in the cluster's folder.
inline Process StartStandby(TestCluster* cluster, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {cluster->Binary("adaptdl-supervisor"),
                                      "--insecure",
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--metrics-listen",
                                      "127.0.0.1:0",
                                      "--state-dir",
                                      cluster->folder() + "/standby",
                                      "--address-file",
                                      StandbyAddressFile(*cluster)};
  for (const auto& more : {cluster->KubernetesFlags(), flags})
    command.insert(command.end(), more.begin(), more.end());
  return Process::Start(command, cluster->folder() + "/standby.log");
}

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_KUBERNETES_STANDBY_H_
