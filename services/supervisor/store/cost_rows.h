// Costs (costs.h) in the tables of SQLite. Not thread-safe: the caller holds the database.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_COST_ROWS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_COST_ROWS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/supervisor/store/costs.h"
#include "services/supervisor/store/sqlite.h"
#include "services/supervisor/store/statements.h"

namespace adaptdl::supervisor {

// Within a transaction of the caller.
absl::Status WriteCosts(const CostChanges& changes, Statements* statements);

absl::StatusOr<CostContents> ReadCosts(Database* database);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_COST_ROWS_H_
