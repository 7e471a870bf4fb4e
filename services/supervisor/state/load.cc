#include "services/supervisor/state/load.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/service/log.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

std::string DescribeDamage(const DamagedRow& row) {
  if (row.mended) return "a text in the supervisor's record of it was not valid and was mended";
  if (row.table == "jobs") {
    return "the supervisor's record of the job can't be read: it is set aside until an administrator looks "
           "at it (adaptdl admin check)";
  }
  return absl::StrCat("the supervisor's record in ", row.table, " can't be read",
                      row.table == "replicas" ? ": the replica counts as lost" : "");
}

// What was stored, on the time of this process. A wall clock that was set meanwhile may say anything of how
// long that is ago: no wait is longer than it can have been at first, and nothing has happened in the future.
JobRecord FromStore(JobRecord record, const Moment& now, const jobs::Policy& policy) {
  const auto past = [&](absl::Time* time) {
    if (*time != absl::InfinitePast()) *time = std::min(now.ToSteady(*time), now.steady);
  };
  jobs::Job& state = record.state;
  state.start_time = record.times.started;
  state.completion_time = record.times.completed;
  for (absl::Time* time :
       {&state.start_time, &state.completion_time, &state.running_since, &state.rescaling_since}) {
    past(time);
  }
  for (jobs::Plan& plan : state.plans) past(&plan.since);
  state.retry_time = std::min(now.ToSteady(record.times.retry), now.steady + policy.max_retry_backoff);
  // To this process's knowledge: a restart gives the group the whole time again.
  if (state.phase == jobs::Phase::kStarting) state.starting_since = now;
  return record;
}

absl::Time QuarantineEnd(const v1::Node& node, const Moment& now, const jobs::QuarantinePolicy& policy) {
  if (node.status().phase() != v1::NODE_PHASE_QUARANTINED) return absl::InfinitePast();
  return std::min(now.ToSteady(ToTime(node.status().quarantine_end_time())), now.steady + policy.longest);
}

void FillJobs(const StoreContents& contents, const jobs::Policy& policy, const Moment& now,
              Invariants* invariants, Tables* tables) {
  std::map<std::string, std::shared_ptr<JobEntry>> entries;
  for (const JobRecord& record : contents.jobs) {
    auto entry = std::make_shared<JobEntry>();
    entry->record = FromStore(record, now, policy);
    entries[record.uid()] = std::move(entry);
    tables->submissions.Restore(record.job->namespace_(), now.ToSteady(record.times.submitted), now);
  }
  // Members in order of rank, then others.
  for (const ReplicaRecord& replica : contents.replicas) {
    const auto job = entries.find(replica.job_uid);
    if (job == entries.end()) {
      invariants->Broken("store", absl::StrCat("a replica of no job: ", replica.replica.replica_id()));
      continue;
    }
    job->second->replicas.push_back(std::make_shared<ReplicaRecord>(replica));
  }
  for (const auto& [uid, entry] : entries) PutJob(entry, tables);
}

void FillNodes(const StoreContents& contents, const jobs::QuarantinePolicy& quarantine, const Moment& now,
               Tables* tables) {
  for (const NodeRecord& node : contents.nodes) {
    auto entry = std::make_shared<NodeEntry>();
    entry->record = node;
    // Which nodes are kept apart is not known any more: that is soft.
    entry->record.node.mutable_status()->clear_unreachable_nodes();
    entry->lease = std::make_shared<Lease>(now);
    entry->quarantine_end = QuarantineEnd(node.node, now, quarantine);
    tables->nodes[node.node.node_id()] = std::move(entry);
    tables->last_session = std::max(tables->last_session, node.session_id);
  }
}

void Log(const DamagedRow& row) {
  log::Error(row.mended ? "a text in the store was no UTF-8; it was mended"
                        : "a row of the store can't be read; it is set aside (adaptdl admin check)",
             {{"table", row.table},
              {"column", row.column},
              {"key", absl::StrJoin(row.key, "/")},
              {"job", row.job.empty() ? "" : absl::StrCat(row.name_space, "/", row.job)}});
}

// What concerns a job stands among its events.
absl::Status TellOfDamage(JobStore* store, const std::vector<DamagedRow>& rows, const Moment& now,
                          int64_t* last_event_id) {
  WriteBatch batch;
  for (const DamagedRow& row : rows) {
    Log(row);
    if (row.job.empty() || !row.is_new) continue;
    v1::Event& event = batch.add_events.emplace_back();
    event.set_id(++*last_event_id);
    *event.mutable_time() = ToProto(now.wall);
    event.set_namespace_(row.name_space);
    event.set_job(row.job);
    event.set_job_uid(row.job_uid);
    event.set_type(v1::EVENT_TYPE_WARNING);
    event.set_reason(row.mended ? "RecordMended" : "RecordUnreadable");
    event.set_message(DescribeDamage(row));
  }
  return batch.empty() ? absl::OkStatus() : store->Commit(batch);
}

}  // namespace

absl::StatusOr<LoadedState> LoadState(JobStore* store, const LoadOptions& options, const Moment& now,
                                      Invariants* invariants) {
  absl::StatusOr<StoreContents> contents = store->Load(now.wall);
  if (!contents.ok()) return contents.status();
  LoadedState state;
  Tables& tables = state.tables;
  FillJobs(*contents, options.policy, now, invariants, &tables);
  FillNodes(*contents, options.quarantine, now, &tables);
  for (const JobSetAside& job : contents->set_aside) state.unreadable_jobs.insert({job.name_space, job.name});
  for (const FileDeletion& deletion : contents->deletions) {
    tables.deletions[deletion.node_id][deletion.job_uid] = deletion;
  }
  for (const v1::NamespaceQuota& quota : contents->quotas) tables.quotas[quota.namespace_()] = quota;
  for (const JoinRecord& join : contents->joins) tables.joins[join.id] = join;
  tables.last_sequence = contents->last_sequence;
  tables.last_event_id = contents->last_event_id;
  // Larger than any version that an allocator may still hold from before.
  tables.version = absl::ToUnixMicros(now.wall);
  const absl::Status told = TellOfDamage(store, contents->damaged, now, &tables.last_event_id);
  if (!told.ok()) return told;
  state.costs = std::move(contents->costs);
  state.damaged = std::move(contents->damaged);
  return state;
}

}  // namespace adaptdl::supervisor
