#include "services/supervisor/kubernetes/store/kube_job_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/kube/json/object.h"
#include "libs/service/log.h"
#include "services/supervisor/kubernetes/store/conditions.h"
#include "services/supervisor/kubernetes/store/hints_gate.h"
#include "services/supervisor/kubernetes/store/job_status_object.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/kubernetes/store/quota_object.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::util::MessageDifferencer;
using kube::Json;

int64_t TermOf(const Json& object) { return kube::IntegerAt(object, {"status", "term"}); }

// Versions are numbers that grow, in all servers that there are; where they are none, what comes last is the newest.
bool IsOlder(const Json& object, const Json& than) {
  int64_t a = 0;
  int64_t b = 0;
  return absl::SimpleAtoi(kube::ResourceVersionOf(object), &a) &&
         absl::SimpleAtoi(kube::ResourceVersionOf(than), &b) && a < b;
}

// `changed` in place of what is there of the same launches.
std::vector<ReplicaRecord> Merged(std::vector<ReplicaRecord> replicas,
                                  const std::vector<ReplicaRecord>& changed) {
  std::map<std::pair<int64_t, int>, ReplicaRecord> merged;
  for (auto* list : {&std::as_const(replicas), &changed}) {
    for (const ReplicaRecord& replica : *list) merged[{replica.launch_group, replica.launch_rank}] = replica;
  }
  replicas.clear();
  for (auto& [launch, replica] : merged) replicas.push_back(std::move(replica));
  return replicas;
}

void SetAside(const Json& object, const std::string& column, const absl::Status& why,
              StoreContents* contents) {
  const kube::ObjectKey key = kube::KeyOf(object);
  log::Error("an AdaptDLJob can't be read: it is left as it is",
             {{"job", key.ToString()}, {"error", why.ToString()}});
  const std::string uid = kube::UidOf(object);
  contents->damaged.push_back({.table = "jobs",
                               .column = column,
                               .key = {key.name_space, key.name},
                               .name_space = key.name_space,
                               .job = key.name,
                               .job_uid = uid});
  contents->set_aside.push_back({key.name_space, key.name, uid});
}

// Takes over what a write has brought, which began with `begun_with`; but for an object that was seen meanwhile.
void TakeOver(KnownObject next, const std::shared_ptr<const Json>& begun_with, KnownObject* known) {
  const bool seen = known->object != nullptr && known->object != begun_with;
  if (seen && !IsOlder(*known->object, *next.object)) next.object = known->object;
  *known = std::move(next);
}

// What of the batch is history, or helps to keep it.
WriteBatch HistoryOf(WriteBatch batch) {
  for (JobRecord& record : batch.put_jobs) record.tokens.clear();
  batch.put_nodes.clear();
  batch.delete_nodes.clear();
  batch.add_deletions.clear();
  batch.finish_deletions.clear();
  batch.remove_deletions.clear();
  batch.put_quotas.clear();
  batch.delete_quotas.clear();
  return batch;
}

}  // namespace

KubeJobStore::KubeJobStore(KubeJobStoreParts parts)
    : parts_(std::move(parts)), writer_(parts_.client, parts_.lease) {}

// ---- The start

absl::StatusOr<StoreContents> KubeJobStore::Load(absl::Time now) {
  StoreContents contents;
  if (const absl::Status status = LoadJobs(&contents); !status.ok()) return status;
  if (const absl::Status status = LoadQuotas(&contents); !status.ok()) return status;
  LoadHistory(now, &contents);
  return contents;
}

absl::Status KubeJobStore::LoadJobs(StoreContents* contents) {
  absl::StatusOr<std::vector<Json>> objects =
      parts_.client->ListAll(kube::Collection(AdaptDLJobs(), parts_.name_space));
  if (!objects.ok()) return objects.status();
  // Of two with the same place in the order, the one that was made first has it.
  std::sort(objects->begin(), objects->end(), [](const Json& a, const Json& b) {
    const auto key = [](const Json& object) {
      return std::make_pair(kube::TextAt(object, {"metadata", "creationTimestamp"}), kube::UidOf(object));
    };
    return key(a) < key(b);
  });
  std::map<std::string, Job> jobs;
  for (Json& object : *objects) {
    largest_term_ = std::max(largest_term_, TermOf(object));
    Job job;
    job.known = JustRead(std::make_shared<const Json>(std::move(object)));
    if (HasStatus(*job.known.object)) LoadJob(*job.known.object, &job, contents);
    const std::string uid = kube::UidOf(*job.known.object);
    jobs[uid] = std::move(job);
  }
  std::sort(contents->jobs.begin(), contents->jobs.end(),
            [](const JobRecord& a, const JobRecord& b) { return a.sequence < b.sequence; });
  MutexLock lock(&mutex_);
  jobs_ = std::move(jobs);
  return absl::OkStatus();
}

