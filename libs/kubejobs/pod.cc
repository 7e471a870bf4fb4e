#include "libs/kubejobs/pod.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/jobspec/limits.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/placement.h"
#include "libs/kubejobs/pod_containers.h"
#include "libs/kubejobs/resources.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

Json ObjectOr(const Json& value) { return value.is_object() ? value : Json::object(); }

// `patches` on `document`; the library throws what is wrong with them.
absl::Status Patch(const std::string& what, const Json& patches, Json* document) {
  if (patches.is_null()) return absl::OkStatus();
  try {
    *document = document->patch(patches);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", error.what()));
  }
}

bool HasContainers(const Json& pod_spec) {
  const Json& containers = At(pod_spec, {"containers"});
  return containers.is_array() && !containers.empty() &&
         std::all_of(containers.begin(), containers.end(), [](const Json& item) { return item.is_object(); });
}

Json Metadata(const Json& job, const v1::LaunchReplica& launch, const std::string& node_name) {
  const Json& of_template = At(job, {"spec", "template", "metadata"});
  Json labels = ObjectOr(At(of_template, {"labels"}));
  labels[kReplicaLabel] = "true";
  labels[kJobLabel] = launch.job();
  labels[kJobUidLabel] = launch.job_uid();
  labels[kNodeGroupLabel] = "all";
  Json annotations = ObjectOr(At(of_template, {"annotations"}));
  annotations[kGroupAnnotation] = absl::StrCat(launch.group());
  annotations[kRankAnnotation] = absl::StrCat(launch.rank());
  annotations[kReplicasAnnotation] = absl::StrCat(launch.num_replicas());
  annotations[kNodeAnnotation] = node_name;
  // Also when something that others inject stands before it.
  if (!annotations.contains(kMainContainerAnnotation)) {
    annotations[kMainContainerAnnotation] =
        TextAt(At(job, {"spec", "template", "spec", "containers"})[0], {"name"});
  }
  const Json owner = {{"apiVersion", kApiVersion}, {"kind", kJobKind},   {"name", launch.job()},
                      {"uid", launch.job_uid()},   {"controller", true}, {"blockOwnerDeletion", true}};
  return {{"name", launch.replica_id()},
          {"namespace", launch.namespace_()},
          {"labels", labels},
          {"annotations", annotations},
          {"ownerReferences", Json::array({owner})},
          {"finalizers", Json::array({kReplicaFinalizer})}};
}

absl::Status ApplyPatches(const PodOptions& options, Json* pod) {
  absl::Status status = Patch("the patches of pods", options.pod_patches, pod);
  if (!status.ok()) return status;
  if (!HasContainers(At(*pod, {"spec"}))) {
    return absl::InvalidArgumentError("the patches of pods leave a pod without containers");
  }
  for (Json& container : (*pod)["spec"]["containers"]) {
    status = Patch("the patches of containers", options.container_patches, &container);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPatches(const std::string& field, const Json& patches) {
  if (patches.is_null()) return absl::OkStatus();
  if (!patches.is_array())
    return absl::InvalidArgumentError(absl::StrCat(field, ": give a list of JSON patches"));
  constexpr const char* kOperations[] = {"add", "remove", "replace", "move", "copy", "test"};
  for (const Json& patch : patches) {
    const std::string op = TextAt(patch, {"op"});
    const bool is_known =
        std::find(std::begin(kOperations), std::end(kOperations), op) != std::end(kOperations);
    if (is_known && At(patch, {"path"}).is_string()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", kube::Dump(patch),
                     " is no JSON patch: give \"op\", \"path\" and what the operation needs"));
  }
  return absl::OkStatus();
}

std::string HostName(const std::string& job, int64_t group, int rank) {
  const std::string end = absl::StrCat("-", group, "-", rank);
  return absl::StrCat(
      job.substr(0, jobspec::kMaxNameLength - std::min<size_t>(end.size(), jobspec::kMaxNameLength)), end);
}

absl::StatusOr<Json> MakePod(const Json& job, const v1::LaunchReplica& launch, const Json& node,
                             const PodOptions& options) {
  const std::string node_name = kube::KeyOf(node).name;
  const std::string label = kube::LabelOf(node, kHostNameLabel);
  if (label.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("node ", node_name, " has no label ", kHostNameLabel,
                                                      ", by which pods are bound to it"));
  }
  Json spec = At(job, {"spec", "template", "spec"});
  if (!HasContainers(spec)) {
    return absl::InvalidArgumentError("spec.template.spec.containers: give at least one container");
  }
  spec = WithDefaultResources(std::move(spec), options.default_resources);
  spec["hostname"] = HostName(launch.job(), launch.group(), launch.rank());
  Json selector = ObjectOr(At(spec, {"nodeSelector"}));
  selector[kHostNameLabel] = label;
  spec["nodeSelector"] = std::move(selector);
  spec["restartPolicy"] = "Never";
  AddOurTolerations(&spec);
  AddToContainers(launch, node_name, options, &spec);
  Json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", Metadata(job, launch, node_name)}};
  pod["spec"] = std::move(spec);
  const absl::Status status = ApplyPatches(options, &pod);
  if (!status.ok()) return status;
  return pod;
}

}  // namespace adaptdl::kubejobs
