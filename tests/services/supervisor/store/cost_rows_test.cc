// Costs in the stores.

#include "services/supervisor/store/cost_rows.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "services/supervisor/store/memory_job_store.h"
#include "services/supervisor/store/sqlite_job_store.h"

namespace adaptdl::supervisor {
namespace {

const absl::Time kRowTime = absl::FromUnixSeconds(1'000'000'000);

CostRow RowOf(int64_t hour, const std::string& uid, int64_t nanos) {
  const bool idle = uid.empty();
  return {hour, idle ? "" : "team", idle ? "" : "job", uid, "spot", 5, nanos, true};
}

void ReplacesAndRemoves(JobStore* store) {
  WriteBatch batch;
  batch.costs.put_rows = {RowOf(0, "uid-1", 1), RowOf(7, "uid-1", 2), RowOf(7, "", 3), RowOf(8, "uid-1", 4)};
  batch.costs.nodes = {{"spot", "n1", 450'000'000, kRowTime}, {"spot", "n2", std::nullopt, kRowTime}};
  batch.costs.currency = "EUR";
  ASSERT_TRUE(store->Commit(batch).ok());
  CostContents costs = store->Load(kRowTime)->costs;
  EXPECT_EQ(costs.rows.size(), 4u);
  EXPECT_EQ(costs.nodes, *batch.costs.nodes);
  EXPECT_EQ(costs.currency, "EUR");
  batch = {};
  batch.costs.put_rows = {RowOf(8, "uid-1", 6)};
  batch.costs.delete_hours = {7};
  batch.costs.delete_totals = {"uid-1"};
  ASSERT_TRUE(store->Commit(batch).ok());
  costs = store->Load(kRowTime)->costs;
  ASSERT_EQ(costs.rows.size(), 1u);
  EXPECT_EQ(costs.rows[0], RowOf(8, "uid-1", 6));
  EXPECT_EQ(costs.nodes.size(), 2u) << "they were not told of";
  EXPECT_EQ(costs.currency, "EUR");
}

TEST(CostRowsTest, AreReplacedAndRemovedInMemory) {
  MemoryJobStore store;
  ReplacesAndRemoves(&store);
}

TEST(CostRowsTest, AreReplacedAndRemovedOnDisk) {
  SqliteJobStoreOptions options;
  options.folder = absl::StrCat(testing::TempDir(), "/costs-", RandomHex(8));
  auto store = SqliteJobStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ReplacesAndRemoves(store->get());
  *store = nullptr;
  store = SqliteJobStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Load(kRowTime)->costs.rows.size(), 1u) << "another process reads it";
  *store = nullptr;
  std::filesystem::remove_all(options.folder);
}

}  // namespace
}  // namespace adaptdl::supervisor
