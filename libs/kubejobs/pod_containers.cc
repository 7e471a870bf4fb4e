#include "libs/kubejobs/pod_containers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/jobfile/quantity.h"
#include "libs/jobspec/job_spec.h"
#include "libs/jobspec/launch_variables.h"
#include "libs/kubejobs/names.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

constexpr char kSharedMemory[] = "/dev/shm";
constexpr char kSharedMemoryVolume[] = "adaptdl-shm";
constexpr char kTokenVolume[] = "adaptdl-token";
constexpr char kStorageVolume[] = "adaptdl-storage";
// Where the job's claim is, as sub-paths of it.
constexpr char kCheckpointFolder[] = "/adaptdl/checkpoint";
constexpr char kShareFolder[] = "/adaptdl/share";
constexpr char kGpuResource[] = "nvidia.com/gpu";

const Json* FindByName(const Json& list, absl::string_view name) {
  if (!list.is_array()) return nullptr;
  for (const Json& item : list) {
    if (TextAt(item, {"name"}) == name) return &item;
  }
  return nullptr;
}

// The list of this name in `object`, which is made if there is none.
Json& ListIn(Json& object, const char* name) {
  Json& list = object[name];
  if (!list.is_array()) list = Json::array();
  return list;
}

// What a container may have of a resource: quantities may be written as numbers.
std::string QuantityOf(const Json& container, const char* name) {
  for (const char* kind : {"limits", "requests"}) {
    const Json& quantity = At(container, {"resources", kind, name});
    if (quantity.is_string()) return quantity.get<std::string>();
    if (quantity.is_number()) return quantity.dump();
  }
  return "0";
}

bool HasDevices(const Json& container) {
  const Json& limits = At(container, {"resources", "limits"});
  if (!limits.is_object()) return false;
  for (const auto& [name, quantity] : limits.items()) {
    // "nvidia.com/gpu", and "nvidia.com/mig-..." for parts of one.
    if (absl::StartsWith(name, "nvidia.com/")) return true;
  }
  return false;
}

// The variables of one container: first ours, of which those of the template may make use ("$(ADAPTDL_JOB_ID)").
class Variables {
 public:
  explicit Variables(const Json& of_template) : of_template_(of_template) {}

  void Set(absl::string_view name, absl::string_view value) {
    list_.push_back({{"name", name}, {"value", value}});
  }
  // Unless the template sets it.
  void Propose(absl::string_view name, absl::string_view value) {
    if (FindByName(of_template_, name) == nullptr) Set(name, value);
  }
  void SetField(absl::string_view name, absl::string_view field) {
    list_.push_back({{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}});
  }

  Json Take() && {
    Json ours = std::move(list_);
    Json all = ours;
    if (!of_template_.is_array()) return all;
    for (const Json& variable : of_template_) {
      const std::string name = TextAt(variable, {"name"});
      // Where a job keeps its files is its own business here.
      const bool is_place = name == "ADAPTDL_CHECKPOINT_PATH" || name == "ADAPTDL_SHARE_PATH";
      const bool is_ours = jobspec::IsSystemVariable(name) && !is_place;
      if (!is_ours && FindByName(ours, name) == nullptr) all.push_back(variable);
    }
    return all;
  }

 private:
  const Json& of_template_;
  Json list_ = Json::array();
};

void SetLaunch(const v1::LaunchReplica& launch, const PodOptions& options, Variables* variables) {
  bool has_port = false;
  for (const auto& [name, value] : jobspec::LaunchVariables(launch, options.supervisor_address)) {
    variables->Set(name, value);
    has_port = has_port || name == "ADAPTDL_MASTER_PORT";
  }
  if (has_port) return;
  variables->Set("ADAPTDL_MASTER_PORT", absl::StrCat(jobspec::MasterPort(launch.group())));
}

