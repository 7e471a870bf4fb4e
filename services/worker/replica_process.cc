#include "services/worker/replica_process.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "libs/jobspec/files.h"
#include "libs/jobspec/job_spec.h"
#include "libs/jobspec/launch_variables.h"
#include "libs/jobspec/python.h"
#include "services/worker/names.h"

namespace adaptdl::worker {
namespace {

constexpr int kMaxArguments = 1024;
constexpr int kMaxVariables = 1024;
// Linux refuses single strings of 128 KiB, and by default 2 MiB of them together.
constexpr size_t kMaxStringBytes = 120 << 10;
constexpr size_t kMaxTotalBytes = 1 << 20;

constexpr absl::string_view kInherited[] = {"PATH",
                                            "HOME",
                                            "LANG",
                                            "LC_ALL",
                                            "LC_CTYPE",
                                            "LANGUAGE",
                                            "TZ",
                                            "USER",
                                            "LOGNAME",
                                            "SHELL",
                                            "LD_LIBRARY_PATH",
                                            "TMPDIR",
                                            "NVIDIA_VISIBLE_DEVICES",
                                            "NVIDIA_DRIVER_CAPABILITIES",
                                            "CUDA_HOME"};

void Set(Environment* environment, absl::string_view name, absl::string_view value) {
  for (auto& [known, known_value] : *environment) {
    if (known == name) {
      known_value = std::string(value);
      return;
    }
  }
  environment->emplace_back(std::string(name), std::string(value));
}

bool Has(const Environment& environment, absl::string_view name) {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const auto& variable) { return variable.first == name; });
}

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t* total) {
  *total += text.size();
  if (text.size() > kMaxStringBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", text.size(), " bytes: at most ", kMaxStringBytes, " are possible"));
  }
  if (*total > kMaxTotalBytes) {
    return absl::InvalidArgumentError(absl::StrCat("command, args and env together are larger than ",
                                                   kMaxTotalBytes, " bytes, which no program can be given"));
  }
  if (absl::StrContains(text, '\0'))
    return absl::InvalidArgumentError(absl::StrCat(field, " holds a NUL byte"));
  return absl::OkStatus();
}

absl::Status CheckTemplate(const v1::ReplicaTemplate& replica) {
  if (replica.command_size() > kMaxArguments || replica.args_size() > kMaxArguments) {
    return absl::InvalidArgumentError(
        absl::StrCat("template.command and template.args take at most ", kMaxArguments, " entries each"));
  }
  if (replica.env_size() > kMaxVariables) {
    return absl::InvalidArgumentError(absl::StrCat("template.env takes at most ", kMaxVariables, " entries"));
  }
  size_t total = 0;
  for (const std::string& text : replica.command()) {
    if (absl::Status status = CheckText("template.command", text, &total); !status.ok()) return status;
  }
  for (const std::string& text : replica.args()) {
    if (absl::Status status = CheckText("template.args", text, &total); !status.ok()) return status;
  }
  for (const v1::EnvironmentVariable& variable : replica.env()) {
    if (variable.name().empty() || absl::StrContains(variable.name(), '=')) {
      return absl::InvalidArgumentError(
          absl::StrCat("template.env name \"", variable.name(), "\" is not valid: empty, or with a '='"));
    }
    for (const std::string* text : {&variable.name(), &variable.value()}) {
      if (absl::Status status = CheckText("template.env", *text, &total); !status.ok()) return status;
    }
  }
  if (replica.has_python()) {
    if (absl::Status status = jobspec::CheckPython(replica.python()); !status.ok()) return status;
  }
  if (replica.has_code()) {
    absl::Status status = jobspec::CheckCode(replica.code());
    if (status.ok()) status = jobspec::CheckFolderInCode(replica.working_directory());
    if (!status.ok()) return status;
  }
  if (absl::Status status = jobspec::CheckDataSets(replica.data_sets()); !status.ok()) return status;
  return CheckText("template.working_directory", replica.working_directory(), &total);
}

// As asked for; within the folder that comes with the job, if one does.
std::string WorkingDirectory(const std::string& asked, const ReplicaPlace& place) {
  if (place.code_path.empty()) return asked.empty() ? place.share_path : asked;
  if (asked.empty()) return place.code_path;
  return asked[0] == '/' ? asked : absl::StrCat(place.code_path, "/", asked);
}

std::string Number(int64_t number) { return absl::StrCat(number); }

// What the worker's own variables say of its user is of no use to another one.
void SetAccount(const ReplicaPlace& place, Environment* env, ProcessSpec* spec) {
  const Account& account = *place.account;
  Set(env, "HOME", account.home.empty() ? place.share_path : account.home);
  Set(env, "USER", account.name);
  Set(env, "LOGNAME", account.name);
  spec->uid = account.uid;
  spec->gid = account.gid;
  spec->max_processes = place.max_processes;
}

// Where the command and the clients find the cluster, beside its address; the supervisor adds the token.
void SetApiAccess(const ReplicaPlace& place, Environment* env) {
  if (place.supervisor_ca.empty()) {
    Set(env, "ADAPTDL_INSECURE", "1");
    return;
  }
  Set(env, "ADAPTDL_CA_FILE", place.supervisor_ca);
  Set(env, "ADAPTDL_TLS_SERVER_NAME", place.supervisor_tls_name);
}

}  // namespace

