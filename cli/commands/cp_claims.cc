#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/cp.h"
#include "cli/format.h"
#include "cli/kubernetes/cluster.h"
#include "cli/kubernetes/copy_pod.h"
#include "cli/kubernetes/interruption.h"
#include "cli/output.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

namespace fs = std::filesystem;

struct Request {
  JobReference job;
  // As the command line has it.
  std::string path;
};

absl::StatusOr<Request> ParseRequest(const Context& context, const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    return UsageError(
        absl::StrCat(text, " names no job; write JOB:share/PATH, JOB:checkpoint/PATH or JOB:/PATH"));
  }
  absl::StatusOr<JobReference> job = ParseJobReference(context, text.substr(0, colon));
  if (!job.ok()) return job.status();
  return Request{*std::move(job), text.substr(colon + 1)};
}

// Where the copy goes; nothing is there yet, except perhaps a file that it replaces.
absl::StatusOr<fs::path> FindTarget(const std::string& destination, const std::string& from) {
  std::error_code error;
  fs::path target = destination;
  if (fs::is_directory(target, error)) target /= fs::path(from).filename();
  if (!target.has_filename())
    return absl::NotFoundError(absl::StrCat(destination, " is no folder; make it first"));
  if (!fs::is_directory(fs::symlink_status(target, error))) return target;
  return absl::AlreadyExistsError(
      absl::StrCat(target.string(), " is there already; take it away, or name another copy"));
}

// The supervisor's claim for the job; empty: there is none.
absl::StatusOr<std::string> FindOwnClaim(const Cluster& cluster, const kube::Json& job,
                                         const std::stop_token& stop) {
  const kube::ObjectKey key = {kube::KeyOf(job).name_space, OwnClaimName(job)};
  const auto claim = cluster.client().Get(kube::ObjectOf(Claims(), key), stop);
  if (absl::IsNotFound(claim.status())) return std::string();
  if (!claim.ok()) return While(absl::StrCat("claim ", key.ToString()), claim.status());
  return key.name;
}

// Into a folder of its own beside the target, so that nothing appears there before it is whole.
absl::Status CopyWhole(const CopyPod& pod, const std::string& from, const fs::path& target,
                       const std::stop_token& stop) {
  const std::string parent = target.has_parent_path() ? target.parent_path().string() : ".";
  std::string folder = parent + "/.adaptdl-cp-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return ErrnoStatus(errno, absl::StrCat("a folder in ", parent));
  const absl::Cleanup remove = [&folder] {
    std::error_code error;
    fs::remove_all(folder, error);
  };
  const std::string copy = folder + "/copy";
  if (absl::Status status = pod.Copy(from, copy, stop); !status.ok()) return status;
  std::error_code error;
  fs::rename(copy, target, error);
  return error ? ErrnoStatus(error.value(), target.string()) : absl::OkStatus();
}

absl::Status CopyByPod(const Cluster& cluster, const Request& request, const CopyOptions& options,
                       const std::stop_token& stop, fs::path* target) {
  const kube::ObjectKey key = {request.job.name_space, request.job.name};
  const auto job = cluster.client().Get(kube::ObjectOf(JobObjects(), key), stop);
  if (!job.ok()) return While(absl::StrCat("job ", key.ToString()), job.status());
  const auto claim = FindOwnClaim(cluster, *job, stop);
  if (!claim.ok()) return claim.status();
  const JobStorage storage = StorageOf(*job, *claim);
  const auto from = PathInPod(storage, request.path);
  if (!from.ok()) return from.status();
  const auto to = FindTarget(options.to, *from);
  if (!to.ok()) return to.status();
  *target = *to;
  const kube::Json pod =
      MakeCopyPod(*job, storage, absl::StrCat("adaptdl-cp-", RandomHex(8)), options.helper_image);
  const auto running = CopyPod::Start(
      cluster, pod, [](const std::string& text) { Note(Printable(text)); }, stop);
  if (!running.ok()) return running.status();
  const absl::Status copied = CopyWhole(**running, *from, *target, stop);
  const absl::Status deleted = (*running)->Delete();
  return copied.ok() ? deleted : copied;
}

}  // namespace

absl::StatusOr<int> CopyFromClaims(const Context& context, const CopyOptions& options) {
  const absl::StatusOr<Request> request = ParseRequest(context, options.from);
  if (!request.ok()) return request.status();
  // Before anything has threads.
  const Interruption interruption;
  const auto cluster = Cluster::Open(context);
  if (!cluster.ok()) return cluster.status();
  fs::path target;
  const absl::Status status = CopyByPod(**cluster, *request, options, interruption.token(), &target);
  if (interruption.signal() != 0) {
    Note("interrupted");
    return 128 + interruption.signal();
  }
  if (!status.ok()) return status;
  if (context.format == Format::kTable) {
    Print(absl::StrCat("copied to ", target.string(), "\n"));
  } else {
    PrintDocument(context, {{"path", target.string()}});
  }
  return kExitOk;
}

}  // namespace adaptdl::cli
