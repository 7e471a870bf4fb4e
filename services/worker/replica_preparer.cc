#include "services/worker/replica_preparer.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/worker/names.h"
#include "services/worker/objects/data_cache.h"
#include "services/worker/shim/cgroup.h"

namespace adaptdl::worker {

ReplicaPreparer::Outcome ReplicaPreparer::Prepare(const v1::LaunchReplica& launch,
                                                  const std::vector<std::string>& devices,
                                                  const Observer& observer) const {
  const absl::StatusOr<std::optional<Account>> account = storage_->Prepare(launch);
  if (!account.ok()) return {account.status(), Cause::kStorage};
  std::string code;
  Cause cause = Cause::kUnknown;
  if (absl::Status status = PrepareCode(launch, *account, observer, &code, &cause); !status.ok()) {
    return {status, cause};
  }
  absl::StatusOr<std::optional<PythonPlace>> python = PreparePython(launch, *account);
  if (!python.ok()) return {python.status(), Cause::kNode};
  ReplicaPlace place{.checkpoint_path = storage_->CheckpointPath(launch),
                     .share_path = storage_->SharePath(launch),
                     .code_path = code,
                     .node_id = node_.node_id,
                     .replica_host = node_.replica_host,
                     .supervisor_address = node_.supervisor_address,
                     .supervisor_ca = node_.supervisor_ca,
                     .supervisor_tls_name = node_.supervisor_tls_name,
                     .devices = devices,
                     .account = *account,
                     .max_processes = node_.max_processes,
                     .python = *std::move(python),
                     .netperf_program = node_.netperf_program};
  absl::StatusOr<std::string> start = storage_->StartOf(launch);
  if (!start.ok()) return {start.status(), Cause::kStorage};
  place.start_path = *std::move(start);
  if (const absl::Status status = SetDataPlace(launch, &place); !status.ok())
    return {status, Cause::kStorage};
  absl::StatusOr<ProcessSpec> process = MakeProcessSpec(launch, place, node_.inherited_environment);
  if (!process.ok()) {
    // The folder has to be there for its exit record.
    if (absl::Status status = store_->Add(launch, {}, ProcessSpec{}); !status.ok()) {
      return {status, Cause::kNode};
    }
    return {process.status(), Cause::kJob};
  }
  absl::StatusOr<std::string> cgroup = PrepareCgroup(launch);
  if (!cgroup.ok()) return {cgroup.status(), Cause::kNode};
  process->cgroup = *cgroup;
  return {store_->Add(launch, devices, *process), Cause::kNode, *std::move(cgroup)};
}

absl::Status ReplicaPreparer::PrepareCode(const v1::LaunchReplica& launch,
                                          const std::optional<Account>& account, const Observer& observer,
                                          std::string* folder, Cause* cause) const {
  if (!launch.template_().has_code()) return absl::OkStatus();
  if (code_ == nullptr) {
    *cause = Cause::kNode;
    return absl::UnimplementedError("this worker has nowhere to fetch the job's folder from");
  }
  const v1::CodeArchive& archive = launch.template_().code();
  const JobCode::Order order = {.job = JobFolderName(launch.namespace_(), launch.job(), launch.job_uid()),
                                .archive = {launch.namespace_(), archive.digest(), archive.size()}};
  std::optional<archive::UnpackOptions::Owner> owner;
  if (account.has_value()) owner = {account->uid, account->gid};
  observer.fetching(true);
  const CodeFailure failure = code_->Prepare(order, owner, observer.wanted);
  observer.fetching(false);
  *folder = code_->FolderOf(order.job);
  *cause = failure.cause;
  if (failure.ok() || failure.cause != Cause::kJob) return failure.status;
  // The replica's folder has to be there for its exit record.
  const absl::Status stored = store_->Add(launch, {}, ProcessSpec{});
  if (!stored.ok()) *cause = Cause::kNode;
  return stored.ok() ? failure.status : stored;
}

absl::Status ReplicaPreparer::SetDataPlace(const v1::LaunchReplica& launch, ReplicaPlace* place) const {
  if (launch.template_().data_sets_size() == 0) return absl::OkStatus();
  const absl::StatusOr<std::optional<gid_t>> group = storage_->NamespaceGroup(launch.namespace_());
  if (!group.ok()) return group.status();
  place->data_path = DataViewOf(node_.data_folder, launch.replica_id());
  place->data_group = *group;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PythonPlace>> ReplicaPreparer::PreparePython(
    const v1::LaunchReplica& launch, const std::optional<Account>& account) const {
  if (!launch.template_().has_python()) return std::optional<PythonPlace>();
  const absl::StatusOr<std::optional<gid_t>> group = storage_->NamespaceGroup(launch.namespace_());
  if (!group.ok()) return group.status();
  absl::StatusOr<std::vector<std::string>> command = python_->Prepare(
      launch.namespace_(), launch.template_(), PythonUser{.account = account, .group = *group});
  if (!command.ok()) return command.status();
  return PythonPlace{.command = *std::move(command), .group = *group};
}

absl::StatusOr<std::string> ReplicaPreparer::PrepareCgroup(const v1::LaunchReplica& launch) const {
  if (node_.cgroup_base.empty()) return std::string();
  const v1::Resources& resources = launch.template_().resources();
  return MakeCgroup(node_.cgroup_base, launch.replica_id(),
                    {.cpu_millis = resources.cpu_millis(),
                     .memory_bytes = resources.memory_bytes(),
                     .max_processes = node_.max_processes});
}

}  // namespace adaptdl::worker