void SetDevices(const Json& container, Variables* variables) {
  const int64_t millis = jobfile::ParseCpuMillis(QuantityOf(container, "cpu")).value_or(0);
  const int64_t gpus = jobfile::ParseCount(QuantityOf(container, kGpuResource)).value_or(0);
  variables->Propose("OMP_NUM_THREADS", absl::StrCat(std::max<int64_t>(1, millis / 1000)));
  variables->Set("ADAPTDL_NUM_GPUS", absl::StrCat(gpus));
  // Images for GPUs say "all", of which nobody gave them any.
  if (!HasDevices(container)) variables->Set("NVIDIA_VISIBLE_DEVICES", "none");
}

Json EnvironmentOf(const Json& container, const v1::LaunchReplica& launch, const std::string& node_name,
                   const PodOptions& options) {
  const Json& of_template = At(container, {"env"});
  Variables variables(of_template);
  SetLaunch(launch, options, &variables);
  variables.Set("ADAPTDL_NODE_ID", node_name);
  variables.SetField("ADAPTDL_REPLICA_HOST", "status.podIP");
  variables.Set("ADAPTDL_IDENTITY_TOKEN_FILE", kTokenFile);
  if (!options.supervisor_ca_pem.empty()) {
    variables.Set("ADAPTDL_SUPERVISOR_CA_PEM", options.supervisor_ca_pem);
    variables.Set("ADAPTDL_SUPERVISOR_TLS_NAME", options.supervisor_tls_name);
  }
  if (!options.claim.empty()) {
    variables.Propose("ADAPTDL_CHECKPOINT_PATH", kCheckpointFolder);
    variables.Propose("ADAPTDL_SHARE_PATH", kShareFolder);
    variables.Propose("ADAPTDL_TENSORBOARD_LOGDIR", absl::StrCat(kShareFolder, "/tensorboard"));
  }
  SetDevices(container, &variables);
  return std::move(variables).Take();
}

bool Mounts(const Json& container, absl::string_view path) {
  const Json& mounts = At(container, {"volumeMounts"});
  if (!mounts.is_array()) return false;
  return std::any_of(mounts.begin(), mounts.end(), [&](const Json& mount) {
    return absl::StripSuffix(TextAt(mount, {"mountPath"}), "/") == path;
  });
}

void AddMounts(const PodOptions& options, Json* container) {
  const bool has_shared_memory = Mounts(*container, kSharedMemory);
  Json& mounts = ListIn(*container, "volumeMounts");
  if (!has_shared_memory) mounts.push_back({{"name", kSharedMemoryVolume}, {"mountPath", kSharedMemory}});
  mounts.push_back({{"name", kTokenVolume}, {"mountPath", kTokenFolder}, {"readOnly", true}});
  if (options.claim.empty()) return;
  mounts.push_back({{"name", kStorageVolume}, {"mountPath", kCheckpointFolder}, {"subPath", "checkpoint"}});
  mounts.push_back({{"name", kStorageVolume}, {"mountPath", kShareFolder}, {"subPath", "share"}});
}

void AddVolumes(const PodOptions& options, Json* pod_spec) {
  Json& volumes = ListIn(*pod_spec, "volumes");
  volumes.push_back({{"name", kSharedMemoryVolume}, {"emptyDir", {{"medium", "Memory"}}}});
  const Json token = {{"audience", kTokenAudience},
                      {"expirationSeconds", absl::ToInt64Seconds(options.token_lifetime)},
                      {"path", kTokenName}};
  Json sources = Json::array();
  sources.push_back({{"serviceAccountToken", token}});
  volumes.push_back({{"name", kTokenVolume}, {"projected", {{"sources", sources}}}});
  if (options.claim.empty()) return;
  volumes.push_back({{"name", kStorageVolume}, {"persistentVolumeClaim", {{"claimName", options.claim}}}});
}

}  // namespace

void AddToContainers(const v1::LaunchReplica& launch, const std::string& node_name, const PodOptions& options,
                     Json* pod_spec) {
  for (Json& container : (*pod_spec)["containers"]) {
    container["env"] = EnvironmentOf(container, launch, node_name, options);
    AddMounts(options, &container);
  }
  AddVolumes(options, pod_spec);
}

}  // namespace adaptdl::kubejobs
