// The curves of a job as text: a table of what matters most, and all of it as comma-separated values.
//
// Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_HISTORY_TABLE_H_
#define ADAPTDL_CLI_HISTORY_TABLE_H_

#include <string>

#include "adaptdl/v1/history_service.pb.h"
#include "cli/table.h"

namespace adaptdl::cli {

// One row per point: its end, and means over it. "-": unknown.
Table HistoryTable(const v1::GetJobHistoryResponse& history);

// A line of names, and one per point with all its figures in plain units and a column per metric. What is unknown is empty;
// what is no number is "nan", "inf" or "-inf".
std::string HistoryCsv(const v1::GetJobHistoryResponse& history);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_HISTORY_TABLE_H_
