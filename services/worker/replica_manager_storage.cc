// What replicas have to do with the storage of their jobs: before they start, while they run, and when they have ended.

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/service/log.h"
#include "services/worker/names.h"
#include "services/worker/objects/local_files.h"
#include "services/worker/replica_end.h"
#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

JobStore::Job ReplicaManager::StoredJobOf(const v1::LaunchReplica& launch) const {
  const std::string name = JobFolderName(launch.namespace_(), launch.job(), launch.job_uid());
  return {.name = name, .folder = absl::StrCat(storage_.folder(), "/", name), .group = launch.group()};
}

ReplicaPreparer::Outcome ReplicaManager::EnterStorage(const v1::LaunchReplica& launch) {
  const bool has_data = launch.template_().data_sets_size() > 0;
  if (options_.job_store == nullptr && !has_data && !launch.has_start_from()) return {};
  const absl::StatusOr<std::optional<Account>> account = storage_.Prepare(launch);
  if (!account.ok()) return {account.status(), Cause::kStorage};
  JobStore::Job job = StoredJobOf(launch);
  if (account->has_value()) job.owner = FileOwner{(*account)->uid, (*account)->gid};
  const absl::Status status =
      jobs_->Enter(job, launch.replica_id(), [&] { NoteProgress(launch.replica_id()); });
  if (!status.ok()) return {status, Cause::kStorage};
  if (const ReplicaPreparer::Outcome outcome = FetchStart(launch, job); !outcome.status.ok()) return outcome;
  return has_data ? FetchData(launch, *account) : ReplicaPreparer::Outcome{};
}

ReplicaPreparer::Outcome ReplicaManager::FetchStart(const v1::LaunchReplica& launch,
                                                    const JobStore::Job& job) {
  if (!launch.has_start_from()) return {};
  const absl::StatusOr<std::vector<LocalFile>> own = ListFiles(storage_.CheckpointPath(launch));
  if (!own.ok()) return {own.status(), Cause::kStorage};
  // Once it has checkpoints of its own, or what it begins with, the other job may be gone.
  std::error_code ignored;
  if (!own->empty() || std::filesystem::exists(absl::StrCat(job.folder, "/", kStartFolder), ignored))
    return {};
  const std::string name =
      JobFolderName(launch.namespace_(), launch.start_from().job(), launch.start_from().job_uid());
  const absl::Status status =
      jobs_->FetchStart(job, {.name = name, .folder = absl::StrCat(storage_.folder(), "/", name)},
                        [&] { NoteProgress(launch.replica_id()); });
  if (absl::IsNotFound(status)) {
    return NotStartable(launch, absl::NotFoundError(absl::StrCat(
                                    "spec.start_from: job \"", launch.start_from().job(),
                                    "\" has written no checkpoint, or was deleted: name another one")));
  }
  return {status, absl::IsResourceExhausted(status) ? Cause::kNode : Cause::kStorage};
}

ReplicaPreparer::Outcome ReplicaManager::NotStartable(const v1::LaunchReplica& launch,
                                                      const absl::Status& why) {
  // The folder has to be there for its exit record.
  if (absl::Status added = store_.Add(launch, {}, ProcessSpec{}); !added.ok()) return {added, Cause::kNode};
  return {why, Cause::kJob};
}

ReplicaPreparer::Outcome ReplicaManager::FetchData(const v1::LaunchReplica& launch,
                                                   const std::optional<Account>& account) {
  if (options_.data_cache == nullptr)
    return {absl::FailedPreconditionError("data sets are not offered on this node"), Cause::kNode};
  const absl::StatusOr<std::optional<gid_t>> group = storage_.NamespaceGroup(launch.namespace_());
  if (!group.ok()) return {group.status(), Cause::kStorage};
  DataCache::Request request{
      .job_namespace = launch.namespace_(), .replica_id = launch.replica_id(), .sets = {}, .group = *group};
  if (!group->has_value() && account.has_value()) request.group = account->gid;
  for (const v1::DataSet& set : launch.template_().data_sets())
    request.sets.push_back({set.name(), set.url()});
  const absl::Status status =
      options_.data_cache->Acquire(request, [&] { NoteProgress(launch.replica_id()); }).status();
  if (status.ok()) return {};
  if (absl::IsResourceExhausted(status) || absl::IsFailedPrecondition(status)) return {status, Cause::kNode};
  if (!absl::IsInvalidArgument(status) && !absl::IsNotFound(status) && !absl::IsPermissionDenied(status))
    return {status, Cause::kStorage};
  return NotStartable(launch, status);
}

