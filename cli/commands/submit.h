// What "adaptdl submit" is asked for, and its part for clusters of Kubernetes. For one thread.

#ifndef ADAPTDL_CLI_COMMANDS_SUBMIT_H_
#define ADAPTDL_CLI_COMMANDS_SUBMIT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.pb.h"
#include "cli/context.h"

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
  // For a cluster of Kubernetes only.
  std::string dockerfile;
  std::string image_tool;
  std::string tensorboard;
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

// Makes the job's object in a cluster of Kubernetes, with an image of the folder if that has a Dockerfile. Returns the job as far as it is
// needed to follow it.
absl::StatusOr<v1::Job> SubmitObject(const Context& context, const SubmitOptions& options);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_SUBMIT_H_
