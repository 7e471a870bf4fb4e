// Reads what a database holds, as a supervisor does at its start. A row that can't be read does not keep the
// others from being served: a job is set aside, a replica counts as lost, a node registers again. Not
// thread-safe, as the database.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_STORE_READER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_STORE_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/supervisor/store/job_store.h"
#include "services/supervisor/store/sqlite.h"
#include "services/supervisor/store/stored_messages.h"

namespace adaptdl::supervisor {

// What StoreContents says. Writes back what was mended on the way, so that the next reader finds it good.
absl::StatusOr<StoreContents> ReadStore(Database* database, absl::Time now);

// Replicas of all groups of a job, in the order in which they were launched.
absl::StatusOr<std::vector<ReplicaRecord>> ReadReplicasOf(const std::string& job_uid, Database* database);

// The event of a row with these columns; one that says so if it can't be read.
v1::Event ReadEvent(int64_t id, const std::string& job_uid, const std::string& name_space,
                    const std::string& job, const std::string& bytes);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_STORE_READER_H_