Environment InheritedEnvironment(const char* const* environment, const std::vector<std::string>& more_names) {
  Environment inherited;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const absl::string_view variable = *environment;
    const size_t equals = variable.find('=');
    if (equals == absl::string_view::npos || equals == 0) continue;
    const absl::string_view name = variable.substr(0, equals);
    if (absl::StartsWith(name, "ADAPTDL_")) continue;
    if (std::find(std::begin(kInherited), std::end(kInherited), name) == std::end(kInherited) &&
        std::find(more_names.begin(), more_names.end(), name) == more_names.end()) {
      continue;
    }
    inherited.emplace_back(std::string(name), std::string(variable.substr(equals + 1)));
  }
  return inherited;
}

absl::Status CheckLaunch(const v1::LaunchReplica& launch) {
  if (absl::Status status = CheckReplicaId(launch.replica_id()); !status.ok()) return status;
  if (absl::Status status = CheckJobNames(launch.namespace_(), launch.job(), launch.job_uid());
      !status.ok()) {
    return status;
  }
  if (launch.has_start_from()) {
    const absl::Status status =
        CheckJobNames(launch.namespace_(), launch.start_from().job(), launch.start_from().job_uid());
    if (!status.ok()) return status;
  }
  if (launch.rank() < 0 || launch.num_replicas() < 1 || launch.rank() >= launch.num_replicas()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", launch.rank(), " is not in a group of ", launch.num_replicas(), " replicas"));
  }
  size_t total = 0;
  if (absl::Status status = CheckText("token", launch.token(), &total); !status.ok()) return status;
  const v1::AdaptdlHttp& http = launch.adaptdl_http();
  if (absl::Status status = CheckText("adaptdl_http.supervisor_url", http.supervisor_url(), &total);
      !status.ok()) {
    return status;
  }
  return CheckTemplate(launch.template_());
}

absl::StatusOr<ProcessSpec> MakeProcessSpec(const v1::LaunchReplica& launch, const ReplicaPlace& place,
                                            const Environment& inherited) {
  const v1::ReplicaTemplate& replica = launch.template_();
  ProcessSpec spec;
  spec.argv.assign(replica.command().begin(), replica.command().end());
  spec.argv.insert(spec.argv.end(), replica.args().begin(), replica.args().end());
  if (spec.argv.empty()) {
    return absl::InvalidArgumentError("template.command is empty: give the program to run");
  }
  if (spec.argv[0] == "adaptdl-netperf" && !place.netperf_program.empty()) {
    spec.argv[0] = place.netperf_program;
  }
  if (place.python.has_value()) {
    spec.argv.insert(spec.argv.begin(), place.python->command.begin(), place.python->command.end());
    spec.prepares = true;
    if (place.python->group.has_value()) spec.groups = {*place.python->group};
  }
  // It is the same as that of virtual environments.
  if (place.data_group.has_value()) spec.groups = {*place.data_group};
  spec.working_directory = WorkingDirectory(replica.working_directory(), place);
  if (spec.working_directory[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("template.working_directory \"", spec.working_directory,
                     "\" is relative: give an absolute path, or none for the job's "
                     "share folder"));
  }
  spec.grace_period = TerminationGracePeriod(replica);

  Environment& env = spec.env;
  env = inherited;
  // What users may set otherwise: AdaptDL's programs expect it to be there.
  Set(&env, "ADAPTDL_TENSORBOARD_LOGDIR", absl::StrCat(place.share_path, "/tensorboard"));
  if (place.account.has_value()) SetAccount(place, &env, &spec);
  spec.cgroup = place.cgroup;
  spec.memory_bytes = replica.resources().memory_bytes();
  bool sets_threads = false;
  for (const v1::EnvironmentVariable& variable : replica.env()) {
    if (jobspec::IsSystemVariable(variable.name())) continue;
    sets_threads = sets_threads || variable.name() == "OMP_NUM_THREADS";
    Set(&env, variable.name(), variable.value());
  }
  if (!Has(env, "PATH")) Set(&env, "PATH", "/usr/local/bin:/usr/bin:/bin");
  if (!sets_threads) {
    Set(&env, "OMP_NUM_THREADS", Number(std::max<int64_t>(1, replica.resources().cpu_millis() / 1000)));
  }
  Set(&env, "CUDA_VISIBLE_DEVICES", absl::StrJoin(place.devices, ","));
  Set(&env, "ADAPTDL_NUM_GPUS", Number(static_cast<int64_t>(place.devices.size())));
  Set(&env, "ADAPTDL_CHECKPOINT_PATH", place.checkpoint_path);
  Set(&env, "ADAPTDL_SHARE_PATH", place.share_path);
  if (!place.start_path.empty()) Set(&env, "ADAPTDL_START_PATH", place.start_path);
  if (!place.data_path.empty()) Set(&env, "ADAPTDL_DATA_PATH", place.data_path);
  Set(&env, "ADAPTDL_SUPERVISOR_CA", place.supervisor_ca);
  Set(&env, "ADAPTDL_SUPERVISOR_TLS_NAME", place.supervisor_tls_name);
  if (replica.api_access()) SetApiAccess(place, &env);
  Set(&env, "ADAPTDL_GROUP_TOKEN", launch.token());
  Set(&env, "ADAPTDL_NODE_ID", place.node_id);
  Set(&env, "ADAPTDL_REPLICA_HOST", place.replica_host);
  for (const auto& [name, value] : jobspec::LaunchVariables(launch, place.supervisor_address)) {
    Set(&env, name, value);
  }
  return spec;
}

absl::Duration TerminationGracePeriod(const v1::ReplicaTemplate& replica_template) {
  return jobspec::GracePeriod(replica_template);
}

}  // namespace adaptdl::worker