void KubeJobStore::LoadJob(const Json& object, Job* job, StoreContents* contents) const {
  absl::StatusOr<v1::Job> wishes = parts_.job_from_object(object);
  if (!wishes.ok()) return SetAside(object, "spec", wishes.status(), contents);
  absl::StatusOr<StoredInStatus> stored =
      ReadStatus(kube::At(object, {"status"}), std::make_shared<const v1::Job>(*std::move(wishes)));
  if (!stored.ok()) return SetAside(object, "status", stored.status(), contents);
  const int64_t sequence = stored->record.sequence;
  const bool taken = std::any_of(contents->jobs.begin(), contents->jobs.end(),
                                 [&](const JobRecord& other) { return other.sequence == sequence; });
  if (taken) {
    const auto twice = absl::InvalidArgumentError("status.sequence: another job has the same");
    return SetAside(object, "status", twice, contents);
  }
  parts_.tokens->Fill(stored->replicas, &stored->record);
  contents->last_sequence = std::max(contents->last_sequence, sequence);
  contents->replicas.insert(contents->replicas.end(), stored->replicas.begin(), stored->replicas.end());
  job->hints = stored->record.hints;
  job->replicas = std::move(stored->replicas);
  contents->jobs.push_back(std::move(stored->record));
}

absl::Status KubeJobStore::LoadQuotas(StoreContents* contents) {
  const absl::StatusOr<std::vector<Json>> objects =
      parts_.client->ListAll(kube::Collection(AdaptDLQuotas(), parts_.name_space));
  if (!objects.ok()) return objects.status();
  for (const Json& object : *objects) {
    if (kube::KeyOf(object).name != kQuotaName) continue;
    absl::StatusOr<v1::NamespaceQuota> quota = ReadQuota(object);
    if (quota.ok()) {
      SeenQuota(quota->namespace_(), *quota);
      contents->quotas.push_back(*std::move(quota));
    } else {
      log::Error("an AdaptDLQuota can't be read: it does not count",
                 {{"quota", kube::KeyOf(object).ToString()}, {"error", quota.status().ToString()}});
    }
  }
  return absl::OkStatus();
}

void KubeJobStore::LoadHistory(absl::Time now, StoreContents* contents) {
  // Larger than any that another leader has used, whose history is elsewhere.
  contents->last_event_id = absl::ToUnixMicros(now);
  const absl::StatusOr<StoreContents> history = parts_.history->Load(now);
  if (!history.ok()) {
    log::Error("the history can't be read", {{"error", history.status().ToString()}});
    return;
  }
  contents->last_event_id = std::max(contents->last_event_id, history->last_event_id);
  contents->last_sequence = std::max(contents->last_sequence, history->last_sequence);
  contents->costs = history->costs;
  WriteBatch gone;
  {
    MutexLock lock(&mutex_);
    for (const JobRecord& record : history->jobs) {
      if (!jobs_.contains(record.uid())) gone.delete_jobs.push_back(record.uid());
    }
  }
  Tell(gone);
}

// ---- Changes

absl::Status KubeJobStore::Commit(const WriteBatch& batch) {
  if (batch.put_jobs.size() + batch.delete_jobs.size() > 1) {
    return absl::InternalError("batches of this store are about one job at most");
  }
  MutexLock lock(&writing_);
  for (const JobRecord& record : batch.put_jobs) {
    if (const absl::Status status = WriteJob(record, batch.put_replicas); !status.ok()) return status;
  }
  for (const std::string& uid : batch.delete_jobs) {
    if (const absl::Status status = DeleteJob(uid); !status.ok()) return status;
  }
  if (const absl::Status status = WriteQuotas(batch); !status.ok()) return status;
  Tell(batch);
  return absl::OkStatus();
}

