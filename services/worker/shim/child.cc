#include "services/worker/shim/child.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/process_list.h"
#include "libs/base/process/spawn.h"

namespace adaptdl::worker {
namespace {

constexpr char kDefaultPath[] = "/usr/local/bin:/usr/bin:/bin";

std::string PathOf(const std::vector<std::pair<std::string, std::string>>& env) {
  std::string path = kDefaultPath;
  for (const auto& [name, value] : env) {
    if (name == "PATH") path = value;
  }
  return path;
}

StartedChild Failure(Cause cause, int exit_code, std::string message) {
  StartedChild child;
  child.cause = cause;
  child.exit_code = exit_code;
  child.failure = std::move(message);
  return child;
}

// What a file system says that does not work, whatever is asked of it.
bool IsOfStorage(int error) {
  switch (error) {
    case EIO:
    case ESTALE:
    case ENXIO:
    case ENODEV:
    case ETIMEDOUT:
    case EREMOTEIO:
    case ENOTCONN:
      return true;
    default:
      return false;
  }
}

StartedChild ExplainExecution(int error, const ProcessSpec& spec) {
  const std::string& command = spec.argv[0];
  switch (error) {
    case ENOENT:
      return Failure(Cause::kImage, kExitNotFound,
                     absl::StrCat("command '", command, "' not found (or the interpreter that it names)"));
    case EACCES:
      return Failure(
          Cause::kImage, kExitCannotExecute,
          absl::StrCat("command '", command, "' is not executable",
                       spec.uid >= 0 ? absl::StrCat(" for user ", spec.uid, ", which the job runs as") : ""));
    case ENOEXEC:
      return Failure(Cause::kImage, kExitCannotExecute,
                     absl::StrCat("command '", command,
                                  "' is no program for this machine, and no script that begins with '#!'"));
    default: {
      Cause cause = error == ENOMEM || error == EAGAIN ? Cause::kNode : Cause::kJob;
      if (IsOfStorage(error)) cause = Cause::kStorage;
      return Failure(cause, kExitCannotExecute,
                     absl::StrCat("command '", command, "' can't be executed: ", strerror(error)));
    }
  }
}

StartedChild Explain(const SpawnFailure& failure, const ProcessSpec& spec) {
  const std::string why = strerror(failure.error_number);
  switch (failure.stage) {
    case SpawnStage::kWorkingDirectory:
      return Failure(
          IsOfStorage(failure.error_number) ? Cause::kStorage : Cause::kJob, kExitCannotExecute,
          absl::StrCat("working directory '", spec.working_directory, "' can't be entered: ", why));
    case SpawnStage::kNone:
    case SpawnStage::kProcess:
      return Failure(Cause::kNode, kExitCannotExecute, absl::StrCat("no process can be made: ", why));
    case SpawnStage::kSetUp:
      return Failure(Cause::kNode, kExitCannotExecute, absl::StrCat("the process can't be set up: ", why));
    case SpawnStage::kControlGroup:
      return Failure(Cause::kNode, kExitCannotExecute,
                     absl::StrCat("the process can't enter its control group ", spec.cgroup, ": ", why));
    case SpawnStage::kAccount:
      return Failure(Cause::kNode, kExitCannotExecute,
                     absl::StrCat("the process can't be given to user ", spec.uid, ": ", why));
    case SpawnStage::kExecute:
      break;
  }
  return ExplainExecution(failure.error_number, spec);
}

SpawnOptions OptionsFor(const ProcessSpec& spec, const std::string& program, const Pipe& output,
                        const Pipe& errors) {
  SpawnOptions options;
  options.program = program;
  options.command = spec.argv;
  options.environment.emplace();
  for (const auto& [name, value] : spec.env) {
    options.environment->push_back(absl::StrCat(name, "=", value));
  }
  options.working_directory = spec.working_directory;
  options.output_fd = output.write_end.get();
  options.error_fd = errors.write_end.get();
  options.group = SpawnOptions::Group::kSession;
  options.heeded_signals = AllSignals();
  options.death_signal = SIGKILL;
  options.control_group = spec.cgroup;
  options.confined = true;
  if (spec.uid >= 0) {
    options.account = SpawnAccount{.uid = static_cast<uid_t>(spec.uid),
                                   .gid = static_cast<gid_t>(spec.gid),
                                   .groups = {spec.groups.begin(), spec.groups.end()},
                                   .max_processes = spec.max_processes};
  }
  return options;
}

}  // namespace

std::string FindProgram(const std::string& program,
                        const std::vector<std::pair<std::string, std::string>>& env) {
  if (program.find('/') != std::string::npos) return program;
  if (program.empty()) return "";
  std::string not_executable;
  for (const absl::string_view folder : absl::StrSplit(PathOf(env), ':')) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", program);
    struct stat info = {};
    if (stat(candidate.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    if (not_executable.empty()) not_executable = candidate;
  }
  return not_executable;
}

StartedChild StartChild(const ProcessSpec& spec) {
  const std::string program = FindProgram(spec.argv[0], spec.env);
  if (program.empty()) {
    return Failure(Cause::kImage, kExitNotFound,
                   absl::StrCat("command '", spec.argv[0], "' not found in PATH (", PathOf(spec.env), ")"));
  }
  absl::StatusOr<Pipe> output = Pipe::Open();
  absl::StatusOr<Pipe> errors = Pipe::Open();
  absl::StatusOr<Pipe> report = Pipe::Open();
  for (const absl::StatusOr<Pipe>* pipe : {&output, &errors, &report}) {
    if (!pipe->ok()) {
      return Failure(Cause::kNode, kExitCannotExecute,
                     absl::StrCat("no process can be made: ", pipe->status().message()));
    }
    // A pipe of ours takes it.
    SetNonBlocking((*pipe)->read_end.get()).IgnoreError();
  }
  SpawnOptions options = OptionsFor(spec, program, *output, *errors);
  if (spec.prepares) options.files = {report->write_end.get()};  // the first of them is number 3, kReportFd
  SpawnFailure failure;
  const absl::StatusOr<pid_t> pid = Spawn(options, &failure);
  if (!pid.ok()) return Explain(failure, spec);
  StartedChild child;
  child.pid = *pid;
  child.stdout_fd = output->read_end.Release();
  child.stderr_fd = errors->read_end.Release();
  if (spec.prepares) child.report_fd = report->read_end.Release();
  return child;
}

void KillAll(pid_t group) {
  if (group > 1) kill(-group, SIGKILL);
  for (const pid_t child : ListChildren()) kill(child, SIGKILL);
}

}  // namespace adaptdl::worker
