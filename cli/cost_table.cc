#include "cli/cost_table.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "cli/format.h"
#include "cli/pool_table.h"

namespace adaptdl::cli {
namespace {

constexpr char kIdle[] = "(idle)";

absl::string_view NameOf(CostsBy by) {
  switch (by) {
    case CostsBy::kJob:
      return "job";
    case CostsBy::kNamespace:
      return "namespace";
    case CostsBy::kPool:
      return "pool";
  }
  return "";
}

std::string GroupOf(const v1::CostLine& line, CostsBy by) {
  switch (by) {
    case CostsBy::kJob:
      return absl::StrCat(line.namespace_(), "/", line.job());
    case CostsBy::kNamespace:
      return line.namespace_();
    case CostsBy::kPool:
      return line.pool();
  }
  return "";
}

void AddTo(const v1::CostLine& line, CostRow* row) {
  row->node_hours += line.node_hours();
  row->cost += line.cost();
}

std::vector<CostRow> DearestFirst(const std::map<std::string, CostRow>& sums) {
  std::vector<CostRow> rows;
  for (const auto& [name, sum] : sums) rows.push_back({name, sum.node_hours, sum.cost});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const CostRow& a, const CostRow& b) { return a.cost > b.cost; });
  return rows;
}

CostRow SumOf(const std::vector<CostRow>& rows, const std::string& name) {
  CostRow sum{name, 0, 0};
  for (const CostRow& row : rows) {
    sum.node_hours += row.node_hours;
    sum.cost += row.cost;
  }
  return sum;
}

Json RowDocument(const CostRow& row) {
  Json document;
  document["nodeHours"] = row.node_hours;
  document["cost"] = row.cost;
  return document;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

CostSummary Summarize(const v1::GetCostsResponse& costs, CostsBy by) {
  std::map<std::string, CostRow> used;
  std::map<std::string, CostRow> idle;
  CostSummary summary;
  summary.by = by;
  summary.currency = costs.currency();
  summary.total.name = "total";
  for (const v1::CostLine& line : costs.lines()) {
    const bool nobody = line.namespace_().empty() && line.job().empty();
    AddTo(line, nobody ? &idle[line.pool()] : &used[GroupOf(line, by)]);
    AddTo(line, &summary.total);
  }
  summary.rows = DearestFirst(used);
  summary.idle = DearestFirst(idle);
  return summary;
}

Table CostTable(const CostSummary& summary) {
  const std::string money = absl::StrCat("COST (", Printable(summary.currency), ")");
  Table table{{absl::AsciiStrToUpper(NameOf(summary.by)), "NODE HOURS", money}, {}};
  const auto add = [&](const std::string& name, const CostRow& row, Colour colour) {
    table.rows.push_back(
        {Cell(Printable(name), colour), absl::StrFormat("%.2f", row.node_hours), MoneyText(row.cost, "")});
  };
  for (const CostRow& row : summary.rows) add(row.name, row, Colour::kNone);
  if (summary.by == CostsBy::kPool) {
    for (const CostRow& row : summary.idle) add(absl::StrCat(row.name, " ", kIdle), row, Colour::kYellow);
  } else if (!summary.idle.empty()) {
    add(kIdle, SumOf(summary.idle, kIdle), Colour::kYellow);
  }
  add("total", summary.total, Colour::kBold);
  return table;
}

Json CostDocument(const CostSummary& summary, const v1::GetCostsResponse& costs) {
  Json document;
  document["by"] = std::string(NameOf(summary.by));
  document["currency"] = summary.currency;
  document["startTime"] = ToJson(costs)["startTime"];
  document["rows"] = Json::array();
  for (const CostRow& row : summary.rows) {
    Json entry;
    entry[std::string(NameOf(summary.by))] = row.name;
    entry.update(RowDocument(row));
    document["rows"].push_back(std::move(entry));
  }
  document["idle"] = Json::array();
  for (const CostRow& row : summary.idle) {
    Json entry;
    entry["pool"] = row.name;
    entry.update(RowDocument(row));
    document["idle"].push_back(std::move(entry));
  }
  document["total"] = RowDocument(summary.total);
  return document;
}

std::string CostCsv(const CostSummary& summary) {
  std::string out = absl::StrCat(NameOf(summary.by), ",idle_pool,node_hours,cost,currency\r\n");
  const auto add = [&](const std::string& name, const std::string& pool, const CostRow& row) {
    absl::StrAppend(&out, CsvField(name), ",", CsvField(pool), ",",
                    absl::StrFormat("%.6f,%.9f,", row.node_hours, row.cost), CsvField(summary.currency),
                    "\r\n");
  };
  for (const CostRow& row : summary.rows) add(row.name, "", row);
  for (const CostRow& row : summary.idle) add("", row.name, row);
  return out;
}

}  // namespace adaptdl::cli
