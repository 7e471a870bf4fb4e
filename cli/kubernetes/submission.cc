#include "cli/kubernetes/submission.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/kubernetes/tensorboard.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"

namespace adaptdl::cli {
namespace {

// The list of that name, which is made if there is none.
absl::StatusOr<kube::Json*> ListIn(kube::Json& object, const std::string& name) {
  kube::Json& list = object[name];
  if (list.is_null()) list = kube::Json::array();
  if (list.is_array()) return &list;
  return absl::InvalidArgumentError(absl::StrCat("the job's ", name, " is no list"));
}

absl::Status Append(kube::Json& object, const std::string& list, kube::Json item) {
  const absl::StatusOr<kube::Json*> found = ListIn(object, list);
  if (!found.ok()) return found.status();
  (*found)->push_back(std::move(item));
  return absl::OkStatus();
}

// In place of what was there.
absl::Status SetVariable(kube::Json& container, const std::string& name, const std::string& value) {
  const absl::StatusOr<kube::Json*> variables = ListIn(container, "env");
  if (!variables.ok()) return variables.status();
  for (kube::Json& variable : **variables) {
    if (kube::TextAt(variable, {"name"}) != name) continue;
    variable = {{"name", name}, {"value", value}};
    return absl::OkStatus();
  }
  (*variables)->push_back({{"name", name}, {"value", value}});
  return absl::OkStatus();
}

// A folder of a claim, and the variable that tells the program of it.
struct Mount {
  const char* volume;
  const char* path;
  // Empty: all of it.
  const char* folder;
  const char* variable;
};

absl::Status AddMount(const Mount& mount, kube::Json& container) {
  kube::Json entry = {{"name", mount.volume}, {"mountPath", mount.path}};
  if (*mount.folder != '\0') entry["subPath"] = mount.folder;
  if (absl::Status status = Append(container, "volumeMounts", std::move(entry)); !status.ok()) return status;
  return SetVariable(container, mount.variable, mount.path);
}

absl::Status AddClaim(const char* volume, const std::string& claim, kube::Json& pod) {
  return Append(pod, "volumes", {{"name", volume}, {"persistentVolumeClaim", {{"claimName", claim}}}});
}

absl::Status AddTensorboard(const std::string& name, kube::Json& pod, kube::Json& container) {
  constexpr char kVolume[] = "adaptdl-tensorboard";
  if (absl::Status status = AddClaim(kVolume, TensorboardObjectName(name), pod); !status.ok()) return status;
  return AddMount({kVolume, kTensorboardFolder, "", "ADAPTDL_TENSORBOARD_LOGDIR"}, container);
}

absl::Status AddJobClaim(const std::string& claim, kube::Json& pod, kube::Json& container) {
  constexpr char kVolume[] = "adaptdl-pvc";
  absl::Status status = AddClaim(kVolume, claim, pod);
  if (status.ok()) {
    status = AddMount({kVolume, "/adaptdl/checkpoint", "adaptdl/checkpoint", "ADAPTDL_CHECKPOINT_PATH"},
                      container);
  }
  if (status.ok()) {
    status = AddMount({kVolume, "/adaptdl/share", "adaptdl/share", "ADAPTDL_SHARE_PATH"}, container);
  }
  return status;
}

}  // namespace

absl::StatusOr<kube::Json> ReadJobObject(const Kubectl& kubectl, const std::string& name_space,
                                         const std::string& file) {
  const absl::StatusOr<std::string> text = kubectl.Output(
      name_space, {"create", "--dry-run=client", "--validate=false", "--output=json", "--filename", file});
  if (!text.ok()) return While(file, text.status());
  absl::StatusOr<kube::Json> job = kube::ParseJson(*text);
  if (!job.ok()) return While(file, job.status());
  if (kube::TextAt(*job, {"kind"}) == kubejobs::kJobKind &&
      kube::TextAt(*job, {"apiVersion"}) == kubejobs::kApiVersion) {
    return job;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": must be one object of kind ", kubejobs::kJobKind, " and apiVersion ", kubejobs::kApiVersion,
      ", and is ", kube::TextAt(*job, {"kind"}), " of ", kube::TextAt(*job, {"apiVersion"})));
}

absl::Status Complete(const SubmissionOptions& options, kube::Json* job) {
  if (!kube::At(*job, {"metadata"}).is_object()) return absl::InvalidArgumentError("the job has no metadata");
  if (!options.name_prefix.empty()) {
    (*job)["metadata"].erase("name");
    (*job)["metadata"]["generateName"] = absl::StrCat(options.name_prefix, "-");
  }
  const kube::Json& containers = kube::At(*job, {"spec", "template", "spec", "containers"});
  if (!containers.is_array() || containers.empty() || !containers.front().is_object()) {
    return absl::InvalidArgumentError("spec.template.spec.containers of the job must have a container");
  }
  kube::Json& pod = (*job)["spec"]["template"]["spec"];
  kube::Json& container = pod["containers"].front();
  if (!options.image.empty()) container["image"] = options.image;
  if (options.arguments.has_value()) container["args"] = *options.arguments;
  absl::Status status;
  if (!options.pull_secret.empty()) status = Append(pod, "imagePullSecrets", {{"name", options.pull_secret}});
  if (status.ok() && !options.tensorboard.empty())
    status = AddTensorboard(options.tensorboard, pod, container);
  if (status.ok() && !options.claim.empty()) status = AddJobClaim(options.claim, pod, container);
  return status;
}

kube::Json JobClaim(const ClaimOptions& options, const kube::Json& job) {
  const kube::ObjectKey key = kube::KeyOf(job);
  kube::Json claim = {
      {"apiVersion", "v1"},
      {"kind", "PersistentVolumeClaim"},
      {"metadata",
       {{"name", options.name},
        {"namespace", key.name_space},
        {"ownerReferences", kube::Json::array({{{"apiVersion", kubejobs::kApiVersion},
                                                {"kind", kubejobs::kJobKind},
                                                {"name", key.name},
                                                {"uid", kube::UidOf(job)}}})}}},
      {"spec",
       {{"accessModes", {"ReadWriteMany"}}, {"resources", {{"requests", {{"storage", options.size}}}}}}}};
  if (!options.storage_class.empty()) claim["spec"]["storageClassName"] = options.storage_class;
  return claim;
}

}  // namespace adaptdl::cli
