// Pool files: the node pools of a cluster and what they aim at together (docs/pools.md), as plain structs.
//
//   auto file = poolfile::ReadPoolFile("pools.yaml");
//   if (!file.ok()) ...   // every problem of the file, each with file name and line
//
// What is read is complete: defaults are filled in, and each field lies within its bounds. Whether a provider can do
// what its section says is for the provider to find out.
//
// All functions are thread-safe; the structs are values.

#ifndef ADAPTDL_LIBS_POOLFILE_POOL_FILE_H_
#define ADAPTDL_LIBS_POOLFILE_POOL_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/placement.pb.h"
#include "adaptdl/v1/resources.pb.h"

namespace adaptdl::poolfile {

// Bounds of a file.
inline constexpr int kMaxPools = 64;
inline constexpr int kMaxNodesOfPool = 10'000;
// Bounds of lists and maps in a pool: instance types, zones, subnets, mounts, tags and the like.
inline constexpr int kMaxEntries = 64;

enum class TargetMode { kBand, kBudget, kDeadline, kCost };

// What all pools together aim at.
struct Target {
  TargetMode mode = TargetMode::kBand;
  // kBand: bounds of the utility, inclusive. 0 < utility_low < utility_high <= 1.
  double utility_low = 0.35;
  double utility_high = 0.65;
  // kBudget: most that all nodes of the pools may cost per hour. Greater than 0.
  double budget_per_hour = 0;
  // kDeadline: when all jobs are to be done that have no deadline of their own. Absent: only those that have one count.
  std::optional<absl::Time> deadline;
  // kCost: speed-up that each unit of currency per hour must bring at least. Greater than 0.
  double goodput_per_dollar = 0;
};

// Which pools carry what jobs need at least.
enum class FloorOn { kAny, kOnDemand };

enum class Provider { kProcess, kKubernetes, kAws, kGcp };

// As the file spells it.
absl::string_view ProviderName(Provider provider);
absl::string_view TargetModeName(TargetMode mode);

// Where nodes keep the files of jobs if they share no file system (docs/storage.md).
struct ObjectStorage {
  // "s3://BUCKET/PREFIX". Empty: there is none.
  std::string url;
  // Instead of Amazon's. Empty: Amazon's.
  std::string endpoint;
  // Empty: the worker finds it out.
  std::string region;

  friend bool operator==(const ObjectStorage&, const ObjectStorage&) = default;
};

// A file system of the network that each node mounts before it takes replicas.
struct Mount {
  // "fs-123:/", "nfs.example:/export": what mount(8) calls the device.
  std::string source;
  // Absolute path.
  std::string target;
  // File system's type and its options, as mount(8) takes them.
  std::string type = "nfs4";
  std::string options = {};

  friend bool operator==(const Mount&, const Mount&) = default;
};

// How a machine of a cloud runs the worker.
enum class Launch { kContainer, kBinary };

struct WorkerProgram {
  Launch launch = Launch::kContainer;
  // kContainer: image of the worker. Empty: the autoscaler's choice.
  std::string image;
  // kBinary: where the image of the machine has adaptdl-worker.
  std::string binary;
};

struct AwsSection {
  std::string region;
  // Id of the machine image. Empty: that of the launch template, or of the Auto Scaling group.
  std::string image;
  std::vector<std::string> subnets;
  std::vector<std::string> security_groups;
  std::string instance_profile;
  std::string key_name;
  // Id or name. Empty: none.
  std::string launch_template;
  // An existing group is resized, instead of instances made. Empty: instances are made.
  std::string auto_scaling_group;
  // Instead of Amazon's own: "http://127.0.0.1:5000". Empty: Amazon's.
  std::string endpoint;
  WorkerProgram worker;
  std::map<std::string, std::string> tags;
};

struct GcpSection {
  std::string project;
  std::string zone;
  // The managed instance group that is resized.
  std::string instance_group;
  // Key of a service account, as Google writes it. Empty: that of the machine that the autoscaler runs on.
  std::string credentials_file;
  // Instead of Google's own. Empty: Google's.
  std::string endpoint;
  WorkerProgram worker;
};

struct ProcessSection {
  // What each worker offers. Memory in bytes; 0: the machine's.
  int worker_cpus = 1;
  int64_t worker_memory_bytes = 0;
};

struct KubernetesSection {
  // How to reach the cluster. Empty: $KUBECONFIG, or the pod that the autoscaler runs in; its current context.
  std::string kubeconfig;
  std::string context;
  // Of the placeholder pods.
  std::string name_space = "adaptdl";
  // Labels of the pool's nodes and of no others. Not empty.
  std::map<std::string, std::string> node_selector;
  // For taints of the nodes.
  std::vector<v1::Toleration> tolerations;
  std::string placeholder_image = "registry.k8s.io/pause:3.10";
  std::string placeholder_priority_class = "adaptdl-placeholder";
  // How long a node may not come until the pool's reason says why.
  absl::Duration capacity_deadline = absl::Minutes(10);
};

struct Pool {
  // A DNS label of at most 50 characters, unique in the file: ids of nodes begin with it.
  std::string name;
  // Line of the file on which it begins, for messages of those who check further.
  int line = 0;
  Provider provider = Provider::kProcess;
  // What its cloud calls that kind of machine; the first that there is capacity for. Empty: the provider knows.
  std::vector<std::string> instance_types;
  // What one of its nodes offers to replicas. kProcess: cpu_millis and memory_bytes are those of its section.
  v1::Resources capacity;
  // Empty: none, or nobody says.
  std::string gpu_type;
  // What a node costs per hour. Absent: nobody says.
  std::optional<double> price_per_hour;
  // Whether its nodes may be taken away at short notice.
  bool spot = false;
  // 0 <= min_nodes <= max_nodes.
  int min_nodes = 0;
  int max_nodes = 0;
  // How long a node takes to come, until that is measured.
  absl::Duration start_time = absl::Minutes(3);
  // Empty: any.
  std::vector<std::string> zones;
  // Of its nodes, beside those that the provider gives.
  std::map<std::string, std::string> labels;
  std::vector<v1::Taint> taints;
  // Size of a node's disk in bytes. 0: as its image says.
  int64_t disk_bytes = 0;
  std::vector<Mount> mounts;
  ObjectStorage storage;

  // The one of its provider; the others are as they are by default.
  AwsSection aws;
  GcpSection gcp;
  ProcessSection process;
  KubernetesSection kubernetes;
};

struct PoolFile {
  // What machines of a cloud are tagged with: two clusters of one account differ in it.
  std::string cluster = "adaptdl";
  // Of all prices: three letters of ISO 4217.
  std::string currency = "USD";
  Target target;
  FloorOn floor_on = FloorOn::kAny;
  // Time without a change before nodes are taken away.
  absl::Duration cooldown = absl::Seconds(60);
  // How long a node may drain before it is taken away with what is on it. Absent: as long as it takes.
  std::optional<absl::Duration> drain_timeout;
  // At least one, in the file's order.
  std::vector<Pool> pools;
  // Fields that are accepted and have no effect, each as "<file>:<line>: <text>".
  std::vector<std::string> warnings;
};

// `file_name` stands before each line number. INVALID_ARGUMENT holds one line per problem.
absl::StatusOr<PoolFile> ParsePoolFile(absl::string_view content, absl::string_view file_name);

// The same for the file at `path`; errors of reading it carry the errno's code.
absl::StatusOr<PoolFile> ReadPoolFile(const std::string& path);

}  // namespace adaptdl::poolfile

#endif  // ADAPTDL_LIBS_POOLFILE_POOL_FILE_H_
