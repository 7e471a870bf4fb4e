#include "services/supervisor/store/store_reader.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/jobs/replica_id.h"
#include "libs/messages/text.h"
#include "services/supervisor/store/cost_rows.h"
#include "services/supervisor/store/job_codec.h"
#include "services/supervisor/store/legacy_job.h"

namespace adaptdl::supervisor {
namespace {

constexpr char kReplicaColumns[] =
    "r.job_uid, r.replica, r.stop_requested, r.node_leaving, r.loss, r.address, r.grp, r.rank, r.in_place, "
    "r.judged, r.master_port, r.current_grp, r.current_rank, j.namespace, j.name";

// One that nobody can say anything about: the job goes on as if it had been lost.
void CountAsLost(const std::string& job_name, int64_t group, int rank, ReplicaRecord* record) {
  record->loss = jobs::LossCause::kVanished;
  record->replica.set_replica_id(jobs::ReplicaId(jobs::ReplicaIdPrefix(job_name, record->job_uid),
                                                 record->launch_group, record->launch_rank));
  record->replica.set_group(group);
  record->replica.set_rank(rank);
  record->replica.set_state(v1::REPLICA_STATE_LOST);
  record->replica.set_message("the supervisor's record of it can't be read");
}

ReplicaRecord ReadReplica(const Statement& row, MessageReader* reader) {
  ReplicaRecord record;
  record.job_uid = row.Text(0);
  record.stop_requested = row.Integer(2) != 0;
  record.node_leaving = row.Integer(3) != 0;
  record.loss = static_cast<jobs::LossCause>(row.Integer(4));
  record.address = row.Text(5);
  record.launch_group = row.Integer(6);
  record.launch_rank = static_cast<int>(row.Integer(7));
  record.rescales_in_place = row.Integer(8) != 0;
  record.end_handled = row.Integer(9) != 0;
  record.master_port = static_cast<int>(row.Integer(10));
  DamagedRow place{"replicas",
                   "replica",
                   {record.job_uid, absl::StrCat(record.launch_group), absl::StrCat(record.launch_rank)},
                   row.Text(13),
                   row.Text(14),
                   record.job_uid};
  if (!reader->Read(std::move(place), row.Text(1), &record.replica)) {
    CountAsLost(row.Text(14), row.Integer(11), static_cast<int>(row.Integer(12)), &record);
  }
  return record;
}

// Reads into one StoreContents.
class StoreReader {
 public:
  StoreReader(Database* database, absl::Time now) : database_(*database), now_(now) {}

  absl::StatusOr<StoreContents> Read() {
    for (const auto part : {&StoreReader::ReadJobs, &StoreReader::ReadTokens, &StoreReader::ReadPlans,
                            &StoreReader::ReadReplicas, &StoreReader::ReadNodes, &StoreReader::ReadDeletions,
                            &StoreReader::ReadQuotas, &StoreReader::ReadCosts, &StoreReader::ReadJoins,
                            &StoreReader::ReadCounters, &StoreReader::WriteBack}) {
      if (const absl::Status status = (this->*part)(); !status.ok()) return status;
    }
    contents_.damaged = reader_.damaged();
    return std::move(contents_);
  }

 private:
  absl::Status ForEach(const std::string& sql, absl::FunctionRef<void(const Statement&)> take) {
    absl::StatusOr<Statement> statement = Statement::Prepare(database_.handle(), sql);
    if (!statement.ok()) return statement.status();
    return statement->ForEachRow([&] {
      take(*statement);
      return absl::OkStatus();
    });
  }

  absl::Status ReadJobs() {
    const absl::Status status =
        ForEach(absl::StrCat("SELECT sequence, uid, namespace, name, spec, state, status, ",
                             kLegacyJobColumns, " FROM jobs ORDER BY sequence"),
                [&](const Statement& row) { ReadJob(row); });
    for (JobRecord& job : contents_.jobs) by_uid_[job.uid()] = &job;
    return status;
  }

  void ReadJob(const Statement& row) {
    JobRecord record;
    record.sequence = row.Integer(0);
    const std::string uid = row.Text(1);
    const auto read = [&](const char* column, int index, google::protobuf::Message* message) {
      return reader_.Read({"jobs", column, {uid}, row.Text(2), row.Text(3), uid}, row.Text(index), message);
    };
    const bool legacy = row.Text(5).empty();
    auto job = std::make_shared<v1::Job>();
    StoredJob stored;
    v1::JobStatus status;
    const bool known = read("spec", 4, job.get());
    if (!(legacy ? read("status", 6, &status) : read("state", 5, &stored)) || !known) {
      contents_.set_aside.push_back({row.Text(2), row.Text(3), uid});
      return;
    }
    record.job = std::move(job);
    if (legacy) {
      FromLegacy(status, row, 7, &record);
      legacy_.insert(uid);
    } else {
      FromStored(stored, &record);
    }
    contents_.jobs.push_back(std::move(record));
  }

  // Null: it was set aside.
  JobRecord* Find(const std::string& uid) {
    const auto job = by_uid_.find(uid);
    return job == by_uid_.end() ? nullptr : job->second;
  }

  absl::Status ReadTokens() {
    return ForEach("SELECT job_uid, grp, token FROM tokens", [&](const Statement& row) {
      JobRecord* job = Find(row.Text(0));
      if (job == nullptr) return;
      job->tokens[row.Integer(1)] = row.Text(2);
      job->state.last_group = std::max(job->state.last_group, row.Integer(1));
    });
  }

  absl::Status ReadPlans() {
    return ForEach(kLegacyPlans, [&](const Statement& row) {
      JobRecord* job = Find(row.Text(0));
      if (job != nullptr && legacy_.contains(job->uid())) AddLegacyMember(row, &job->state.plans);
    });
  }

