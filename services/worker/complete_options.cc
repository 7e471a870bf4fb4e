#include "services/worker/complete_options.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/service/listen_address.h"
#include "services/worker/machine.h"
#include "services/worker/names.h"

namespace adaptdl::worker {
namespace {

absl::StatusOr<std::string> AbsoluteFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make folder ", folder));
  return std::filesystem::canonical(folder).string();
}

// Replicas are given the path, and start elsewhere.
absl::Status CompletePath(std::string* path) {
  if (path->empty()) return absl::OkStatus();
  std::error_code error;
  *path = std::filesystem::absolute(*path, error).lexically_normal().string();
  return error ? absl::InternalError(absl::StrCat("no current folder: ", error.message())) : absl::OkStatus();
}

}  // namespace

absl::Status CompleteOptions(const InstanceIdentity& identity, WorkerOptions* options) {
  if (options->node_id.empty()) options->node_id = MachineName();
  if (absl::Status status = CheckName("--node-id", options->node_id, 253); !status.ok()) return status;
  if (!(options->cpus >= 0) || options->cpus > 1e6) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cpus ", options->cpus, " is not valid: give a number of cores"));
  }
  if (options->advertise_host.empty()) {
    const absl::StatusOr<service::ListenAddress> listen =
        service::ParseListenAddress("--listen", options->server.listen);
    if (!listen.ok()) return listen.status();
    absl::StatusOr<std::string> host = FindAdvertiseHost(listen->host, identity.address);
    if (!host.ok()) return host.status();
    options->advertise_host = *host;
  }
  absl::StatusOr<std::string> state_dir = AbsoluteFolder(options->state_dir);
  if (!state_dir.ok()) return state_dir.status();
  options->state_dir = *state_dir;
  absl::StatusOr<std::string> storage_dir = AbsoluteFolder(
      options->storage_dir.empty() ? absl::StrCat(options->state_dir, "/storage") : options->storage_dir);
  if (!storage_dir.ok()) return storage_dir.status();
  options->storage_dir = *storage_dir;
  if (options->python.folder.empty()) options->python.folder = absl::StrCat(options->state_dir, "/python");
  if (options->object_storage.data_folder.empty())
    options->object_storage.data_folder = absl::StrCat(options->state_dir, "/data");
  std::error_code error;
  // One that is not there has nothing for jobs.
  if (!std::filesystem::is_directory(options->python.library, error)) options->python.library.clear();
  for (std::string* path : {&options->object_storage.data_folder, &options->python.folder,
                            &options->python.program, &options->python.library}) {
    if (absl::Status status = CompletePath(path); !status.ok()) return status;
  }
  return CompletePath(&options->server.security.tls.ca);
}

}  // namespace adaptdl::worker
