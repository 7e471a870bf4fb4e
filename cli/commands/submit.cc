#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/commands/log_printer.h"
#include "cli/commands/submit.h"
#include "cli/commands/wait.h"
#include "cli/format.h"
#include "cli/output.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/base/utf8.h"
#include "libs/jobfile/demands.h"
#include "libs/jobfile/job_file.h"
#include "libs/jobfile/names.h"
#include "libs/jobfile/quantity.h"
#include "libs/jobspec/python.h"

namespace adaptdl::cli {
namespace {

constexpr absl::string_view kDefaultFile = "adaptdljob.yaml";
constexpr absl::string_view kOtherDefaultFile = "adaptdljob.yml";
// Groups of flags in the help.
constexpr char kCommandGroup[] = "For a command after \"--\"";
constexpr char kCodeGroup[] = "For the folder that goes along with the job";
constexpr char kClusterGroup[] = "With --kubernetes, for a job file or folder";

// What the flags say of a virtual environment. The text of the requirements goes with the job: the nodes do not have
// the file.
absl::Status SetPython(const SubmitOptions& options, v1::ReplicaTemplate* replica) {
  if (options.python.empty() && options.requirements.empty()) return absl::OkStatus();
  v1::PythonEnvironment* python = replica->mutable_python();
  // What the flag alone stands for.
  if (!options.python.empty()) python->set_interpreter(options.python == "true" ? "python3" : options.python);
  if (options.requirements.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadWholeFile(options.requirements, 1 << 20);
  if (!text.ok()) return text.status();
  if (!IsUtf8(*text))
    return absl::InvalidArgumentError(absl::StrCat(options.requirements, " is no UTF-8 text"));
  if (absl::Status status = jobspec::CheckRequirements(options.requirements, *text); !status.ok())
    return status;
  python->set_requirements(*text);
  return absl::OkStatus();
}

// What the flags say of when it is to be done, and on which nodes.
absl::Status SetDemands(const SubmitOptions& options, v1::JobSpec* spec) {
  if (!options.deadline.empty()) {
    const auto deadline = jobfile::ParseDeadline("--deadline", options.deadline);
    if (!deadline.ok()) return UsageError(deadline.status().message());
    *spec->mutable_deadline() = *deadline;
  }
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  if (!options.tensorboard.empty()) replica->set_tensorboard(options.tensorboard);
  if (options.api_access) replica->set_api_access(true);
  if (!options.start_from.empty()) spec->mutable_start_from()->set_job(options.start_from);
  if (!options.gpu_types.empty()) {
    replica->mutable_placement()->mutable_gpu_types()->Assign(options.gpu_types.begin(),
                                                              options.gpu_types.end());
  }
  for (const std::string& text : options.node_selector) {
    const auto label = ParseKeyValue("--node-selector", text);
    if (!label.ok()) return label.status();
    (*replica->mutable_placement()->mutable_node_selector())[label->first] = label->second;
  }
  return absl::OkStatus();
}

// A program in the place of a job file: its "--" was left out.
absl::Status CheckIsNoProgram(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  const bool is_python = extension == ".py";
  std::error_code ignored;
  const bool runs = std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
  // Some file systems let everything be executed.
  const bool is_document = extension == ".yaml" || extension == ".yml" || extension == ".json";
  if (is_document || (!runs && !is_python)) return absl::OkStatus();
  return UsageError(absl::StrCat(path, " is a program, and no job file; to run it: adaptdl submit -- ",
                                 is_python ? "python3 " : "", path));
}

absl::StatusOr<v1::SubmitJobRequest> FromFile(const Context& context, const SubmitOptions& options,
                                              const std::string& path) {
  if (!options.command_flags.empty()) {
    return UsageError(absl::StrCat(options.command_flags.front(),
                                   " goes with a command after \"--\"; a job file holds the value itself"));
  }
  if (absl::Status status = CheckIsNoProgram(path); !status.ok()) return status;
  absl::StatusOr<jobfile::JobFile> file =
      jobfile::ReadJobFile(path, {.named_by_caller = !options.name_prefix.empty()});
  if (!file.ok()) return file.status();
  for (const std::string& warning : file->warnings) Note(absl::StrCat("warning: ", warning));
  v1::SubmitJobRequest request;
  *request.mutable_job() = std::move(file->job);
  request.set_generate_name(file->generate_name);
  if (context.has_separator) {
    v1::ReplicaTemplate* replica = request.mutable_job()->mutable_spec()->mutable_template_();
    replica->mutable_args()->Assign(context.after_separator.begin(), context.after_separator.end());
  }
  return request;
}

// A name that begins as the program is called: "Train_it.py" gives "train-it-py".
std::string PrefixFromProgram(const std::string& program) {
  std::string prefix;
  for (const char c : std::filesystem::path(program).filename().string().substr(0, 40)) {
    const char lower = absl::ascii_tolower(c);
    if (absl::ascii_isalnum(lower)) {
      prefix.push_back(lower);
    } else if (!prefix.empty() && prefix.back() != '-') {
      prefix.push_back('-');
    }
  }
  while (!prefix.empty() && prefix.back() == '-') prefix.pop_back();
  return absl::StrCat(prefix.empty() ? "job" : prefix, "-");
}

absl::Status FillResources(const SubmitOptions& options, v1::Resources* resources) {
  if (!options.cpus.empty()) {
    const absl::StatusOr<int64_t> millis = jobfile::ParseCpuMillis(options.cpus);
    if (!millis.ok()) return UsageError(absl::StrCat("--cpus: ", millis.status().message()));
    resources->set_cpu_millis(*millis);
  }
  if (!options.memory.empty()) {
    const absl::StatusOr<int64_t> bytes = jobfile::ParseBytes(options.memory);
    if (!bytes.ok()) return UsageError(absl::StrCat("--memory: ", bytes.status().message()));
    resources->set_memory_bytes(*bytes);
  }
  resources->set_gpus(options.gpus);
  return absl::OkStatus();
}

// A mistyped path is tried in vain on a node, several times. It is no error: nodes may have what is not here.
void WarnOfMissing(const std::string& program, const std::string& folder) {
  if (program.find('/') == std::string::npos || program[0] == '/') return;
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(folder) / program, ignored)) return;
  Note(absl::StrCat("warning: ", Printable(program), " is not in ", Printable(folder),
                    ", where the nodes look for it"));
}

absl::StatusOr<v1::SubmitJobRequest> FromCommand(const Context& context, const SubmitOptions& options) {
  if (context.after_separator.empty() || context.after_separator.front().empty()) {
    return UsageError("nothing to submit; give a job file, a folder, or a command after \"--\"");
  }
  if (!options.file.empty()) return UsageError("-f goes with a folder");
  if (!options.dockerfile.empty()) return UsageError("-d goes with a folder");
  if (options.max_replicas > 0 && options.min_replicas > options.max_replicas) {
    return UsageError(absl::StrCat("--min-replicas ", options.min_replicas, " is more than --max-replicas ",
                                   options.max_replicas));
  }
  v1::SubmitJobRequest request;
  v1::JobSpec* spec = request.mutable_job()->mutable_spec();
  request.mutable_job()->set_name(options.name);
  if (options.name.empty()) request.set_generate_name(PrefixFromProgram(context.after_separator.front()));
  spec->set_min_replicas(options.min_replicas);
  spec->set_max_replicas(options.max_replicas);
  spec->mutable_allowed_replicas()->Assign(options.allowed_replicas.begin(), options.allowed_replicas.end());
  spec->set_priority(options.priority);
  if (options.max_restarts >= 0) spec->set_max_restarts(options.max_restarts);
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  replica->mutable_command()->Assign(context.after_separator.begin(), context.after_separator.end());
  if (options.code.empty()) {
    const std::filesystem::path folder = options.folder.empty() ? "." : options.folder;
    replica->set_working_directory(std::filesystem::weakly_canonical(folder).string());
    WarnOfMissing(replica->command(0), replica->working_directory());
  } else {
    replica->set_working_directory(options.folder);
  }
  for (const std::string& text : options.env) {
    const auto variable = ParseKeyValue("--env", text);
    if (!variable.ok()) return variable.status();
    v1::EnvironmentVariable* entry = replica->add_env();
    entry->set_name(variable->first);
    entry->set_value(variable->second);
  }
  for (const std::string& text : options.labels) {
    const auto label = ParseKeyValue("--label", text);
    if (!label.ok()) return label.status();
    (*request.mutable_job()->mutable_labels())[label->first] = label->second;
  }
  const absl::Status resources = FillResources(options, replica->mutable_resources());
  if (!resources.ok()) return resources;
  return request;
}

absl::StatusOr<int> Follow(const Context& context, Client& client, const v1::Job& job, bool with_logs) {
  if (with_logs) {
    if (const absl::Status status = FollowLogs(context, client, job); !status.ok()) return status;
  }
  return WaitForJobs(context, client, {{job.namespace_(), job.name()}}, absl::InfiniteFuture());
}

// The supervisor hears of objects a moment after they are there.
absl::Status AwaitKnown(const Context& context, Client& client, const v1::Job& job) {
  const absl::Time deadline = SteadyNow() + context.call_timeout;
  Backoff backoff(kFirstRetryDelay, kLongestRetryDelay);
  while (true) {
    const absl::Status status = GetJob(client, {job.namespace_(), job.name()}).status();
    if (!absl::IsNotFound(status) || SteadyNow() >= deadline) return status;
    context.clock->SleepFor(backoff.Next());
  }
}

// What goes to the supervisor.
struct Submission {
  v1::SubmitJobRequest request;
  JobFolder folder;
};

absl::StatusOr<Submission> Prepare(const Context& context, const SubmitOptions& options) {
  if (!options.cluster_flags.empty()) {
    return UsageError(
        absl::StrCat(options.cluster_flags.front(), " goes with a job file or folder and --kubernetes"));
  }
  if (context.kubernetes.enabled && !options.tensorboard.empty()) {
    return UsageError("--tensorboard goes with a job file or folder where there is --kubernetes");
  }
  std::string file;
  if (!options.path.empty()) {
    absl::StatusOr<std::string> found = FindJobFile(options);
    if (!found.ok()) return found.status();
    file = *std::move(found);
  }
  absl::StatusOr<v1::SubmitJobRequest> request =
      file.empty() ? FromCommand(context, options) : FromFile(context, options, file);
  if (!request.ok()) return request.status();
  if (!options.name_prefix.empty()) {
    const std::string prefix = absl::StrCat(options.name_prefix, "-");
    const absl::Status status = jobfile::CheckNamePrefix(prefix, "-n");
    if (!status.ok()) return UsageError(status.message());
    request->mutable_job()->clear_name();
    request->set_generate_name(prefix);
  }
  v1::JobSpec* spec = request->mutable_job()->mutable_spec();
  absl::Status status = SetPython(options, spec->mutable_template_());
  if (status.ok()) status = SetDemands(options, spec);
  if (!status.ok()) return status;
  if (!context.name_space.empty()) request->mutable_job()->set_namespace_(context.name_space);
  absl::StatusOr<JobFolder> folder = FindJobFolder(options, file, spec->mutable_template_());
  if (!folder.ok()) return folder.status();
  return Submission{*std::move(request), *std::move(folder)};
}

absl::StatusOr<v1::Job> SubmitJob(const Context& context, Client& client, Submission submission) {
  absl::Status status = SendJobFolder(context, client, submission.folder, &submission.request);
  if (!status.ok()) return status;
  submission.request.set_request_id(RandomHex(16));
  absl::StatusOr<v1::SubmitJobResponse> response = client.Call(&Jobs::SubmitJob, submission.request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_job());
}

absl::StatusOr<int> Submit(const Context& context, const SubmitOptions& options) {
  const bool is_object = context.kubernetes.enabled && !options.path.empty();
  absl::StatusOr<v1::Job> job = absl::UnknownError("");
  std::unique_ptr<Client> client;
  if (is_object) {
    job = SubmitObject(context, options);
  } else {
    absl::StatusOr<Submission> submission = Prepare(context, options);
    if (!submission.ok()) return submission.status();
    if (options.dry_run) {
      PrintDryRun(context, submission->folder, submission->request);
      return kExitOk;
    }
    client = std::make_unique<Client>(context);
    job = SubmitJob(context, *client, *std::move(submission));
  }
  if (!job.ok()) return job.status();
  const bool stays = options.wait || options.follow;
  if (context.format == Format::kTable) {
    Print(absl::StrCat("job ", job->namespace_(), "/", job->name(), " submitted\n"));
  } else if (!stays) {
    PrintDocument(context, ToJson(*job));
  }
  if (!stays) return kExitOk;
  if (client == nullptr) {
    client = std::make_unique<Client>(context);
    if (absl::Status known = AwaitKnown(context, *client, *job); !known.ok()) return known;
  }
  return Follow(context, *client, *job, options.follow);
}

// Names of the flags of the group that were given.
std::vector<std::string> GivenOf(const CLI::App& command, absl::string_view group) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() == group && option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

void AddClusterFlags(CLI::App* command, SubmitOptions* options) {
  const auto add = [&](const char* name, std::string& value, const char* help) {
    return command->add_option(name, value, help)->group(kClusterGroup);
  };
  add("--image-tool", options->image_tool, "What builds it. Default: docker, podman or buildah");
  add("--checkpoint-storage-size", options->claim_size,
      "A claim of this size for the job's checkpoints and shared files. Default: what the supervisor gives; "
      "1Gi if "
      "only the class is given");
  add("--checkpoint-storage-class", options->claim_class,
      "Its storage class, which many nodes can write. Default: the cluster's");
}

void AddCodeFlags(CLI::App* command, SubmitOptions* options) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group(kCodeGroup);
  };
  CLI::Option* code = add("--code", options->code,
                          "The folder, which each node gets a copy of. Default: DIR; that of FILE, if its "
                          "job starts in a relative "
                          "folder or its command names a file there; of a command none");
  command->add_flag("--no-code", options->no_code, "None goes along: the nodes have what the job needs")
      ->group(kCodeGroup)
      ->excludes(code);
  add("--max-code-bytes", options->max_code_bytes, "Bytes of its files at most. Default: 2Gi");
  add("--max-code-files", options->max_code_files, "Files and folders in it at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_flag("--dry-run", options->dry_run,
                 "List what would go along, and what is left out by which rule; submit nothing")
      ->group(kCodeGroup);
}

