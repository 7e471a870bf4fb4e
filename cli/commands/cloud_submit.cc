#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/cloud.h"
#include "cli/commands/log_printer.h"
#include "cli/commands/submit.h"
#include "cli/commands/wait.h"
#include "cli/output.h"
#include "libs/base/random_id.h"
#include "libs/jobfile/quantity.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {
namespace {

// Of jobs' specifications.
constexpr absl::Duration kLongestGrace = absl::Hours(1);

struct CloudSubmitOptions {
  std::string program;
  std::string folder;
  std::string name;
  int max_replicas = 0;
  std::string cpus = "1";
  std::string memory;
  int gpus = 1;
  absl::Duration checkpoint_timeout = absl::Seconds(120);
  absl::Duration rescale_timeout = absl::Seconds(60);
  bool wait = false;
  bool follow = false;
  bool dry_run = false;
};

// What is started, in the folder. Python programs are started by Python; others by themselves.
absl::StatusOr<std::vector<std::string>> CommandOf(const CloudSubmitOptions& options,
                                                   const std::filesystem::path& folder) {
  const std::filesystem::path program = options.program;
  const std::filesystem::path path = program.is_absolute() ? program : folder / program;
  std::error_code error;
  // One by an absolute path may be in the machines' image only.
  if (!program.is_absolute() && !std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat("-f ", options.program, ": there is no such file in ",
                                            folder.string(), " (--working-dir)"));
  }
  if (absl::EndsWith(options.program, ".py")) return std::vector<std::string>{"python3", options.program};
  if (program.is_absolute()) return std::vector<std::string>{options.program};
  return std::vector<std::string>{absl::StrCat("./", program.lexically_normal().string())};
}

absl::StatusOr<v1::SubmitJobRequest> RequestOf(const Context& context, const CloudSubmitOptions& options) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(options.folder, error);
  if (error || !std::filesystem::is_directory(folder, error))
    return absl::NotFoundError(absl::StrCat("--working-dir ", options.folder, " is no folder"));
  const absl::StatusOr<std::vector<std::string>> command = CommandOf(options, folder);
  if (!command.ok()) return command.status();
  v1::SubmitJobRequest request;
  v1::Job* job = request.mutable_job();
  job->set_name(options.name);
  if (!context.name_space.empty()) job->set_namespace_(context.name_space);
  if (options.name.empty()) request.set_generate_name("job-");
  v1::JobSpec* spec = job->mutable_spec();
  spec->set_max_replicas(options.max_replicas);
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  replica->mutable_command()->Assign(command->begin(), command->end());
  replica->mutable_args()->Assign(context.after_separator.begin(), context.after_separator.end());
  const absl::StatusOr<int64_t> millis = jobfile::ParseCpuMillis(options.cpus);
  if (!millis.ok()) return UsageError(absl::StrCat("--cpus: ", millis.status().message()));
  replica->mutable_resources()->set_cpu_millis(*millis);
  if (!options.memory.empty()) {
    const absl::StatusOr<int64_t> bytes = jobfile::ParseBytes(options.memory);
    if (!bytes.ok()) return UsageError(absl::StrCat("--memory: ", bytes.status().message()));
    replica->mutable_resources()->set_memory_bytes(*bytes);
  }
  replica->mutable_resources()->set_gpus(options.gpus);
  if (options.checkpoint_timeout > kLongestGrace)
    return UsageError("--checkpoint-timeout: at most 1h is possible");
  *replica->mutable_termination_grace_period() = messages::ToProto(options.checkpoint_timeout);
  return request;
}

absl::StatusOr<int> CloudSubmit(const Context& context, const CloudSubmitOptions& options) {
  absl::StatusOr<v1::SubmitJobRequest> request = RequestOf(context, options);
  if (!request.ok()) return request.status();
  SubmitOptions submission;
  submission.code = options.folder;
  const absl::StatusOr<JobFolder> folder =
      FindJobFolder(submission, "", request->mutable_job()->mutable_spec()->mutable_template_());
  if (!folder.ok()) return folder.status();
  if (options.dry_run) {
    Print(absl::StrCat("SubmitJob ", ToJson(*request).dump(2), "\n"));
    PrintDryRun(context, *folder, *request);
    return kExitOk;
  }
  Client client(context);
  if (absl::Status sent = SendJobFolder(context, client, *folder, &*request); !sent.ok()) return sent;
  request->set_request_id(RandomHex(16));
  const absl::StatusOr<v1::SubmitJobResponse> response = client.Call(&Jobs::SubmitJob, *request);
  if (!response.ok()) return response.status();
  const v1::Job& job = response->job();
  const bool stays = options.wait || options.follow;
  if (context.format == Format::kTable)
    Print(absl::StrCat("job ", job.namespace_(), "/", job.name(), " submitted\n"));
  else if (!stays)
    PrintDocument(context, ToJson(job));
  if (!stays) return kExitOk;
  if (options.follow) {
    if (const absl::Status status = FollowLogs(context, client, job); !status.ok()) return status;
  }
  return WaitForJobs(context, client, {{job.namespace_(), job.name()}}, absl::InfiniteFuture());
}

}  // namespace

void AddCloudSubmit(CLI::App& cloud, Context* context) {
  CLI::App* command = cloud.add_subcommand(
      "submit",
      "Run a program of a folder on workers of the cluster (--cluster), with the arguments after \"--\"");
  const auto options = std::make_shared<CloudSubmitOptions>();
  command->add_option("-f,--file", options->program, "The program, in the folder")
      ->required()
      ->type_name("PROGRAM");
  command->add_option("-d,--working-dir", options->folder, "The folder")->required()->type_name("DIR");
  command->add_option("-m,--max-cluster-size", options->max_replicas, "Most replicas")
      ->required()
      ->check(CLI::PositiveNumber);
  command->add_option("--name", options->name, "Name of the job. Default: one is made");
  command->add_option("--cpus", options->cpus, "Cores per replica, such as 2 or 500m")->capture_default_str();
  command->add_option("--memory", options->memory, "Memory per replica, such as 2Gi");
  command->add_option("--gpus", options->gpus, "GPUs per replica")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddDuration(*command, "--checkpoint-timeout", &options->checkpoint_timeout,
              "Time to write a checkpoint when replicas are to end; then the one before it counts",
              absl::Seconds(1));
  AddDuration(
      *command, "--cluster-rescale-timeout", &options->rescale_timeout,
      "Longest wait for new nodes before the job goes on with those that there are. It never waits: it "
      "trains on, and grows when they come");
  CLI::Option* wait = command->add_flag("--wait", options->wait, "Wait until the job has finished");
  command->add_flag("--follow", options->follow, "Print the job's output and wait")->excludes(wait);
  command->add_flag("--dry-run", options->dry_run, "Submit nothing: say the call that would be made");
  command->callback([context, options] {
    context->action = [context, options] { return CloudSubmit(*context, *options); };
  });
}

}  // namespace adaptdl::cli