std::optional<Json> KubeJobStore::StatusToWrite(const JobRecord& record, const Job& job,
                                                const Moment& now) const {
  const auto with_hints = [&](const std::optional<v1::Hints>& hints) {
    JobRecord shown = record;
    shown.hints = hints;
    Json status = StatusOf(shown, job.replicas, parts_.lease->term());
    KeepSteadyTimes(job.known.written, &status);
    status["conditions"] = ConditionsOf(record, kube::At(job.known.written, {"conditions"}), now.wall,
                                        StorageProblem(record.uid()));
    return status;
  };
  const auto replicas = static_cast<int>(record.state.allocation.size());
  const bool hints_due = record.hints.has_value() &&
                         (!job.hints.has_value() || (now.steady - job.hints_time >= kHintsPeriod &&
                                                     HintsMoved(*job.hints, *record.hints, replicas)));
  const bool due =
      hints_due || !job.known.attempted.empty() || DiffersForGood(job.known.written, with_hints(job.hints));
  return due ? std::optional<Json>(with_hints(record.hints)) : std::nullopt;
}

absl::StatusOr<KubeJobStore::Job> KubeJobStore::FindJob(const JobRecord& record) const {
  {
    MutexLock lock(&mutex_);
    const auto known = jobs_.find(record.uid());
    if (known != jobs_.end()) return known->second;
  }
  const kube::ObjectKey key = {record.job->namespace_(), record.job->name()};
  absl::StatusOr<Json> object = parts_.client->Get(kube::ObjectOf(AdaptDLJobs(), key));
  if (absl::IsNotFound(object.status())) return object.status();
  if (!object.ok()) return absl::UnavailableError(object.status().ToString());
  if (kube::UidOf(*object) != record.uid()) return absl::NotFoundError("there is another one of this name");
  Job job;
  job.known = JustRead(std::make_shared<const Json>(*std::move(object)));
  return job;
}

absl::Status KubeJobStore::WriteJob(const JobRecord& record, const std::vector<ReplicaRecord>& replicas) {
  absl::StatusOr<Job> job = FindJob(record);
  // kubernetes/jobs deletes the record.
  if (absl::IsNotFound(job.status())) return absl::OkStatus();
  if (!job.ok()) return job.status();
  const Moment now = parts_.clock->Both();
  Job next = *job;
  next.replicas = Merged(std::move(next.replicas), replicas);
  std::erase_if(next.replicas, [&](const ReplicaRecord& replica) { return !Counts(replica, record.state); });
  const std::optional<Json> status = StatusToWrite(record, next, now);
  absl::Status written;
  if (status.has_value()) {
    written = writer_.Write(*status, &next.known);
    next.hints = record.hints;
    next.hints_time = now.steady;
  }
  MutexLock lock(&mutex_);
  if (absl::IsNotFound(written)) {
    jobs_.erase(record.uid());
    return absl::OkStatus();
  }
  Job& stays = jobs_[record.uid()];
  TakeOver(std::move(next.known), job->known.object, &stays.known);
  if (!written.ok()) return written;
  stays.replicas = std::move(next.replicas);
  stays.hints = std::move(next.hints);
  stays.hints_time = next.hints_time;
  return absl::OkStatus();
}

absl::Status KubeJobStore::DeleteJob(const std::string& uid) {
  const std::shared_ptr<const Json> object = RawObject(uid);
  if (object == nullptr) return absl::OkStatus();
  const absl::Status status = writer_.Delete(*object);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  Gone(uid);
  return absl::OkStatus();
}

absl::Status KubeJobStore::WriteQuotas(const WriteBatch& batch) {
  absl::Status status;
  for (const v1::NamespaceQuota& quota : batch.put_quotas) status.Update(WriteQuota(quota));
  for (const std::string& name_space : batch.delete_quotas) status.Update(DeleteQuota(name_space));
  if (status.ok() || absl::IsFailedPrecondition(status)) return status;
  return absl::UnavailableError(absl::StrCat("AdaptDLQuota: ", status.ToString()));
}

absl::Status KubeJobStore::WriteQuota(const v1::NamespaceQuota& quota) {
  const std::string& name_space = quota.namespace_();
  const std::optional<v1::NamespaceQuota> known = KnownQuota(name_space);
  if (known.has_value() && MessageDifferencer::Equals(*known, quota)) return absl::OkStatus();
  const absl::Status written =
      parts_.client
          ->Apply(kube::ObjectOf(AdaptDLQuotas(), {name_space, kQuotaName}), QuotaObject(quota),
                  {.field_manager = kFieldManager, .force = true})
          .status();
  if (written.ok()) SeenQuota(name_space, quota);
  if (!absl::IsNotFound(written)) return written;
  return absl::FailedPreconditionError(absl::StrCat("namespace: the cluster has no namespace \"", name_space,
                                                    "\" that could have a quota; create it first"));
}