  absl::Status ReadReplicas() {
    return ForEach(absl::StrCat("SELECT ", kReplicaColumns,
                                " FROM replicas r JOIN jobs j ON r.job_uid = j.uid "
                                "WHERE r.current_grp = j.grp OR r.live = 1 "
                                "ORDER BY r.job_uid, r.current_grp != j.grp, r.current_rank, r.grp"),
                   [&](const Statement& row) {
                     const JobRecord* job = Find(row.Text(0));
                     if (job == nullptr) return;
                     ReplicaRecord record = ReadReplica(row, &reader_);
                     v1::Replica* replica = &record.replica;
                     const std::vector<std::string>& nodes = job->state.allocation;
                     const bool of_group = replica->group() == job->state.group;
                     if (replica->node_id().empty() && of_group && replica->rank() < std::ssize(nodes)) {
                       replica->set_node_id(nodes[replica->rank()]);
                     }
                     contents_.replicas.push_back(std::move(record));
                   });
  }

  absl::Status ReadNodes() {
    return ForEach("SELECT session_id, node, node_id FROM nodes ORDER BY node_id", [&](const Statement& row) {
      NodeRecord record;
      record.session_id = row.Integer(0);
      if (!reader_.Read({"nodes", "node", {row.Text(2)}, "", "", ""}, row.Text(1), &record.node)) return;
      contents_.nodes.push_back(std::move(record));
    });
  }

  absl::Status ReadDeletions() {
    return ForEach("SELECT node_id, namespace, job, job_uid FROM file_deletions", [&](const Statement& row) {
      contents_.deletions.push_back({row.Text(0), row.Text(1), row.Text(2), row.Text(3)});
    });
  }

  absl::Status ReadQuotas() {
    return ForEach("SELECT quota, namespace FROM quotas ORDER BY namespace", [&](const Statement& row) {
      v1::NamespaceQuota quota;
      if (!reader_.Read({"quotas", "quota", {row.Text(1)}, "", "", ""}, row.Text(0), &quota)) return;
      contents_.quotas.push_back(std::move(quota));
    });
  }

  absl::Status ReadCounters() {
    absl::Status status;
    const auto last = [&](const char* table) {
      const absl::StatusOr<std::string> text =
          database_.Query(absl::StrCat("SELECT seq FROM sqlite_sequence WHERE name = '", table, "'"));
      int64_t id = 0;
      if (!text.ok()) {
        status.Update(text.status());
      } else if (!text->empty() && !absl::SimpleAtoi(*text, &id)) {
        status.Update(absl::DataLossError(absl::StrCat("state database: the counter of ", table,
                                                       " can't be read; restore it from a backup")));
      }
      return id;
    };
    contents_.last_sequence = last("jobs");
    contents_.last_event_id = last("events");
    return status;
  }

  absl::Status ReadJoins() {
    return ForEach("SELECT id, node_id, key, request, expires FROM joins", [&](const Statement& row) {
      contents_.joins.push_back(
          {row.Text(0), row.Text(1), row.Text(2), row.Text(3), FromMicros(row.Integer(4))});
    });
  }

  absl::Status ReadCosts() {
    absl::StatusOr<CostContents> costs = supervisor::ReadCosts(&database_);
    if (!costs.ok()) return costs.status();
    contents_.costs = *std::move(costs);
    return absl::OkStatus();
  }

  absl::Status WriteBack() {
    if (reader_.empty()) return absl::OkStatus();
    if (absl::Status status = database_.Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
    auto roll_back = absl::MakeCleanup([&] { database_.Execute("ROLLBACK").IgnoreError(); });
    if (absl::Status status = reader_.WriteBack(&database_, now_); !status.ok()) return status;
    if (absl::Status status = database_.Execute("COMMIT"); !status.ok()) return status;
    std::move(roll_back).Cancel();
    return absl::OkStatus();
  }

  Database& database_;
  const absl::Time now_;
  StoreContents contents_;
  MessageReader reader_;
  // Into contents_.
  std::map<std::string, JobRecord*> by_uid_;
  // Jobs that an older version wrote last.
  std::set<std::string> legacy_;
};

}  // namespace

absl::StatusOr<StoreContents> ReadStore(Database* database, absl::Time now) {
  return StoreReader(database, now).Read();
}

absl::StatusOr<std::vector<ReplicaRecord>> ReadReplicasOf(const std::string& job_uid, Database* database) {
  absl::StatusOr<Statement> statement =
      Statement::Prepare(database->handle(), absl::StrCat("SELECT ", kReplicaColumns,
                                                          " FROM replicas r JOIN jobs j ON r.job_uid = j.uid "
                                                          "WHERE r.job_uid = ? ORDER BY r.grp, r.rank"));
  if (!statement.ok()) return statement.status();
  statement->Bind(1, job_uid);
  std::vector<ReplicaRecord> replicas;
  MessageReader reader;
  const absl::Status read = statement->ForEachRow([&] {
    replicas.push_back(ReadReplica(*statement, &reader));
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return replicas;
}

v1::Event ReadEvent(int64_t id, const std::string& job_uid, const std::string& name_space,
                    const std::string& job, const std::string& bytes) {
  v1::Event event;
  if (messages::ParseMending(bytes, &event) == messages::Parsed::kUnreadable) {
    event.set_type(v1::EVENT_TYPE_WARNING);
    event.set_reason("Unreadable");
    event.set_message("the supervisor's record of this event can't be read");
  }
  event.set_id(id);
  event.set_job_uid(job_uid);
  event.set_namespace_(name_space);
  event.set_job(job);
  return event;
}

}  // namespace adaptdl::supervisor