void AddCommandFlags(CLI::App* command, SubmitOptions* options) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group(kCommandGroup);
  };
  add("--name", options->name, "Name of the job. Default: made from the program's");
  add("--min-replicas", options->min_replicas, "Fewest replicas")->check(CLI::NonNegativeNumber);
  add("--max-replicas", options->max_replicas, "Most replicas. 0: no limit")->check(CLI::NonNegativeNumber);
  add("--allowed-replicas", options->allowed_replicas, "The only numbers of replicas, such as 1,2,4")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  add("--priority", options->priority, "Jobs of a higher one start first. -1000 to 1000, default 0");
  add("--cpus", options->cpus, "Cores per replica, such as 2 or 500m");
  add("--memory", options->memory, "Memory per replica, such as 2Gi");
  add("--gpus", options->gpus, "GPUs per replica")->check(CLI::NonNegativeNumber);
  add("--max-restarts", options->max_restarts, "Own failures before the job is given up. Default: 3")
      ->check(CLI::NonNegativeNumber);
  add("--env", options->env, "Variable of the replicas, KEY=VALUE; may be repeated");
  add("--label", options->labels, "Label of the job, KEY=VALUE; may be repeated");
  add("--workdir", options->folder, "Folder to start in. Default: this one");
}

}  // namespace