absl::Status KubeJobStore::DeleteQuota(const std::string& name_space) {
  if (!KnownQuota(name_space).has_value()) return absl::OkStatus();
  const absl::Status deleted =
      parts_.client->Delete(kube::ObjectOf(AdaptDLQuotas(), {name_space, kQuotaName}), {});
  if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
  SeenQuota(name_space, std::nullopt);
  return absl::OkStatus();
}

void KubeJobStore::SeenQuota(const std::string& name_space, const std::optional<v1::NamespaceQuota>& quota) {
  MutexLock lock(&mutex_);
  if (quota.has_value()) {
    quotas_[name_space] = *quota;
  } else {
    quotas_.erase(name_space);
  }
}

std::optional<v1::NamespaceQuota> KubeJobStore::KnownQuota(const std::string& name_space) const {
  MutexLock lock(&mutex_);
  const auto known = quotas_.find(name_space);
  return known == quotas_.end() ? std::nullopt : std::make_optional(known->second);
}

void KubeJobStore::Tell(const WriteBatch& batch) const {
  const absl::Status kept = parts_.history->Commit(HistoryOf(batch));
  if (!kept.ok()) log::Error("history was lost", {{"error", kept.ToString()}});
  if (parts_.events == nullptr) return;
  for (const v1::Event& event : batch.add_events) parts_.events->Tell(event);
}

// ---- Objects

void KubeJobStore::Seen(const Json& object) {
  if (TermOf(object) > parts_.lease->term()) {
    return parts_.lease->GiveUp(absl::StrCat("AdaptDLJob ", kube::KeyOf(object).ToString(),
                                             ": it was written by a leader of a later term"));
  }
  KnownObject seen = JustRead(std::make_shared<const Json>(object));
  MutexLock lock(&mutex_);
  KnownObject& known = jobs_[kube::UidOf(object)].known;
  if (known.object == nullptr) {
    known = std::move(seen);
  } else if (seen.written == known.written && !IsOlder(object, *known.object)) {
    // With another status the next write finds out whose that is.
    known.object = std::move(seen.object);
  }
}

void KubeJobStore::Gone(const std::string& job_uid) {
  MutexLock lock(&mutex_);
  jobs_.erase(job_uid);
  storage_.erase(job_uid);
}

void KubeJobStore::SeenStorage(const std::string& job_uid, const std::string& problem) {
  MutexLock lock(&mutex_);
  storage_[job_uid] = problem;
}

std::optional<std::string> KubeJobStore::StorageProblem(const std::string& job_uid) const {
  MutexLock lock(&mutex_);
  const auto found = storage_.find(job_uid);
  return found == storage_.end() ? std::nullopt : std::optional(found->second);
}

std::shared_ptr<const Json> KubeJobStore::RawObject(const std::string& job_uid) const {
  MutexLock lock(&mutex_);
  const auto known = jobs_.find(job_uid);
  return known == jobs_.end() ? nullptr : known->second.known.object;
}

// ---- History

absl::Status KubeJobStore::Sync() {
  const absl::Status status = parts_.history->Sync();
  if (!status.ok()) log::Error("history may be lost", {{"error", status.ToString()}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Event>> KubeJobStore::ListEvents(const EventQuery& query) {
  return parts_.history->ListEvents(query);
}

absl::StatusOr<std::vector<ReplicaRecord>> KubeJobStore::ListReplicas(const std::string& job_uid) {
  return parts_.history->ListReplicas(job_uid);
}

absl::StatusOr<std::optional<RequestRecord>> KubeJobStore::FindRequest(const std::string& caller,
                                                                       const std::string& name_space,
                                                                       const std::string& request_id) {
  return parts_.history->FindRequest(caller, name_space, request_id);
}

absl::Status KubeJobStore::PruneRequests(absl::Time time) { return parts_.history->PruneRequests(time); }

absl::Status KubeJobStore::PruneEvents(absl::Time time) { return parts_.history->PruneEvents(time); }

absl::Status KubeJobStore::PruneReplicas(const std::string& job_uid, int keep) {
  return parts_.history->PruneReplicas(job_uid, keep);
}

absl::StatusOr<std::string> KubeJobStore::Backup() {
  return absl::FailedPreconditionError(
      "the cluster keeps the state: back up its AdaptDLJob and AdaptDLQuota objects");
}

}  // namespace adaptdl::supervisor
