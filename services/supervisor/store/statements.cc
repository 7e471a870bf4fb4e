#include "services/supervisor/store/statements.h"

#include <string>
#include <utility>

namespace adaptdl::supervisor {

Statement* Statements::Find(const std::string& sql, absl::Status* status) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    absl::StatusOr<Statement> statement = Statement::Prepare(database_, sql);
    if (!statement.ok()) {
      *status = statement.status();
      return nullptr;
    }
    it = statements_.emplace(sql, *std::move(statement)).first;
  }
  it->second.Reset();
  return &it->second;
}

}  // namespace adaptdl::supervisor
