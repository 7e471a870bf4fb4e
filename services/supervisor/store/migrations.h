// The database's schema, as a list of steps: version n is what the first n steps make. A step that was
// released is never changed; a new need is a new step. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_MIGRATIONS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_MIGRATIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {

// SQL of each step.
const std::vector<std::string>& SchemaSteps();

// Brings `database` to the newest version, each step in a transaction of its own. FAILED_PRECONDITION: it is
// newer than this program.
absl::Status Migrate(Database* database, const std::vector<std::string>& steps = SchemaSteps());

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_MIGRATIONS_H_
