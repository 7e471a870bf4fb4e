// The prepared statements of a database: each is prepared once. Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_STATEMENTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_STATEMENTS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {

class Statements {
 public:
  // `database` outlives them.
  explicit Statements(sqlite3* database) : database_(database) {}

  // The statement of `sql`, reset; null and an error in `status` if it can't be prepared.
  Statement* Find(const std::string& sql, absl::Status* status);

  sqlite3* database() const { return database_; }

 private:
  sqlite3* const database_;
  std::map<std::string, Statement> statements_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_STATEMENTS_H_
