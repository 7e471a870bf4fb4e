#include "services/supervisor/store/cost_rows.h"

#include <string>

#include "absl/functional/function_ref.h"
#include "services/supervisor/store/stored_messages.h"

namespace adaptdl::supervisor {
namespace {

absl::Status Run(const std::string& sql, Statements* statements, absl::FunctionRef<void(Statement*)> bind) {
  absl::Status status;
  Statement* statement = statements->Find(sql, &status);
  if (statement == nullptr) return status;
  bind(statement);
  return statement->Run();
}

absl::Status PutRow(const CostRow& row, Statements* statements) {
  return Run(
      "INSERT OR REPLACE INTO costs (hour, job_uid, pool, namespace, job, node_micros, cost_nanos, priced) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      statements, [&](Statement* statement) {
        statement->Bind(1, row.hour);
        statement->Bind(2, row.job_uid);
        statement->Bind(3, row.pool);
        statement->Bind(4, row.name_space);
        statement->Bind(5, row.job);
        statement->Bind(6, row.node_micros);
        statement->Bind(7, row.cost_nanos);
        statement->Bind(8, int64_t{row.priced});
      });
}

absl::Status PutNode(const BilledNode& node, Statements* statements) {
  // A price that is not there stays NULL.
  const std::string sql =
      node.price_nanos.has_value()
          ? "INSERT INTO billed_nodes (pool, node_id, accounted_until, price_nanos) VALUES (?, ?, ?, ?)"
          : "INSERT INTO billed_nodes (pool, node_id, accounted_until) VALUES (?, ?, ?)";
  return Run(sql, statements, [&](Statement* statement) {
    statement->Bind(1, node.pool);
    statement->Bind(2, node.node_id);
    statement->Bind(3, ToMicros(node.accounted_until));
    if (node.price_nanos.has_value()) statement->Bind(4, *node.price_nanos);
  });
}

absl::Status ForEach(Database* database, const std::string& sql,
                     absl::FunctionRef<void(const Statement&)> take) {
  absl::StatusOr<Statement> statement = Statement::Prepare(database->handle(), sql);
  if (!statement.ok()) return statement.status();
  return statement->ForEachRow([&] {
    take(*statement);
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status WriteCosts(const CostChanges& changes, Statements* statements) {
  absl::Status status;
  for (const int64_t hour : changes.delete_hours) {
    status.Update(Run("DELETE FROM costs WHERE hour = ?", statements,
                      [hour](Statement* statement) { statement->Bind(1, hour); }));
  }
  for (const std::string& uid : changes.delete_totals) {
    status.Update(Run("DELETE FROM costs WHERE hour = 0 AND job_uid = ?", statements,
                      [&uid](Statement* statement) { statement->Bind(1, uid); }));
  }
  for (const CostRow& row : changes.put_rows) status.Update(PutRow(row, statements));
  if (changes.nodes.has_value()) {
    status.Update(Run("DELETE FROM billed_nodes", statements, [](Statement*) {}));
    for (const BilledNode& node : *changes.nodes) status.Update(PutNode(node, statements));
  }
  if (!changes.currency.empty()) {
    status.Update(Run("INSERT OR REPLACE INTO cost_currency (id, currency) VALUES (0, ?)", statements,
                      [&](Statement* statement) { statement->Bind(1, changes.currency); }));
  }
  return status;
}

absl::StatusOr<CostContents> ReadCosts(Database* database) {
  CostContents contents;
  absl::Status status = ForEach(
      database, "SELECT hour, namespace, job, job_uid, pool, node_micros, cost_nanos, priced FROM costs",
      [&](const Statement& row) {
        contents.rows.push_back({row.Integer(0), row.Text(1), row.Text(2), row.Text(3), row.Text(4),
                                 row.Integer(5), row.Integer(6), row.Integer(7) != 0});
      });
  status.Update(
      ForEach(database,
              "SELECT pool, node_id, accounted_until, price_nanos, price_nanos IS NOT NULL FROM billed_nodes",
              [&](const Statement& row) {
                BilledNode& node = contents.nodes.emplace_back();
                node.pool = row.Text(0);
                node.node_id = row.Text(1);
                node.accounted_until = FromMicros(row.Integer(2));
                if (row.Integer(4) != 0) node.price_nanos = row.Integer(3);
              }));
  status.Update(ForEach(database, "SELECT currency FROM cost_currency",
                        [&](const Statement& row) { contents.currency = row.Text(0); }));
  if (!status.ok()) return status;
  return contents;
}

}  // namespace adaptdl::supervisor
