// The file of "adaptdl cloud": a supervisor host ("head") and pools of workers in a cloud (docs/cloud.md).
//
// What the pools leave out is filled in from the head: provider, region, endpoint, image, subnet, security groups and how programs
// are run.
//
// Plain functions and values; thread-safe.

#ifndef ADAPTDL_CLI_CLOUD_CLUSTER_FILE_H_
#define ADAPTDL_CLI_CLOUD_CLUSTER_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/poolfile/pool_file.h"

namespace adaptdl::cli {

inline constexpr int kDefaultHeadPort = 7100;

struct HeadOptions {
  std::string instance_type;
  // Id of the machine image.
  std::string image;
  std::string subnet;
  std::vector<std::string> security_groups;
  // Name or ARN. Its role makes the workers.
  std::string instance_profile;
  // Empty: nobody logs in.
  std::string key_name;
  // 0: as the image says.
  int64_t disk_bytes = 0;
  std::optional<double> price_per_hour;
  int port = kDefaultHeadPort;
  // Whether clients come by its public address; workers never do.
  bool is_public = false;
  // Container image of the services. Empty: the machine's image has the programs in /usr/bin.
  std::string service_image;
};

struct ClusterFile {
  std::string name;
  std::string region;
  // Instead of Amazon's. Empty: Amazon's.
  std::string endpoint;
  HeadOptions head;
  // What all workers mount, for the files of jobs.
  std::optional<poolfile::Mount> storage;
  // Or the bucket that workers keep them in.
  poolfile::ObjectStorage objects;
  // The pools as a pool file, complete, and what it says.
  std::string pools_text;
  poolfile::PoolFile pools;
};

// `file_name` stands before each line number. INVALID_ARGUMENT holds one line per problem.
absl::StatusOr<ClusterFile> ParseClusterFile(absl::string_view content, absl::string_view file_name);
// The same for the file at `path`; errors of reading it carry the errno's code.
absl::StatusOr<ClusterFile> ReadClusterFile(const std::string& path);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLOUD_CLUSTER_FILE_H_
