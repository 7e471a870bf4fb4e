// adaptdl-worker: offers this machine to the cluster and runs replicas on it.

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/process/child_reaper.h"
#include "libs/base/program_folder.h"
#include "libs/jobspec/placement.h"
#include "libs/service/client_security.h"
#include "libs/service/flags.h"
#include "libs/service/main.h"
#include "libs/service/server.h"
#include "services/worker/worker.h"

namespace {

using adaptdl::service::AddBytesFlag;
using adaptdl::service::AddDurationFlag;
using adaptdl::worker::OnTerminate;
using adaptdl::worker::WorkerOptions;

// Flags that need a look after parsing.
struct RawFlags {
  std::vector<std::string> labels;
  std::vector<std::string> taints;
  std::string on_terminate = "keep";
  std::string ports = "20000-29999";
  std::string uids = "200000-265535";
};

void AddFlags(CLI::App& app, WorkerOptions* options, RawFlags* raw) {
  app.add_option("--supervisor", options->supervisor,
                 "HOST:PORT of the supervisor, or of several, separated by commas; replicas use it too")
      ->capture_default_str();
  adaptdl::service::AddServerNameFlag(app, &options->tls_server_name);
  app.add_option("--node-id", options->node_id, "Name of this node [the machine's name]");
  app.add_option("--enrol-token-file", options->enrolment.token_file,
                 "The supervisor gives this node its certificate, for the join token in this file; needed at "
                 "the first "
                 "start only")
      ->type_name("FILE");
  app.add_flag(
      "--enrol-instance", options->enrolment.instance,
      "The supervisor gives this node its certificate, as a machine that the autoscaler has started");
  app.add_option("--instance-id", options->enrolment.instance_id, "What the cloud calls this machine")
      ->type_name("ID");
  app.add_option("--state-dir", options->state_dir,
                 "Folder for replicas' logs and records; survives restarts")
      ->capture_default_str();
  app.add_option("--storage-dir", options->storage_dir,
                 "Folder for jobs' checkpoints and files, the same on all nodes [STATE_DIR/storage]");
  app.add_option(
         "--storage-url", options->object_storage.url,
         "Object store for jobs' checkpoints and files, as s3://BUCKET/PREFIX, the same on all nodes; then "
         "--storage-dir is this node's own")
      ->type_name("URL");
  app.add_option("--storage-endpoint", options->object_storage.endpoint,
                 "URL of an object store other than Amazon's, such as https://minio.example.org:9000")
      ->type_name("URL");
  app.add_option("--storage-region", options->object_storage.region,
                 "Region of the bucket [AWS_REGION; with --storage-endpoint us-east-1]")
      ->type_name("REGION");
  AddDurationFlag(
      app, "--checkpoint-upload-timeout", &options->object_storage.upload_timeout,
      "Most time that a replica's end waits for its last checkpoint to be in the object store; after that "
      "the one before it counts");
  app.add_option("--data-dir", options->object_storage.data_folder,
                 "Folder for copies of the data sets that jobs ask for [STATE_DIR/data]");
  AddBytesFlag(app, "--data-cache-bytes", &options->object_storage.data_cache_bytes,
               "Size of all copies of data sets above which those go that were asked for longest ago and no "
               "replica uses");
  app.add_option("--cpus", options->cpus, "Cores to offer [all]");
  AddBytesFlag(app, "--memory", &options->memory_bytes, "Memory to offer; 0: all of the machine's");
  app.add_option("--gpus", options->gpus, "GPUs to offer: \"auto\" or a number")->capture_default_str();
  app.add_option(
      "--gpu-type", options->gpu_type,
      "Model of the GPUs; of several models, the one to offer [what the driver says; the most frequent]");
  app.add_option("--nvml-library", options->nvml_library, "Library of NVIDIA's driver, path or name")
      ->capture_default_str();
  AddDurationFlag(app, "--gpu-check-period", &options->gpu_check_period,
                  "How often the driver is asked how the GPUs are");
  app.add_option("--label", raw->labels, "Label of this node as KEY=VALUE; repeatable, or split by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--taint", raw->taints,
                 "Keeps jobs off this node that do not tolerate it, as KEY=VALUE:EFFECT, with NoSchedule or "
                 "NoExecute; repeatable, or split by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--preemptible", options->preemptible, "This node may be taken away at short notice");
  app.add_option(
      "--advertise-host", options->advertise_host,
      "Host at which others reach this node [127.0.0.1 when listening on loopback, else its address]");
  app.add_option("--ports", raw->ports,
                 "TCP ports among which some are kept free for the first replica of a job to listen on")
      ->capture_default_str()
      ->type_name("FIRST-LAST");
  app.add_option(
         "--instance-metadata", options->instance_metadata,
         "Cloud whose metadata service is asked whether it takes this node away, and what the machine is "
         "called; \"auto\" finds out whether there is one without asking over the network")
      ->check(CLI::IsMember({"auto", "aws", "gcp", "azure", "none"}))
      ->capture_default_str();
  app.add_option("--instance-metadata-url", options->instance_metadata_url,
                 "URL of that service [the cloud's own, http://169.254.169.254]");
  app.add_option("--on-terminate", raw->on_terminate,
                 "On SIGTERM: \"keep\" leaves replicas running for the next worker, \"drain\" gives notice, "
                 "waits until "
                 "the jobs have moved, and stops what is left near the end of --terminate-timeout")
      ->check(CLI::IsMember({"keep", "drain"}))
      ->capture_default_str();
  AddDurationFlag(app, "--terminate-timeout", &options->terminate_timeout, "Most time that a drain takes");
  app.add_option("--pass-env", options->pass_env,
                 "Environment variable that replicas get from the worker; repeatable, or split by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--python-dir", options->python.folder,
                 "Folder for the virtual environments of jobs on this node [STATE_DIR/python]");
  AddDurationFlag(app, "--python-timeout", &options->python.timeout,
                  "Most time that making a virtual environment takes");
  AddBytesFlag(app, "--max-python-environment-bytes", &options->python.max_environment_bytes,
               "Most bytes of one virtual environment");
  AddBytesFlag(app, "--max-python-bytes", &options->python.max_unused_bytes,
               "Size of all virtual environments that no replica uses above which the oldest go");
  app.add_option("--python-library", options->python.library,
                 "Folder of a Python package that programs in a virtual environment can import");
  AddBytesFlag(
      app, "--code-cache-bytes", &options->code.max_unused_bytes,
      "Size of the folders that came with jobs, and of their archives, that no replica uses, above which the "
      "oldest go");
  AddDurationFlag(app, "--code-timeout", &options->code.timeout,
                  "Most time that fetching a folder that comes with a job takes");
  app.add_option("--shim", options->shim_program, "Path of adaptdl-shim")->capture_default_str();
  app.add_option("--netperf", options->netperf_program,
                 "Path of adaptdl-netperf, which measures the network; if it is not there, that in PATH")
      ->capture_default_str();
  AddDurationFlag(app, "--orphan-timeout", &options->orphan_timeout,
                  "Replicas are stopped when no worker came back for this long");
  AddBytesFlag(app, "--log-file-size", &options->log_file_bytes, "Size at which a replica's log is rotated",
               4096);
  app.add_option("--log-files", options->log_files, "Log files kept per replica")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--keep-ended-replicas", options->keep_ended_replicas,
                 "Ended replicas whose logs are kept, at most")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  AddBytesFlag(
      app, "--max-log-bytes", &options->max_log_bytes,
      "Size of all logs together above which those of ended replicas go, the oldest of the job with the "
      "most first");
  AddBytesFlag(app, "--max-job-log-bytes", &options->max_job_log_bytes,
               "The same for the logs of one job on this node");
  app.add_option(
         "--replica-user", options->accounts.user,
         "User that replicas run as: \"per-job\", a number of its own for each job out of --replica-uids; "
         "\"self\", the worker's own; or an account's name [per-job for root, else self]")
      ->type_name("USER");
  app.add_option("--replica-uids", raw->uids, "Range for --replica-user=per-job, the same on all nodes")
      ->capture_default_str()
      ->type_name("FIRST-LAST");
  app.add_option("--replica-processes", options->max_processes,
                 "Most processes and threads of a job on this node, where it has a user or a control group "
                 "of its own "
                 "(0: no bound)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 22))
      ->capture_default_str();
}

absl::Status Interpret(const RawFlags& raw, WorkerOptions* options) {
  options->on_terminate = raw.on_terminate == "drain" ? OnTerminate::kDrain : OnTerminate::kKeep;
  for (const std::string& label : raw.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--label \"", label, "\" is not valid: give KEY=VALUE"));
    }
    options->labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  for (const std::string& text : raw.taints) {
    absl::StatusOr<adaptdl::v1::Taint> taint = adaptdl::jobspec::ParseTaint(text);
    if (!taint.ok()) return absl::InvalidArgumentError(absl::StrCat("--", taint.status().message()));
    options->taints.push_back(*std::move(taint));
  }
  const std::pair<std::string, std::string> ports = absl::StrSplit(raw.ports, absl::MaxSplits('-', 1));
  if (!absl::SimpleAtoi(ports.first, &options->first_port) ||
      !absl::SimpleAtoi(ports.second, &options->last_port) || options->first_port < 1 ||
      options->last_port > 65535 || options->first_port > options->last_port) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ports \"", raw.ports, "\" is not valid: give FIRST-LAST, for example 20000-29999"));
  }
  return adaptdl::worker::ParseUidRange(raw.uids, &options->accounts);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"AdaptDL worker: offers this machine to the cluster and runs training processes on it"};
  WorkerOptions options;
  options.server.name = "worker";
  options.server.listen = "127.0.0.1:7103";
  options.server.metrics_listen = "127.0.0.1:7203";
  options.shim_program = adaptdl::BesideProgram("adaptdl-shim");
  options.netperf_program = adaptdl::BesideProgram("adaptdl-netperf");
  options.python.program = adaptdl::BesideProgram("adaptdl-environment");
  options.python.library = adaptdl::BesideProgram("../python");
  RawFlags raw;
  adaptdl::service::AddServerFlags(app, &options.server);
  AddFlags(app, &options, &raw);
  return adaptdl::service::RunMain(app, argc, argv, [&]() -> absl::Status {
    if (absl::Status status = Interpret(raw, &options); !status.ok()) return status;
    std::unique_ptr<adaptdl::ChildReaper> reaper;
    if (getpid() == 1) {
      adaptdl::ChildReaper::BlockSignal();
      reaper = std::make_unique<adaptdl::ChildReaper>();
    }
    absl::StatusOr<std::unique_ptr<adaptdl::worker::Worker>> worker = adaptdl::worker::Worker::Start(options);
    if (!worker.ok()) return worker.status();
    (*worker)->Wait();
    return absl::OkStatus();
  });
}
