#include "libs/jobspec/job_spec.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/files.h"
#include "libs/jobspec/limits.h"
#include "libs/jobspec/placement.h"
#include "libs/jobspec/python.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::jobspec {
namespace {

constexpr int kDefaultRestarts = 3;
constexpr absl::string_view kDefaultInterpreter = "python3";
constexpr absl::Duration kDefaultGracePeriod = absl::Seconds(30);
// Of the year 9999, after which a time has no text.
constexpr int64_t kLastSecond = 253'402'300'799;

absl::Status CheckPrefix(absl::string_view prefix) {
  if (IsNamePrefix(prefix)) return absl::OkStatus();
  return Wrong("generate_name", Show(prefix),
               "give 1 to 57 lower-case letters, digits and \"-\", and begin with a letter or digit");
}

absl::Status CheckCommand(const v1::ReplicaTemplate& replica, ReplicaKind kind) {
  const bool is_pod = kind == ReplicaKind::kPod;
  if (is_pod && replica.image().empty()) {
    return Wrong("spec.template.image", "empty", "name the image that each replica runs");
  }
  const bool has_entry_point = is_pod && replica.command().empty();
  if (!has_entry_point && (replica.command().empty() || replica.command(0).empty())) {
    return Wrong("spec.template.command", "empty", "name the program that each replica runs");
  }
  if (replica.command_size() > kMaxEntries) {
    return Wrong("spec.template.command", absl::StrCat(replica.command_size(), " entries"),
                 "give at most 1024");
  }
  if (replica.args_size() > kMaxEntries) {
    return Wrong("spec.template.args", absl::StrCat(replica.args_size(), " entries"), "give at most 1024");
  }
  absl::Status status;
  for (const std::string& word : replica.command()) status.Update(CheckNoNul("spec.template.command", word));
  for (const std::string& word : replica.args()) status.Update(CheckNoNul("spec.template.args", word));
  return status;
}

// Whether clients find the cluster, or who they are, by this variable.
bool IsOfApiAccess(absl::string_view name) {
  constexpr absl::string_view kNames[] = {"ADAPTDL_CA_FILE", "ADAPTDL_INSECURE", "ADAPTDL_TLS_SERVER_NAME",
                                          "ADAPTDL_TOKEN", "ADAPTDL_TOKEN_FILE"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

absl::Status CheckEnvironment(const v1::ReplicaTemplate& replica) {
  if (replica.env_size() > kMaxEntries) {
    return Wrong("spec.template.env", absl::StrCat(replica.env_size(), " entries"), "give at most 1024");
  }
  for (const v1::EnvironmentVariable& variable : replica.env()) {
    if (variable.name().empty() || absl::StrContains(variable.name(), '=') || HasControl(variable.name())) {
      return Wrong("spec.template.env", Show(variable.name()),
                   "give a name without \"=\" and control characters");
    }
    if (IsSystemVariable(variable.name())) {
      return Wrong("spec.template.env", Show(variable.name()),
                   "the system sets this one itself; leave it out");
    }
    if (replica.api_access() && IsOfApiAccess(variable.name())) {
      return Wrong("spec.template.env", Show(variable.name()),
                   "api_access sets this one itself; leave out one of them");
    }
    const absl::Status status =
        CheckNoNul(absl::StrCat("spec.template.env[", variable.name(), "]"), variable.value());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckTemplate(const v1::ReplicaTemplate& replica, ReplicaKind kind) {
  absl::Status status = CheckCommand(replica, kind);
  status.Update(CheckEnvironment(replica));
  status.Update(CheckResources("spec.template.resources", replica.resources()));
  status.Update(CheckNoNul("spec.template.working_directory", replica.working_directory()));
  if (replica.working_directory().size() > kMaxPathLength) {
    status.Update(Wrong("spec.template.working_directory", Show(replica.working_directory()),
                        "give a path of at most 4096 characters"));
  }
  if (replica.image().size() > kMaxPathLength || HasControl(replica.image())) {
    status.Update(
        Wrong("spec.template.image", Show(replica.image()), "give at most 4096 printable characters"));
  }
  if (replica.api_access() && kind == ReplicaKind::kPod) {
    status.Update(
        Wrong("spec.template.api_access", "true",
              "replicas are pods here, which get no token of this API: leave it out, and give the program a "
              "token of a service account in its environment"));
  }
  if (replica.has_python()) status.Update(CheckPython(replica.python()));
  if (replica.has_placement()) status.Update(CheckPlacement(replica.placement()));
  if (replica.has_code()) {
    status.Update(CheckCode(replica.code()));
    status.Update(CheckFolderInCode(replica.working_directory()));
  }
  status.Update(CheckDataSets(replica.data_sets()));
  if (!replica.tensorboard().empty()) {
    status.Update(CheckDnsLabel("spec.template.tensorboard", replica.tensorboard()));
  }
  if (replica.has_termination_grace_period()) {
    const auto& grace = replica.termination_grace_period();
    const bool good = grace.seconds() >= 0 && grace.nanos() >= 0 && grace.nanos() <= 999'999'999 &&
                      messages::ToDuration(grace) <= kMaxGracePeriod;
    if (!good) {
      status.Update(Wrong("spec.template.termination_grace_period", absl::StrCat(grace.seconds(), " s"),
                          "give 0 s to 1 h"));
    }
  }
  return status;
}

absl::Status CheckAllowedReplicas(const v1::JobSpec& spec) {
  const auto& allowed = spec.allowed_replicas();
  if (allowed.empty()) return absl::OkStatus();
  const std::string field = "spec.allowed_replicas";
  if (allowed.size() > kMaxAllowedReplicas) {
    return Wrong(field, absl::StrCat(allowed.size(), " entries"), "give at most 64");
  }
  int last = 0;
  for (const int count : allowed) {
    const absl::Status status = CheckRange(field, count, 1, kMaxReplicas);
    if (!status.ok()) return status;
    if (count <= last) {
      return Wrong(field, absl::StrCat(count, " after ", last), "list them in ascending order, each once");
    }
    last = count;
  }
  const int most = spec.max_replicas() > 0 ? spec.max_replicas() : kMaxReplicas;
  const auto first = std::lower_bound(allowed.begin(), allowed.end(), spec.min_replicas());
  if (first != allowed.end() && *first <= most) return absl::OkStatus();
  return Wrong(field, absl::StrJoin(allowed, ", "),
               "none lies between min_replicas and max_replicas, so that the job could never run; add one");
}

absl::Status CheckStartFrom(const v1::JobSpec& spec, ReplicaKind kind) {
  if (!spec.has_start_from()) return absl::OkStatus();
  if (kind == ReplicaKind::kPod) {
    return Wrong("spec.start_from.job", Show(spec.start_from().job()),
                 "replicas are pods here, which see no other job's checkpoints: leave it out, and have the "
                 "program read what it is to begin with from a volume");
  }
  return CheckDnsLabel("spec.start_from.job", spec.start_from().job());
}

absl::Status CheckDeadline(const v1::JobSpec& spec) {
  if (!spec.has_deadline()) return absl::OkStatus();
  const auto& deadline = spec.deadline();
  const bool good = deadline.seconds() > 0 && deadline.seconds() <= kLastSecond && deadline.nanos() >= 0 &&
                    deadline.nanos() <= 999'999'999;
  if (good) return absl::OkStatus();
  return Wrong("spec.deadline", absl::StrCat(deadline.seconds(), " s"), "give a time between 1970 and 9999");
}

// Sets what may change of `spec` to what `other` says.
void TakeMutable(const v1::JobSpec& other, v1::JobSpec* spec) {
  spec->set_min_replicas(other.min_replicas());
  spec->set_max_replicas(other.max_replicas());
  spec->set_priority(other.priority());
  spec->set_suspend(other.suspend());
}

}  // namespace

absl::Status CheckReplicaCounts(const v1::JobSpec& spec) {
  absl::Status status = CheckRange("spec.min_replicas", spec.min_replicas(), 0, kMaxReplicas);
  status.Update(CheckRange("spec.max_replicas", spec.max_replicas(), 0, kMaxReplicas));
  if (spec.max_replicas() > 0 && spec.min_replicas() > spec.max_replicas()) {
    status.Update(
        Wrong("spec.min_replicas", absl::StrCat(spec.min_replicas()),
              absl::StrCat("is more than max_replicas, ", spec.max_replicas(), "; make it at most that")));
  }
  status.Update(CheckAllowedReplicas(spec));
  return status;
}

absl::Status CheckUpdated(const v1::JobSpec& spec) {
  absl::Status status = CheckReplicaCounts(spec);
  status.Update(CheckRange("spec.priority", spec.priority(), -kMaxPriority, kMaxPriority));
  return status;
}

absl::Status CheckUpdate(const v1::Job& before, const v1::Job& after) {
  const absl::Status valid = CheckUpdated(after.spec());
  if (!valid.ok()) return valid;
  v1::JobSpec former = before.spec();
  v1::JobSpec fixed = after.spec();
  TakeMutable(former, &fixed);
  FillDefaults(&former);
  FillDefaults(&fixed);
  const auto* fields = v1::JobSpec::descriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    google::protobuf::util::MessageDifferencer differencer;
    const std::vector<const google::protobuf::FieldDescriptor*> one = {fields->field(i)};
    if (differencer.CompareWithFields(former, fixed, one, one)) continue;
    return absl::PermissionDeniedError(absl::StrCat(
        "spec.", fields->field(i)->name(),
        ": can't change after the submission; only min_replicas, max_replicas, priority and suspend "
        "can: delete the job, and submit another one"));
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const v1::JobSpec& spec, ReplicaKind kind) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes > kMaxSpecBytes) {
    return Wrong("spec", absl::StrCat(bytes, " bytes"), "make it at most 256 KiB; put large data into files");
  }
  absl::Status status = CheckUpdated(spec);
  if (spec.has_max_restarts()) {
    status.Update(CheckRange("spec.max_restarts", spec.max_restarts(), 0, kMaxRestarts));
  }
  if (!v1::RescaleMode_IsValid(spec.rescale())) {
    status.Update(Wrong("spec.rescale", absl::StrCat(static_cast<int>(spec.rescale())),
                        "is not known to this version; use RESCALE_MODE_IN_PLACE or RESCALE_MODE_RESTART"));
  }
  status.Update(CheckDeadline(spec));
  status.Update(CheckStartFrom(spec, kind));
  status.Update(CheckTemplate(spec.template_(), kind));
  return status;
}

absl::Status CheckNewJob(const v1::Job& job, absl::string_view generate_name, ReplicaKind kind) {
  absl::Status status = CheckDnsLabel("job.namespace", job.namespace_());
  if (!job.name().empty() && !generate_name.empty()) {
    status.Update(
        Wrong("generate_name", Show(generate_name), "job.name is set as well; give only one of them"));
  }
  status.Update(job.name().empty() && !generate_name.empty() ? CheckPrefix(generate_name)
                                                             : CheckDnsLabel("job.name", job.name()));
  status.Update(CheckLabels(job.labels()));
  status.Update(CheckSpec(job.spec(), kind));
  return status;
}

const std::vector<absl::string_view>& SystemVariables() {
  static const auto* names = new std::vector<absl::string_view>{"ADAPTDL_CHECKPOINT_PATH",
                                                                "ADAPTDL_GROUP",
                                                                "ADAPTDL_GROUP_TOKEN",
                                                                "ADAPTDL_IDENTITY_TOKEN_FILE",
                                                                "ADAPTDL_JOB_ID",
                                                                "ADAPTDL_JOB_UID",
                                                                "ADAPTDL_MASTER_ADDR",
                                                                "ADAPTDL_MASTER_PORT",
                                                                "ADAPTDL_NODE_ID",
                                                                "ADAPTDL_NUM_GPUS",
                                                                "ADAPTDL_NUM_NODES",
                                                                "ADAPTDL_NUM_REPLICAS",
                                                                "ADAPTDL_NUM_RESTARTS",
                                                                "ADAPTDL_REPLICA_HOST",
                                                                "ADAPTDL_REPLICA_ID",
                                                                "ADAPTDL_REPLICA_RANK",
                                                                "ADAPTDL_SCHED_VERSION",
                                                                "ADAPTDL_SHARE_PATH",
                                                                "ADAPTDL_START_PATH",
                                                                "ADAPTDL_SUPERVISOR_ADDRESS",
                                                                "ADAPTDL_SUPERVISOR_CA",
                                                                "ADAPTDL_SUPERVISOR_CA_PEM",
                                                                "ADAPTDL_SUPERVISOR_TLS_NAME",
                                                                "ADAPTDL_SUPERVISOR_URL",
                                                                "ADAPTDL_TRACEPARENT"};
  return *names;
}

bool IsSystemVariable(absl::string_view name) {
  const std::vector<absl::string_view>& names = SystemVariables();
  return absl::StartsWith(name, "ADAPTDL_SERVER_") ||
         std::find(names.begin(), names.end(), name) != names.end();
}

void FillDefaults(v1::JobSpec* spec) {
  if (!spec->has_preemptible()) spec->set_preemptible(true);
  if (!spec->has_max_restarts()) spec->set_max_restarts(kDefaultRestarts);
  if (spec->rescale() == v1::RESCALE_MODE_UNSPECIFIED) spec->set_rescale(v1::RESCALE_MODE_IN_PLACE);
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  if (!replica->has_termination_grace_period())
    replica->mutable_termination_grace_period()->set_seconds(absl::ToInt64Seconds(kDefaultGracePeriod));
  v1::Resources* resources = replica->mutable_resources();
  if (replica->has_python() && replica->python().interpreter().empty()) {
    replica->mutable_python()->set_interpreter(std::string(kDefaultInterpreter));
  }
  // What calls the API mostly waits for it: where it says what memory it needs, it may go without a core of its own.
  const bool waits = replica->api_access() && resources->memory_bytes() > 0;
  if (resources->cpu_millis() == 0 && resources->gpus() == 0 && !waits) resources->set_cpu_millis(1000);
}

absl::Duration GracePeriod(const v1::ReplicaTemplate& replica) {
  if (!replica.has_termination_grace_period()) return kDefaultGracePeriod;
  return std::clamp(messages::ToDuration(replica.termination_grace_period()), absl::ZeroDuration(),
                    kMaxGracePeriod);
}

}  // namespace adaptdl::jobspec
