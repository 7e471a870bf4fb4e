// Node pools as text for people. Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_POOL_TABLE_H_
#define ADAPTDL_CLI_POOL_TABLE_H_

#include <string>
#include <vector>

#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node_pool_service.pb.h"
#include "cli/table.h"

namespace adaptdl::cli {

Table PoolTable(const v1::GetNodePoolsResponse& pools);
// What keeps pools from what they should be, a line each. Empty: nothing does.
std::string PoolProblems(const v1::GetNodePoolsResponse& pools);
Table PoolEventTable(const v1::GetNodePoolsResponse& pools);

// Pools that could have nodes for the job, and get none: the condition, by pool.
struct ShortPool {
  std::string pool;
  v1::PoolCondition condition;
};
// None if the job does not wait for nodes.
std::vector<ShortPool> ShortPoolsOf(const v1::Job& job, const v1::GetNodePoolsResponse& pools);
// Whether the job waits for nodes.
bool WaitsForNodes(const v1::Job& job);
// "pool a: no capacity ...; next attempt Nov-21 01:02:03 UTC".
std::string Describe(const ShortPool& pool);

// "0.45 USD"; of much, whole hundredths.
std::string MoneyText(double amount, const std::string& currency);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_POOL_TABLE_H_
