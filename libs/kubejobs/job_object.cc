#include "libs/kubejobs/job_object.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/jobfile/job_file.h"
#include "libs/jobspec/job_spec.h"
#include "libs/jobspec/limits.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/placement.h"
#include "libs/kubejobs/problems.h"
#include "libs/kubejobs/resources.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

void Take(const Json& from, std::initializer_list<const char*> names, Json* to) {
  for (const char* name : names) {
    if (const Json& value = At(from, {name}); !value.is_null()) (*to)[name] = value;
  }
}

// Variables that have a value of their own, and are not the system's: those the pod gets from us anyway.
Json PlainVariables(const Json& variables) {
  Json plain = Json::array();
  if (!variables.is_array()) return plain;
  for (const Json& variable : variables) {
    if (variable.is_object() && !variable.contains("valueFrom") &&
        !jobspec::IsSystemVariable(TextAt(variable, {"name"}))) {
      plain.push_back(variable);
    }
  }
  return plain;
}

// Labels that a job may have here: Kubernetes takes longer ones, and more.
Json ShortLabels(const Json& labels) {
  Json kept = Json::object();
  if (!labels.is_object()) return kept;
  for (const auto& [name, value] : labels.items()) {
    if (kept.size() < jobspec::kMaxLabels && !name.empty() && name.size() <= jobspec::kMaxLabelLength) {
      kept[name] = value;
    }
  }
  return kept;
}

// What the reader of job files is to see of the object: the rest of a pod template is the cluster's own business.
Json Essence(const Json& object) {
  Json file = {{"apiVersion", TextAt(object, {"apiVersion"})}, {"kind", TextAt(object, {"kind"})}};
  Take(At(object, {"metadata"}), {"name", "namespace"}, &file["metadata"]);
  file["metadata"]["labels"] = ShortLabels(At(object, {"metadata", "labels"}));
  const Json& spec = At(object, {"spec"});
  Json& kept = file["spec"];
  Take(spec,
       {"minReplicas", "maxReplicas", "preemptible", "maxRestarts", "rescale", "allowedReplicas", "priority",
        "suspend", "deadline", "gpuTypes"},
       &kept);
  const Json& pod = At(spec, {"template", "spec"});
  Json& kept_pod = kept["template"]["spec"];
  Take(pod, {"terminationGracePeriodSeconds"}, &kept_pod);
  const Json& containers = At(pod, {"containers"});
  kept_pod["containers"] = Json::array();
  if (!containers.is_array() || containers.empty()) return file;
  Json container = Json::object();
  Take(containers[0], {"name", "image", "command", "args", "workingDir"}, &container);
  container["env"] = PlainVariables(At(containers[0], {"env"}));
  kept_pod["containers"].push_back(std::move(container));
  return file;
}

Json Quantities(const v1::Resources& resources) {
  Json amounts = Json::object();
  if (resources.cpu_millis() > 0) amounts["cpu"] = absl::StrCat(resources.cpu_millis(), "m");
  if (resources.memory_bytes() > 0) amounts["memory"] = absl::StrCat(resources.memory_bytes());
  if (resources.gpus() > 0) amounts["nvidia.com/gpu"] = absl::StrCat(resources.gpus());
  for (const auto& [name, amount] : resources.extended()) amounts[name] = absl::StrCat(amount);
  return amounts;
}

Json Container(const v1::ReplicaTemplate& replica) {
  Json container = {{"name", "main"}, {"image", replica.image()}};
  for (const std::string& word : replica.command()) container["command"].push_back(word);
  for (const std::string& word : replica.args()) container["args"].push_back(word);
  for (const v1::EnvironmentVariable& variable : replica.env()) {
    container["env"].push_back({{"name", variable.name()}, {"value", variable.value()}});
  }
  if (!replica.working_directory().empty()) container["workingDir"] = replica.working_directory();
  const Json amounts = Quantities(replica.resources());
  container["resources"]["requests"] = amounts;
  // Devices are limited as they are requested.
  for (const auto& [name, amount] : amounts.items()) {
    if (absl::StrContains(name, '/')) container["resources"]["limits"][name] = amount;
  }
  return container;
}

}  // namespace

