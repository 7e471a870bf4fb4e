#include "services/supervisor/store/migrations.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {

const std::vector<std::string>& SchemaSteps() {
  static const auto* steps = new std::vector<std::string>{
      R"sql(
      CREATE TABLE jobs (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of submission
        uid TEXT NOT NULL UNIQUE,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        phase INTEGER NOT NULL,
        grp INTEGER NOT NULL,
        spec BLOB NOT NULL,        -- adaptdl.v1.Job without status
        status BLOB NOT NULL,      -- adaptdl.v1.JobStatus without replicas
        running_since INTEGER,     -- Unix time in microseconds
        unschedulable INTEGER NOT NULL DEFAULT 0,
        UNIQUE (namespace, name)
      );
      CREATE TABLE tokens (
        job_uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
        grp INTEGER NOT NULL,
        token TEXT NOT NULL,
        PRIMARY KEY (job_uid, grp)
      ) WITHOUT ROWID;
      CREATE TABLE replicas (
        job_uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
        grp INTEGER NOT NULL,
        rank INTEGER NOT NULL,
        replica BLOB NOT NULL,     -- adaptdl.v1.Replica
        stop_requested INTEGER NOT NULL,
        node_leaving INTEGER NOT NULL,
        loss INTEGER NOT NULL,
        address TEXT NOT NULL,
        PRIMARY KEY (job_uid, grp, rank)
      ) WITHOUT ROWID;
      CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        job_uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        event BLOB NOT NULL        -- adaptdl.v1.Event
      );
      CREATE INDEX events_by_job ON events (job_uid);
      CREATE INDEX events_by_name ON events (namespace, job, id);
      CREATE TABLE nodes (
        node_id TEXT PRIMARY KEY,
        session_id INTEGER NOT NULL,
        node BLOB NOT NULL         -- adaptdl.v1.Node
      ) WITHOUT ROWID;
      CREATE TABLE requests (
        request_id TEXT PRIMARY KEY,
        method TEXT NOT NULL,
        time INTEGER NOT NULL,     -- Unix time in microseconds
        response BLOB NOT NULL
      ) WITHOUT ROWID;
      CREATE INDEX requests_by_time ON requests (time);
      CREATE TABLE deletions (
        node_id TEXT NOT NULL,
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        job_uid TEXT NOT NULL,
        PRIMARY KEY (node_id, job_uid)
      ) WITHOUT ROWID;
      )sql",
      // Unix time in microseconds. 0: the job is not being re-scaled.
      "ALTER TABLE jobs ADD COLUMN rescaling_since INTEGER NOT NULL DEFAULT 0",
      R"sql(
      CREATE TABLE quotas (
        namespace TEXT PRIMARY KEY,
        quota BLOB NOT NULL        -- adaptdl.v1.NamespaceQuota
      ) WITHOUT ROWID;
      )sql",
      // Changes in place. The key of a replica (grp, rank) is what it was launched as; current_grp and
      // current_rank are what it is today. Before this version both were the same.
      R"sql(
      ALTER TABLE replicas ADD COLUMN current_grp INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE replicas ADD COLUMN current_rank INTEGER NOT NULL DEFAULT 0;
      UPDATE replicas SET current_grp = grp, current_rank = rank;
      ALTER TABLE replicas ADD COLUMN live INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE replicas ADD COLUMN in_place INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE replicas ADD COLUMN judged INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE jobs ADD COLUMN rescale_note TEXT NOT NULL DEFAULT '';
      ALTER TABLE jobs ADD COLUMN newcomer_failures INTEGER NOT NULL DEFAULT 0;
      CREATE TABLE plans (
        job_uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
        grp INTEGER NOT NULL,
        rank INTEGER NOT NULL,
        replica_id TEXT NOT NULL,  -- empty: not launched yet
        node_id TEXT NOT NULL,
        firm INTEGER NOT NULL,     -- this and what follows is the same for all ranks of a plan
        offered INTEGER NOT NULL,
        since INTEGER NOT NULL,    -- Unix time in microseconds
        ready_after INTEGER NOT NULL,  -- microseconds
        PRIMARY KEY (job_uid, grp, rank)
      ) WITHOUT ROWID;
      )sql",
      // The columns of the key come first: SQLite 3.40's check of a table without row ids otherwise takes the
      // others for NULL as soon as there is a row, and the database for damaged.
      R"sql(
      CREATE TABLE file_deletions (
        node_id TEXT NOT NULL,
        job_uid TEXT NOT NULL,
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        PRIMARY KEY (node_id, job_uid)
      ) WITHOUT ROWID;
      INSERT INTO file_deletions (node_id, job_uid, namespace, job)
        SELECT node_id, job_uid, namespace, job FROM deletions;
      DROP TABLE deletions;
      )sql",
      // Port that a replica of rank 0 listens on. 0: none was given to it.
      "ALTER TABLE replicas ADD COLUMN master_port INTEGER NOT NULL DEFAULT 0",
      // Whether the group before the plan cannot go on.
      "ALTER TABLE plans ADD COLUMN broken INTEGER NOT NULL DEFAULT 0",
      // Request ids count within a caller and a namespace. What was answered before is known by its id alone:
      // caller, namespace and content stay empty.
      R"sql(
      CREATE TABLE answers (
        caller TEXT NOT NULL,
        namespace TEXT NOT NULL,
        request_id TEXT NOT NULL,
        method TEXT NOT NULL,
        content BLOB NOT NULL,     -- SHA-256 of the request
        time INTEGER NOT NULL,     -- Unix time in microseconds
        response BLOB NOT NULL,
        PRIMARY KEY (caller, namespace, request_id)
      ) WITHOUT ROWID;
      CREATE INDEX answers_by_time ON answers (time);
      INSERT INTO answers (caller, namespace, request_id, method, content, time, response)
        SELECT '', '', request_id, method, x'', time, response FROM requests;
      DROP TABLE requests;
      )sql",
      // Events of a whole namespace, in their order, without a look at those of all others.
      "CREATE INDEX events_by_namespace ON events (namespace, id)",
      // Messages that could not be read, as they were found. Their rows stay where they are.
      R"sql(
      CREATE TABLE unreadable (
        tbl TEXT NOT NULL,
        col TEXT NOT NULL,
        key TEXT NOT NULL,         -- values of the row's key, separated by "/"
        time INTEGER NOT NULL,     -- Unix time in microseconds
        bytes BLOB NOT NULL,
        PRIMARY KEY (tbl, col, key)
      ) WITHOUT ROWID;
      )sql",
      // adaptdl.store.v1.StoredJob. NULL: not written since; then what counts is "status", the columns that
      // follow it, and the table plans (legacy_job.h). Else those say nothing.
      "ALTER TABLE jobs ADD COLUMN state BLOB",
      // What nodes have cost (costs.h).
      R"sql(
      CREATE TABLE costs (
        hour INTEGER NOT NULL,     -- since the Unix epoch; 0: earlier ones, together
        job_uid TEXT NOT NULL,     -- empty: what nobody used
        pool TEXT NOT NULL,
        namespace TEXT NOT NULL,
        job TEXT NOT NULL,
        node_micros INTEGER NOT NULL,
        cost_nanos INTEGER NOT NULL,
        priced INTEGER NOT NULL,
        PRIMARY KEY (hour, job_uid, pool)
      ) WITHOUT ROWID;
      CREATE TABLE billed_nodes (
        pool TEXT NOT NULL,
        node_id TEXT NOT NULL,
        price_nanos INTEGER,       -- per hour; NULL: it has no price
        accounted_until INTEGER NOT NULL,  -- Unix time in microseconds
        PRIMARY KEY (pool, node_id)
      ) WITHOUT ROWID;
      CREATE TABLE cost_currency (
        id INTEGER PRIMARY KEY CHECK (id = 0),
        currency TEXT NOT NULL
      );
      )sql",
      // What lets machines in as nodes, and whom it has let in (joins.h).
      R"sql(
      CREATE TABLE joins (
        id TEXT PRIMARY KEY,       -- "token/" and the SHA-256 of the secret, or "instance/" and an id
        node_id TEXT NOT NULL,
        key TEXT NOT NULL,         -- SHA-256 of the public key that was let in; empty: none yet
        request TEXT NOT NULL,
        expires INTEGER NOT NULL   -- Unix time in microseconds
      ) WITHOUT ROWID;
      )sql",
  };
  return *steps;
}

absl::Status Migrate(Database* database, const std::vector<std::string>& steps) {
  const absl::StatusOr<std::string> text = database->Query("PRAGMA user_version");
  if (!text.ok()) return text.status();
  int version = 0;
  if (!absl::SimpleAtoi(*text, &version)) return absl::DataLossError("state database: no schema version");
  const int newest = static_cast<int>(steps.size());
  if (version > newest) {
    return absl::FailedPreconditionError(absl::StrCat("state database: its schema version is ", version,
                                                      ", this program knows up to ", newest,
                                                      "; run the newer program again"));
  }
  for (; version < newest; ++version) {
    absl::Status status = database->Execute("BEGIN IMMEDIATE");
    if (status.ok()) status = database->Execute(steps[version]);
    if (status.ok()) status = database->Execute(absl::StrCat("PRAGMA user_version = ", version + 1));
    if (status.ok()) status = database->Execute("COMMIT");
    if (!status.ok()) {
      database->Execute("ROLLBACK").IgnoreError();
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::supervisor
