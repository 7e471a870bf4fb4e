#include "libs/poolfile/provider_sections.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jobfile/document.h"
#include "libs/jobfile/placement.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"
#include "libs/jobspec/placement.h"

namespace adaptdl::poolfile {
namespace {

using jobfile::KnownField;
using jobfile::Node;
using jobfile::Problems;
using jobfile::Type;

constexpr int kMaxCores = 100'000;
constexpr size_t kLongestTag = 256;

constexpr KnownField kAws[] = {
    {"region", Type::kText},
    {"image", Type::kText},
    {"subnets", Type::kList},
    {"securityGroups", Type::kList},
    {"instanceProfile", Type::kText},
    {"keyName", Type::kText},
    {"launchTemplate", Type::kText},
    {"autoScalingGroup", Type::kText},
    {"endpoint", Type::kText},
    {"launch", Type::kText},
    {"workerImage", Type::kText},
    {"workerBinary", Type::kText},
    {"tags", Type::kMap},
};

constexpr KnownField kGcp[] = {
    {"project", Type::kText},         {"zone", Type::kText},         {"instanceGroup", Type::kText},
    {"credentialsFile", Type::kText}, {"endpoint", Type::kText},     {"launch", Type::kText},
    {"workerImage", Type::kText},     {"workerBinary", Type::kText},
};

constexpr KnownField kProcess[] = {
    {"workerCpus", Type::kInteger},
    {"workerMemory", Type::kQuantity},
};

constexpr KnownField kKubernetes[] = {
    {"kubeconfig", Type::kText},
    {"context", Type::kText},
    {"namespace", Type::kText},
    {"nodeSelector", Type::kMap},
    {"tolerations", Type::kList},
    {"placeholderImage", Type::kText},
    {"placeholderPriorityClass", Type::kText},
    {"capacityDeadline", Type::kQuantity},
};

void CheckEndpoint(const Section& section, const std::string& endpoint) {
  if (endpoint.empty() || absl::StartsWith(endpoint, "http://") || absl::StartsWith(endpoint, "https://"))
    return;
  section.Refuse("endpoint",
                 absl::StrCat("must begin with http:// or https://, not ", jobfile::Quoted(endpoint)));
}

// What an Auto Scaling group, or a managed instance group, says itself. How its machines run the worker is said here, for the
// script that the group's template holds.
constexpr absl::string_view kGroupSays = "the group says it; leave it out";

void CheckAwsMachines(const Section& aws, const Section& pool, const AwsSection& read) {
  if (!read.auto_scaling_group.empty()) {
    aws.Exclude(
        {"image", "subnets", "securityGroups", "instanceProfile", "keyName", "launchTemplate", "tags"},
        kGroupSays);
    pool.Exclude({"zones", "disk"}, kGroupSays);
    return;
  }
  if (!pool.Has("instanceType")) pool.Require("instanceTypes", "give instanceType or instanceTypes");
  if (!read.launch_template.empty()) return;
  aws.Require("image", "give it, or launchTemplate, or autoScalingGroup");
  aws.Require("subnets", "give it, or launchTemplate, or autoScalingGroup");
}

WorkerProgram ReadWorkerProgram(const Section& section) {
  WorkerProgram program;
  int launch = 0;
  if (section.ReadWord("launch", {"container", "binary"}, &launch)) program.launch = Launch{launch};
  section.ReadText("workerImage", &program.image);
  section.ReadText("workerBinary", &program.binary);
  if (program.launch == Launch::kContainer) {
    section.Exclude({"workerBinary"}, "it belongs to launch: binary");
    return program;
  }
  section.Exclude({"workerImage"}, "it belongs to launch: container");
  section.Require("workerBinary", "launch: binary runs it: give its path in the image");
  if (!program.binary.empty() && program.binary[0] != '/')
    section.Refuse("workerBinary", "must be an absolute path");
  return program;
}

void ReadAws(const Node& map, const Section& pool, AwsSection* out, Problems* problems) {
  const Section section(map, pool.PathOf("aws"), kAws, problems);
  section.ReadText("region", &out->region);
  section.ReadText("image", &out->image);
  section.ReadTexts("subnets", &out->subnets);
  section.ReadTexts("securityGroups", &out->security_groups);
  section.ReadText("instanceProfile", &out->instance_profile);
  section.ReadText("keyName", &out->key_name);
  section.ReadText("launchTemplate", &out->launch_template);
  section.ReadText("autoScalingGroup", &out->auto_scaling_group);
  section.ReadText("endpoint", &out->endpoint);
  out->worker = ReadWorkerProgram(section);
  section.ReadTextMap("tags", kLongestTag, &out->tags);
  section.Require("region", "say where: us-east-1");
  CheckEndpoint(section, out->endpoint);
  CheckAwsMachines(section, pool, *out);
  for (const auto& [name, value] : out->tags) {
    if (absl::StartsWith(name, "adaptdl:") || absl::StartsWith(name, "aws:"))
      section.Refuse("tags", absl::StrCat("holds ", jobfile::Quoted(name),
                                          "; names that begin with adaptdl: or aws: are taken"));
  }
}

void ReadGcp(const Node& map, const Section& pool, GcpSection* out, Problems* problems) {
  const Section section(map, pool.PathOf("gcp"), kGcp, problems);
  section.ReadText("project", &out->project);
  section.ReadText("zone", &out->zone);
  section.ReadText("instanceGroup", &out->instance_group);
  section.ReadText("credentialsFile", &out->credentials_file);
  section.ReadText("endpoint", &out->endpoint);
  out->worker = ReadWorkerProgram(section);
  section.Require("project", "say whose group it is");
  section.Require("zone", "say where: europe-west4-a");
  section.Require("instanceGroup", "name the managed instance group to resize");
  CheckEndpoint(section, out->endpoint);
  pool.Exclude({"zones", "disk"}, kGroupSays);
}

void ReadProcess(const Node& map, const Section& pool, ProcessSection* out, Problems* problems) {
  const Section section(map, pool.PathOf("process"), kProcess, problems);
  section.ReadInteger("workerCpus", 1, kMaxCores, &out->worker_cpus);
  section.ReadBytes("workerMemory", &out->worker_memory_bytes);
}

// As pods have them.
std::vector<v1::Toleration> ReadTolerations(const Section& section, Problems* problems) {
  const Node* list = section.map().Find("tolerations");
  if (list == nullptr) return {};
  Node pod;
  pod.kind = Node::Kind::kMap;
  pod.fields = {{"tolerations", list->line, *list}};
  const v1::Placement placement = jobfile::ReadPlacement(pod, section.path(), problems);
  const absl::Status status = jobspec::CheckPlacement(placement);
  if (!status.ok()) section.Refuse("tolerations", absl::StrCat("can't be: ", status.message()));
  return {placement.tolerations().begin(), placement.tolerations().end()};
}

void ReadKubernetes(const Node& map, const Section& pool, KubernetesSection* out, Problems* problems) {
  const Section section(map, pool.PathOf("kubernetes"), kKubernetes, problems);
  section.ReadText("kubeconfig", &out->kubeconfig);
  section.ReadText("context", &out->context);
  section.ReadText("namespace", &out->name_space);
  section.ReadTextMap("nodeSelector", jobspec::kMaxLabelLength, &out->node_selector);
  out->tolerations = ReadTolerations(section, problems);
  section.ReadText("placeholderImage", &out->placeholder_image);
  section.ReadText("placeholderPriorityClass", &out->placeholder_priority_class);
  section.ReadDuration("capacityDeadline", absl::Seconds(1), absl::Hours(24), &out->capacity_deadline);
  if (out->node_selector.empty())
    section.Refuse("nodeSelector",
                   "is missing; give the labels of the pool's nodes and of no others, such as "
                   "karpenter.sh/nodepool: gpu");
  if (!jobspec::IsDnsLabel(out->name_space))
    section.Refuse("namespace", absl::StrCat("must be a DNS label, not ", jobfile::Quoted(out->name_space)));
  pool.Exclude({"zones", "disk", "mounts", "storage"}, "the cluster makes the nodes; say it there");
}

// Nodes that only exist later are valued by what they will offer.
void RequireCapacity(const Section& pool) {
  pool.Require("cpus", "say what a node offers: what it is worth is known before there is one");
  pool.Require("memory", "say what a node offers: what it is worth is known before there is one");
}

}  // namespace

void ReadProviderSection(const Section& section, Pool* pool, Problems* problems) {
  const absl::string_view own = ProviderName(pool->provider);
  for (const absl::string_view name : {"process", "kubernetes", "aws", "gcp"}) {
    if (name != own)
      section.Exclude({name}, absl::StrCat("the provider of this pool is ", own, "; leave it out"));
  }
  // One that is missing is as an empty one, so that what it lacks is named.
  Node nothing;
  nothing.kind = Node::Kind::kMap;
  nothing.line = section.line();
  const Node* map = section.Map(own);
  if (map == nullptr) map = &nothing;
  switch (pool->provider) {
    case Provider::kProcess:
      section.Exclude({"instanceType", "instanceTypes", "zones", "disk", "mounts", "storage"},
                      "nodes are processes of one machine");
      section.Exclude({"cpus", "memory", "gpus", "extendedResources"},
                      "give process.workerCpus and process.workerMemory");
      ReadProcess(*map, section, &pool->process, problems);
      pool->capacity.set_cpu_millis(int64_t{1000} * pool->process.worker_cpus);
      pool->capacity.set_memory_bytes(pool->process.worker_memory_bytes);
      return;
    case Provider::kKubernetes:
      RequireCapacity(section);
      return ReadKubernetes(*map, section, &pool->kubernetes, problems);
    case Provider::kAws:
      RequireCapacity(section);
      ReadAws(*map, section, &pool->aws, problems);
      if (!pool->storage.url.empty() && pool->aws.instance_profile.empty() &&
          pool->aws.launch_template.empty() && pool->aws.auto_scaling_group.empty())
        section.Refuse("storage", "needs aws.instanceProfile, whose role may read and write the bucket");
      return;
    case Provider::kGcp:
      section.Exclude({"storage"},
                      "its machines have no credentials of Amazon; name a file system in mounts");
      RequireCapacity(section);
      return ReadGcp(*map, section, &pool->gcp, problems);
  }
}

}  // namespace adaptdl::poolfile
