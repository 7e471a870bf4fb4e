// What "adaptdl submit" is asked for, and its part for clusters of Kubernetes. For one thread.

#ifndef ADAPTDL_CLI_COMMANDS_SUBMIT_H_
#define ADAPTDL_CLI_COMMANDS_SUBMIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.pb.h"
#include "cli/client.h"
#include "cli/context.h"
#include "libs/archive/folder_scan.h"

namespace adaptdl::cli {

struct SubmitOptions {
  // Job file, or a folder that holds one. Empty: the command after "--".
  std::string path;
  std::string file;
  std::string name_prefix;
  bool wait = false;
  bool follow = false;
  // Program that makes a virtual environment. Empty: none is asked for.
  std::string python;
  // File of what is installed in it. Empty: none, or what the job file says.
  std::string requirements;
  // What it demands besides: types of GPUs, labels of nodes ("KEY=VALUE"), and when it is to be done.
  std::vector<std::string> gpu_types;
  std::vector<std::string> node_selector;
  std::string deadline;
  // Of the folder.
  std::string dockerfile;
  // For a folder that goes along, to nodes that start programs. Empty: the one that `path` names, if it does.
  std::string code;
  bool no_code = false;
  std::string max_code_bytes;
  int64_t max_code_files = archive::kDefaultMaxFiles;
  // Shows what would go along, and submits nothing.
  bool dry_run = false;
  // Names of those of them that were given.
  std::vector<std::string> code_flags;
  // The TensorBoard that it logs to. Empty: none.
  std::string tensorboard;
  // Whether its program may call the API.
  bool api_access = false;
  std::string start_from;
  // For a cluster of Kubernetes only.
  std::string image_tool;
  std::string claim_size;
  std::string claim_class;
  // Names of those of them that were given.
  std::vector<std::string> cluster_flags;
  // For a command only.
  std::string name;
  int min_replicas = 0;
  int max_replicas = 0;
  std::vector<int> allowed_replicas;
  int priority = 0;
  std::string cpus;
  std::string memory;
  int gpus = 0;
  int max_restarts = -1;
  std::vector<std::string> env;
  std::vector<std::string> labels;
  std::string folder;
  // Names of the flags above that were given.
  std::vector<std::string> command_flags;
};

// The job file, or the folder's.
absl::StatusOr<std::string> FindJobFile(const SubmitOptions& options);

// A folder that goes along with a job. Empty: none does.
struct JobFolder {
  std::string path;
  archive::FolderContents contents;
};

// Finds it, and sets where in it the job starts; warns of what is not done with the job's image. `job_file` empty: there is none.
absl::StatusOr<JobFolder> FindJobFolder(const SubmitOptions& options, const std::string& job_file,
                                        v1::ReplicaTemplate* replica);
// Brings it to the supervisor, and names it in the request.
absl::Status SendJobFolder(const Context& context, Client& client, const JobFolder& folder,
                           v1::SubmitJobRequest* request);
// What would be submitted.
void PrintDryRun(const Context& context, const JobFolder& folder, const v1::SubmitJobRequest& request);

// Makes the job's object in a cluster of Kubernetes, with an image of the folder if that has a Dockerfile. Returns the job as far as it is
// needed to follow it.
absl::StatusOr<v1::Job> SubmitObject(const Context& context, const SubmitOptions& options);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_SUBMIT_H_
