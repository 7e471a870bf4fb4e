#include "tests/integration/kubernetes/scale/left_jobs.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/job_object.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/pod.h"
#include "services/supervisor/kubernetes/store/conditions.h"
#include "services/supervisor/kubernetes/store/group_tokens.h"
#include "services/supervisor/kubernetes/store/job_status_object.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/store/convert.h"
#include "tests/kube/yaml.h"

namespace adaptdl::integration {
namespace {

using kube::Json;
using supervisor::JobRecord;
using supervisor::ReplicaRecord;

constexpr char kNamespace[] = "default";
// Of the leader that is gone.
constexpr int64_t kTerm = 1;
const kube::ChangeOptions kByUs = {.field_manager = kubejobs::kFieldManager};

Json JobObject(int number, int replicas) {
  const Json container = {{"name", "main"},
                          {"image", "train"},
                          {"command", {"train"}},
                          {"resources", {{"requests", {{"cpu", "1"}}}}}};
  return {{"apiVersion", kubejobs::kApiVersion},
          {"kind", kubejobs::kJobKind},
          {"metadata", {{"name", absl::StrCat("job-", number)}}},
          {"spec",
           {{"minReplicas", replicas},
            {"maxReplicas", replicas},
            {"preemptible", false},
            {"template", {{"spec", {{"containers", Json::array({container})}}}}}}}};
}

JobRecord RecordOf(const Json& object, const v1::Job& job, int number, const LeftJobsOptions& options) {
  const absl::Time now = absl::Now();
  JobRecord record;
  record.sequence = number + 1;
  record.job = std::make_shared<const v1::Job>(job);
  record.state = supervisor::NewState(job);
  record.state.phase = jobs::Phase::kRunning;
  record.state.reason = "Running";
  record.state.group = record.state.last_group = 1;
  for (int rank = 0; rank < options.replicas_per_job; ++rank) {
    const int place = number * options.replicas_per_job + rank;
    record.state.allocation.push_back(absl::StrCat("node-", place % options.nodes));
  }
  record.state.running_since = now;
  record.state.tells_progress = true;
  record.decision.nodes = record.state.allocation;
  record.times.submitted =
      kube::TimeFromText(kube::TextAt(object, {"metadata", "creationTimestamp"})).value_or(now);
  record.times.started = now;
  record.hints = options.hints;
  return record;
}

std::vector<ReplicaRecord> ReplicasOf(const JobRecord& record) {
  std::vector<ReplicaRecord> replicas;
  for (size_t rank = 0; rank < record.state.allocation.size(); ++rank) {
    ReplicaRecord& replica = replicas.emplace_back();
    replica.job_uid = record.uid();
    replica.launch_group = record.state.group;
    replica.launch_rank = static_cast<int>(rank);
    replica.rescales_in_place = true;
    replica.replica.set_replica_id(absl::StrCat(record.state.id_prefix, "-", record.state.group, "-", rank));
    replica.replica.set_group(record.state.group);
    replica.replica.set_rank(static_cast<int32_t>(rank));
    replica.replica.set_node_id(record.state.allocation[rank]);
    replica.replica.set_state(v1::REPLICA_STATE_RUNNING);
  }
  return replicas;
}

v1::LaunchReplica LaunchOf(const JobRecord& record, const ReplicaRecord& replica,
                           const supervisor::GroupTokens& tokens) {
  v1::LaunchReplica launch;
  launch.set_namespace_(kNamespace);
  launch.set_job(record.job->name());
  launch.set_job_uid(record.uid());
  launch.set_replica_id(replica.replica.replica_id());
  launch.set_group(record.state.group);
  launch.set_rank(replica.replica.rank());
  launch.set_num_replicas(static_cast<int32_t>(record.state.allocation.size()));
  launch.set_num_nodes(launch.num_replicas());
  launch.set_token(tokens.Token(record.uid(), record.state.group));
  return launch;
}

// On its node already, as the scheduler has bound it there.
absl::Status MakePod(const kube::Client& client, const Json& job, const v1::LaunchReplica& launch,
                     const std::string& node_name) {
  const Json node = {
      {"metadata", {{"name", node_name}, {"labels", {{kubejobs::kHostNameLabel, node_name}}}}}};
  absl::StatusOr<Json> pod = kubejobs::MakePod(job, launch, node, {.supervisor_address = "supervisor:7100"});
  if (!pod.ok()) return pod.status();
  (*pod)["spec"]["nodeName"] = node_name;
  return client.Create(kube::Collection(kube::Pods(), kNamespace), *pod, kByUs).status();
}

// Its status comes last: a supervisor that sees it finds its pods.
absl::Status LeaveJob(const kube::Client& client, int number, const LeftJobsOptions& options,
                      const supervisor::GroupTokens& tokens, std::vector<v1::LaunchReplica>* launches) {
  const absl::StatusOr<Json> object =
      client.Create(kube::Collection(supervisor::AdaptDLJobs(), kNamespace),
                    JobObject(number, options.replicas_per_job), {.field_manager = "kubectl"});
  if (!object.ok()) return object.status();
  const absl::StatusOr<v1::Job> job = kubejobs::JobFromObject(*object);
  if (!job.ok()) return job.status();
  const JobRecord record = RecordOf(*object, *job, number, options);
  const std::vector<ReplicaRecord> replicas = ReplicasOf(record);
  for (const ReplicaRecord& replica : replicas) {
    launches->push_back(LaunchOf(record, replica, tokens));
    const absl::Status made = MakePod(client, *object, launches->back(), replica.replica.node_id());
    if (!made.ok()) return made;
  }
  Json status = supervisor::StatusOf(record, replicas, kTerm);
  status["conditions"] = supervisor::ConditionsOf(record, {}, absl::Now());
  const kube::Target target = kube::ObjectOf(supervisor::AdaptDLJobs(), kube::KeyOf(*object));
  return client.MergePatch(target.Sub("status"), {{"status", std::move(status)}}, kByUs).status();
}

}  // namespace

absl::StatusOr<std::vector<v1::LaunchReplica>> LeaveJobs(const kube::Client& client,
                                                         const LeftJobsOptions& options) {
  const absl::StatusOr<supervisor::GroupTokens> tokens = supervisor::GroupTokens::Create(options.group_key);
  if (!tokens.ok()) return tokens.status();
  const kube::ResourceType crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                   "CustomResourceDefinition", false};
  for (const char* name : {"adaptdljob", "adaptdlquota"}) {
    const auto made = client.Create(kube::Collection(crds), kube::ReadCrd(name), kByUs);
    if (!made.ok()) return made.status();
  }
  std::vector<v1::LaunchReplica> launches;
  for (int number = 0; number < options.jobs; ++number) {
    const absl::Status left = LeaveJob(client, number, options, *tokens, &launches);
    if (!left.ok()) return left;
  }
  return launches;
}

}  // namespace adaptdl::integration
