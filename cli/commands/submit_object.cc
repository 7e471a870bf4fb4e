#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/submit.h"
#include "cli/kubernetes/cluster.h"
#include "cli/kubernetes/image.h"
#include "cli/kubernetes/registry.h"
#include "cli/kubernetes/submission.h"
#include "cli/kubernetes/tensorboard.h"
#include "libs/base/random_id.h"
#include "libs/jobfile/names.h"

namespace adaptdl::cli {
namespace {

namespace fs = std::filesystem;
constexpr char kOwnRepository[] = "adaptdl-submit";

std::string EnvironmentText(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::Status CheckFlags(const SubmitOptions& options) {
  if (!options.command_flags.empty()) {
    return UsageError(absl::StrCat(options.command_flags.front(),
                                   " goes with a command after \"--\"; a job file holds the value itself"));
  }
  if (!options.python.empty() || !options.requirements.empty()) {
    return UsageError("--python and --requirements go with nodes that start programs; an image has its own");
  }
  if (!options.gpu_types.empty() || !options.node_selector.empty() || !options.deadline.empty()) {
    return UsageError(
        "--gpu-type, --node-selector and --deadline go with nodes that start programs; an AdaptDLJob holds "
        "the values "
        "itself");
  }
  if (!options.code_flags.empty()) {
    return UsageError(absl::StrCat(options.code_flags.front(),
                                   " goes with nodes that start programs; an image has its own files"));
  }
  if (options.name_prefix.empty()) return absl::OkStatus();
  const absl::Status status = jobfile::CheckNamePrefix(absl::StrCat(options.name_prefix, "-"), "-n");
  return status.ok() ? status : UsageError(status.message());
}

// Empty: no image is to be built.
absl::StatusOr<std::string> FindDockerfile(const SubmitOptions& options) {
  std::error_code error;
  const bool is_folder = fs::is_directory(options.path, error);
  if (!is_folder && options.dockerfile.empty()) return std::string();
  if (!is_folder) return UsageError(absl::StrCat("-d goes with a folder; ", options.path, " is a file"));
  const std::string name = options.dockerfile.empty() ? "Dockerfile" : options.dockerfile;
  const fs::path path = fs::path(options.path) / name;
  if (fs::exists(path, error)) return path.string();
  if (options.dockerfile.empty()) return std::string();
  return absl::NotFoundError(absl::StrCat(path.string(), " does not exist; -d names a file of the folder"));
}

// The image as the cluster's nodes are to name it, by its digest.
absl::StatusOr<std::string> BuildImage(const Context& context, const Cluster& cluster,
                                       const SubmitOptions& options, const std::string& dockerfile) {
  const absl::StatusOr<ImageTool> tool = ImageTool::Find(options.image_tool);
  if (!tool.ok()) return tool.status();
  ImageOptions image = {.folder = options.path,
                        .dockerfile = dockerfile,
                        .repository = EnvironmentText("ADAPTDL_SUBMIT_REPO"),
                        .tag = absl::StrCat("adaptdl-", RandomHex(8))};
  std::string name_on_nodes = image.repository;
  std::unique_ptr<ClusterRegistry> registry;
  if (image.repository.empty()) {
    auto opened = ClusterRegistry::Open(cluster, context.kubernetes.operator_namespace, context.call_timeout);
    if (!opened.ok()) return opened.status();
    registry = *std::move(opened);
    image.repository = absl::StrCat(registry->here(), "/", kOwnRepository);
    image.plain_http = true;
    name_on_nodes = absl::StrCat(registry->on_nodes(), "/", kOwnRepository);
  }
  const absl::StatusOr<std::string> digest = tool->BuildAndPush(image);
  if (!digest.ok()) return digest.status();
  return absl::StrCat(name_on_nodes, "@", *digest);
}

absl::Status CheckTensorboard(const Cluster& cluster, const std::string& name, const kube::Json& job) {
  if (name.empty()) return absl::OkStatus();
  const kube::ObjectKey claim = {kube::KeyOf(job).name_space, TensorboardObjectName(name)};
  const absl::Status status = cluster.client().Get(kube::ObjectOf(Claims(), claim)).status();
  if (!absl::IsNotFound(status)) return While(absl::StrCat("claim ", claim.ToString()), status);
  return absl::NotFoundError(absl::StrCat("there is no tensorboard ", name, " in namespace ",
                                          claim.name_space, "; \"adaptdl tensorboard create ", name,
                                          "\" makes it"));
}

// The job first, which then owns the claim; both or none.
absl::StatusOr<kube::Json> Make(const Cluster& cluster, const kube::Json& wanted, const ClaimOptions& claim) {
  const std::string space = kube::KeyOf(wanted).name_space;
  absl::StatusOr<kube::Json> job =
      cluster.client().Create(kube::Collection(JobObjects(), space), wanted, ByUs());
  if (!job.ok() || claim.name.empty()) return job;
  const absl::Status made = While(
      absl::StrCat("claim ", space, "/", claim.name),
      cluster.client().Create(kube::Collection(Claims(), space), JobClaim(claim, *job), ByUs()).status());
  if (made.ok()) return job;
  const kube::ObjectKey key = kube::KeyOf(*job);
  const absl::Status undone =
      cluster.client().Delete(kube::ObjectOf(JobObjects(), key), {.uid = kube::UidOf(*job)});
  if (undone.ok()) return made;
  return While(
      absl::StrCat("job ", key.ToString(), " stays, as it could not be deleted (", undone.message(), ")"),
      made);
}

v1::Job ToFollow(const kube::Json& object) {
  v1::Job job;
  const kube::ObjectKey key = kube::KeyOf(object);
  job.set_namespace_(key.name_space);
  job.set_name(key.name);
  job.set_uid(kube::UidOf(object));
  job.mutable_spec()->set_max_replicas(static_cast<int>(kube::IntegerAt(object, {"spec", "maxReplicas"})));
  return job;
}

}  // namespace

absl::StatusOr<v1::Job> SubmitObject(const Context& context, const SubmitOptions& options) {
  if (absl::Status status = CheckFlags(options); !status.ok()) return status;
  const absl::StatusOr<std::string> file = FindJobFile(options);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::string> dockerfile = FindDockerfile(options);
  if (!dockerfile.ok()) return dockerfile.status();
  const auto cluster = Cluster::Open(context);
  if (!cluster.ok()) return cluster.status();
  absl::StatusOr<kube::Json> job = ReadJobObject((*cluster)->kubectl(), context.name_space, *file);
  if (!job.ok()) return job.status();
  if (absl::Status status = CheckTensorboard(**cluster, options.tensorboard, *job); !status.ok())
    return status;

  SubmissionOptions submission = {.name_prefix = options.name_prefix, .tensorboard = options.tensorboard};
  if (context.has_separator) submission.arguments = context.after_separator;
  if (!dockerfile->empty()) {
    const absl::StatusOr<std::string> image = BuildImage(context, **cluster, options, *dockerfile);
    if (!image.ok()) return image.status();
    submission.image = *image;
    submission.pull_secret = EnvironmentText("ADAPTDL_SUBMIT_REPO_CREDS");
  }
  ClaimOptions claim;
  if (!options.claim_size.empty() || !options.claim_class.empty()) {
    submission.claim = claim.name = absl::StrCat("adaptdl-pvc-", RandomHex(16));
    if (!options.claim_size.empty()) claim.size = options.claim_size;
    claim.storage_class = options.claim_class;
  }
  if (absl::Status status = Complete(submission, &*job); !status.ok()) return While(*file, status);
  const absl::StatusOr<kube::Json> made = Make(**cluster, *job, claim);
  if (!made.ok()) return made.status();
  return ToFollow(*made);
}

}  // namespace adaptdl::cli