absl::StatusOr<std::string> FindJobFile(const SubmitOptions& options) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(options.path, error);
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(absl::StrCat(options.path, " does not exist; give a job file, a folder with ",
                                            kDefaultFile, ", or a command after \"--\""));
  }
  if (!std::filesystem::is_directory(status)) {
    if (!options.file.empty()) {
      return UsageError(
          absl::StrCat("-f ", options.file, " goes with a folder; ", options.path, " is a file"));
    }
    return options.path;
  }
  const std::filesystem::path folder = options.path;
  const std::string name = options.file.empty() ? std::string(kDefaultFile) : options.file;
  const std::filesystem::path path = folder / name;
  if (std::filesystem::exists(path, error)) return path.string();
  // One that is given may be elsewhere, as with AdaptDL's own command.
  const std::string other =
      options.file.empty() ? (folder / std::string(kOtherDefaultFile)).string() : options.file;
  if (std::filesystem::exists(other, error)) return other;
  return absl::NotFoundError(
      absl::StrCat(path.string(), " does not exist; -f names another file of the folder"));
}

void AddSubmit(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand(
      "submit",
      "Submit a job: a job file (its arguments replaced by those after \"--\"), or the command after "
      "\"--\"");
  const auto options = std::make_shared<SubmitOptions>();
  command->add_option("FILE|DIR", options->path, "Job file, or a folder that holds adaptdljob.yaml");
  command->add_option("-f,--file", options->file, "The job file's name in the folder");
  command->add_option("-n", options->name_prefix, "Beginning of the job's name; the system completes it");
  CLI::Option* wait = command->add_flag("--wait", options->wait, "Wait until the job has finished");
  command->add_flag("--follow", options->follow, "Print the job's output and wait")->excludes(wait);
  command->add_flag("--python", options->python,
                    "Run it in a virtual environment of Python; --python=PROGRAM: of this one");
  command->add_option("--requirements", options->requirements,
                      "Install what this requirements file lists there; implies --python");
  command->add_option("--gpu-type", options->gpu_types,
                      "Type of the nodes' GPUs, as nodes say it; may be repeated: any of them");
  command->add_option("--node-selector", options->node_selector,
                      "Label that its nodes have, KEY=VALUE; may be repeated: all of them");
  command->add_option("--tensorboard", options->tensorboard,
                      "Log to this TensorBoard (\"adaptdl tensorboard\")");
  command->add_flag("--api-access", options->api_access,
                    "Let its program call this cluster's API as a user of the job's namespace");
  command->add_option("--start-from", options->start_from,
                      "Begin with the newest checkpoint of this job, as long as it has none of its own");
  command->add_option("--deadline", options->deadline, "When it is to be done, such as 2026-12-01T08:00:00Z");
  command->add_option(
      "-d,--dockerfile", options->dockerfile,
      "The folder's Dockerfile. With --kubernetes an image is built of it and pushed to "
      "$ADAPTDL_SUBMIT_REPO, or the cluster's own registry; otherwise it only says which files paths of the "
      "image are. Default: Dockerfile, if there is one");
  AddCodeFlags(command, options.get());
  AddClusterFlags(command, options.get());
  AddCommandFlags(command, options.get());
  command->callback([context, options, command] {
    options->command_flags = GivenOf(*command, kCommandGroup);
    options->cluster_flags = GivenOf(*command, kClusterGroup);
    options->code_flags = GivenOf(*command, kCodeGroup);
    context->action = [context, options] { return Submit(*context, *options); };
  });
}

}  // namespace adaptdl::cli