absl::StatusOr<v1::Job> JobFromObject(const Json& object, const Json& default_resources) {
  absl::StatusOr<jobfile::JobFile> file =
      jobfile::ParseJobFile(kube::Dump(Essence(object)), kPlace, {.replicas = jobspec::ReplicaKind::kPod});
  if (!file.ok()) return absl::InvalidArgumentError(WithoutPlaces(file.status().message()));
  v1::Job job = std::move(file->job);
  Json pod = At(object, {"spec", "template", "spec"});
  AddOurTolerations(&pod);
  const absl::StatusOr<v1::Resources> request = PodRequest(WithDefaultResources(pod, default_resources));
  if (!request.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("spec.template.spec.", request.status().message()));
  }
  const absl::StatusOr<v1::Placement> placement = PlacementOf(pod);
  if (!placement.ok()) return placement.status();
  v1::ReplicaTemplate* replica = job.mutable_spec()->mutable_template_();
  // Beside the types of GPUs, which the pod does not know.
  replica->mutable_placement()->MergeFrom(*placement);
  job.set_uid(kube::UidOf(object));
  jobspec::FillDefaults(job.mutable_spec());
  // Pods that ask for nothing get nothing.
  *replica->mutable_resources() = *request;
  return job;
}

Json UpdatePatch(const v1::JobSpec& spec) {
  Json patch = {
      {"minReplicas", spec.min_replicas()}, {"priority", spec.priority()}, {"suspend", spec.suspend()}};
  patch["maxReplicas"] = spec.max_replicas() > 0 ? Json(spec.max_replicas()) : Json();
  return {{"spec", patch}};
}

absl::StatusOr<Json> ObjectFromJob(const v1::Job& job, const std::string& generate_name) {
  const v1::JobSpec& spec = job.spec();
  const v1::ReplicaTemplate& replica = spec.template_();
  if (replica.image().empty()) {
    return absl::InvalidArgumentError(
        "spec.template.image: \"\": replicas are pods here; name the image that they run");
  }
  if (replica.has_python()) {
    return absl::InvalidArgumentError(
        "spec.template.python: replicas are pods here, and find what is in their image; put the packages "
        "there");
  }
  if (replica.has_code()) {
    return absl::InvalidArgumentError(
        "spec.template.code: replicas are pods here, and find what is in their image; \"adaptdl --kubernetes "
        "submit "
        "DIR\" builds one of the folder");
  }
  if (!replica.data_sets().empty()) {
    return absl::InvalidArgumentError(
        "spec.template.data_sets: replicas are pods here; mount a claim that holds the data in their "
        "template");
  }
  Json object = {{"apiVersion", kApiVersion}, {"kind", kJobKind}};
  object["metadata"]["namespace"] = job.namespace_();
  if (!job.name().empty()) object["metadata"]["name"] = job.name();
  if (job.name().empty()) object["metadata"]["generateName"] = generate_name;
  for (const auto& [name, value] : job.labels()) object["metadata"]["labels"][name] = value;
  Json& made = object["spec"];
  made = UpdatePatch(spec)["spec"];
  if (made["maxReplicas"].is_null()) made.erase("maxReplicas");
  if (spec.has_preemptible()) made["preemptible"] = spec.preemptible();
  if (spec.has_max_restarts()) made["maxRestarts"] = spec.max_restarts();
  if (spec.rescale() == v1::RESCALE_MODE_RESTART) made["rescale"] = "restart";
  for (const int count : spec.allowed_replicas()) made["allowedReplicas"].push_back(count);
  if (spec.has_deadline()) {
    made["deadline"] =
        absl::FormatTime(absl::RFC3339_full, messages::ToTime(spec.deadline()), absl::UTCTimeZone());
  }
  for (const std::string& type : replica.placement().gpu_types()) made["gpuTypes"].push_back(type);
  Json& pod = made["template"]["spec"];
  pod["containers"].push_back(Container(replica));
  if (replica.has_termination_grace_period()) {
    pod["terminationGracePeriodSeconds"] = replica.termination_grace_period().seconds();
  }
  PutPlacement(replica.placement(), &pod);
  return object;
}

}  // namespace adaptdl::kubejobs
