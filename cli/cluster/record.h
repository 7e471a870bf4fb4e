// What is written down about a local cluster: its settings and the addresses of its services, in
// "<folder>/cluster.json". Thread-safe.

#ifndef ADAPTDL_CLI_CLUSTER_RECORD_H_
#define ADAPTDL_CLI_CLUSTER_RECORD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::cli {

struct ClusterRecord {
  // "host:port" of each service. Empty: never started.
  std::string supervisor;
  std::string allocator;
  std::string autoscaler;
  // Workers: at least, and at most.
  int workers = 0;
  int max_workers = 0;
  // Cores that each worker offers.
  int cpus_per_worker = 1;
  // The certificates that its services are verified with, and the user's token. Empty: it does without TLS.
  std::string ca_file;
  std::string token_file;
  // Whether /metrics is served at the well-known ports.
  bool listen_metrics = false;
};

// NOT_FOUND: no cluster was ever started there. DATA_LOSS: the record can't be read.
absl::StatusOr<ClusterRecord> ReadClusterRecord(const std::string& folder);
absl::Status WriteClusterRecord(const std::string& folder, const ClusterRecord& record);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLUSTER_RECORD_H_
