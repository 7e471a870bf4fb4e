// What nodes have cost, summed up and as text. Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_COST_TABLE_H_
#define ADAPTDL_CLI_COST_TABLE_H_

#include <string>
#include <vector>

#include "adaptdl/v1/node_pool_service.pb.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {

enum class CostsBy { kJob, kNamespace, kPool };

struct CostRow {
  // Of the job ("namespace/name"), the namespace or the pool.
  std::string name;
  double node_hours = 0;
  double cost = 0;
};

struct CostSummary {
  CostsBy by = CostsBy::kJob;
  // The dearest first.
  std::vector<CostRow> rows;
  // What nobody used, by pool. Empty where that is not told.
  std::vector<CostRow> idle;
  CostRow total;
  std::string currency;
};

CostSummary Summarize(const v1::GetCostsResponse& costs, CostsBy by);

// With lines for what was idle and the total.
Table CostTable(const CostSummary& summary);
Json CostDocument(const CostSummary& summary, const v1::GetCostsResponse& costs);
// RFC 4180, with a header; without the total, which whoever sums up would count twice.
std::string CostCsv(const CostSummary& summary);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COST_TABLE_H_