void ReplicaManager::NoteProgress(const std::string& replica_id) {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it != replicas_.end() && it->second.start == Start::kPreparing)
    it->second.start_time = clock_->Steady();
}

absl::Status ReplicaManager::LeaveStorage(const std::string& replica_id, bool save) {
  std::string job;
  {
    MutexLock lock(&mutex_);
    const auto it = replicas_.find(replica_id);
    if (it == replicas_.end()) return absl::OkStatus();
    const v1::ReplicaReport& report = it->second.report;
    job = JobFolderName(report.namespace_(), report.job(), report.job_uid());
  }
  if (options_.data_cache != nullptr) options_.data_cache->Release(replica_id);
  return jobs_->Leave(job, replica_id, save);
}

void ReplicaManager::WatchCheckpoints() {
  jobs_->SetErrorSink([this](const std::string& job, const std::string& error) {
    MutexLock lock(&mutex_);
    for (auto& [replica_id, entry] : replicas_) {
      const v1::ReplicaReport& report = entry.report;
      if (report.replica().state() != v1::REPLICA_STATE_RUNNING ||
          JobFolderName(report.namespace_(), report.job(), report.job_uid()) != job) {
        continue;
      }
      entry.report.mutable_replica()->set_message(error);
      Report(entry.report);
    }
  });
}

void ReplicaManager::OnExited(const std::string& replica_id, const ExitRecord& told) {
  if (options_.job_store == nullptr) {
    SettleEnd(replica_id, told);
    if (options_.data_cache == nullptr) return;
    lanes_->Post(replica_id, [this, replica_id] { options_.data_cache->Release(replica_id); });
    return;
  }
  bool save = false;
  {
    MutexLock lock(&mutex_);
    const auto it = replicas_.find(replica_id);
    if (it == replicas_.end() || HasEnded(it->second.report.replica()) ||
        std::exchange(it->second.is_saving, true))
      return;
    save = !it->second.delete_when_ended;
  }
  // Whoever hears of the end may start the job elsewhere at once.
  lanes_->Post(replica_id, [this, replica_id, told, save] {
    ExitRecord record = told;
    if (const absl::Status status = LeaveStorage(replica_id, save); !status.ok()) {
      log::Warning("what a replica has left is not in the store",
                   {{"replica", replica_id}, {"error", status.ToString()}});
      absl::StrAppend(
          &record.message, record.message.empty() ? "" : "; ",
          "what it has left is not in the store, and what was there before counts: ", status.message());
    }
    SettleEnd(replica_id, record);
  });
}

void ReplicaManager::SaveLeftovers() {
  std::vector<std::pair<std::string, ExitRecord>> ends;
  {
    MutexLock lock(&mutex_);
    for (auto& [replica_id, entry] : replicas_) {
      if (!entry.end.has_value()) continue;
      ends.emplace_back(replica_id, *entry.end);
      entry.end.reset();
    }
  }
  for (const auto& [replica_id, record] : ends) OnExited(replica_id, record);
}

void ReplicaManager::SettleEnd(const std::string& replica_id, const ExitRecord& told) {
  ExitRecord record = told;
  v1::ReplicaReport report;
  {
    MutexLock lock(&mutex_);
    const auto it = replicas_.find(replica_id);
    if (it == replicas_.end() || HasEnded(it->second.report.replica())) return;
    Entry& entry = it->second;
    const bool succeeded = !record.lost && record.signal == 0 && record.exit_code == 0;
    if (entry.left_over && !succeeded) record.cause = Cause::kPreemption;
    if (IsUnexplainedFailure(record) && !entry.delete_when_ended) {
      entry.end = record;
      entry.end_since = clock_->Steady();
      report = entry.report;
    }
  }
  if (report.job().empty()) {
    TakeEndOf(replica_id, record);
  } else {
    lanes_->Post(replica_id, [this, replica_id, report] { TryStorage(replica_id, report); });
  }
}

void ReplicaManager::TryStorage(const std::string& replica_id, const v1::ReplicaReport& report) {
  const absl::Status status = storage_.Probe(report);
  ExitRecord record;
  {
    MutexLock lock(&mutex_);
    const auto it = replicas_.find(replica_id);
    // It may have been given up meanwhile.
    if (it == replicas_.end() || !it->second.end.has_value()) return;
    record = *it->second.end;
  }
  if (!status.ok()) {
    record.cause = Cause::kStorage;
    absl::StrAppend(&record.message, record.message.empty() ? "" : "; ",
                    "the storage does not work: ", status.message());
  }
  TakeEndOf(replica_id, record);
}

}  // namespace adaptdl::worker
