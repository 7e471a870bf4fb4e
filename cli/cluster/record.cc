#include "cli/cluster/record.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"

namespace adaptdl::cli {
namespace {

std::string PathOf(const std::string& folder) { return absl::StrCat(folder, "/cluster.json"); }

}  // namespace

absl::StatusOr<ClusterRecord> ReadClusterRecord(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadWholeFile(PathOf(folder), 1 << 20);
  if (!text.ok()) return text.status();
  try {
    const nlohmann::json json = nlohmann::json::parse(*text);
    ClusterRecord record;
    record.supervisor = json.value("supervisor", "");
    record.allocator = json.value("allocator", "");
    record.autoscaler = json.value("autoscaler", "");
    record.workers = json.value("workers", 0);
    record.max_workers = json.value("maxWorkers", 0);
    record.cpus_per_worker = json.value("cpusPerWorker", 1);
    record.ca_file = json.value("caFile", "");
    record.token_file = json.value("tokenFile", "");
    record.listen_metrics = json.value("listenMetrics", false);
    return record;
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat(PathOf(folder), " can't be read: ", error.what(), "; move it away to start afresh"));
  }
}

absl::Status WriteClusterRecord(const std::string& folder, const ClusterRecord& record) {
  const nlohmann::ordered_json json = {
      {"supervisor", record.supervisor},        {"allocator", record.allocator},
      {"autoscaler", record.autoscaler},        {"workers", record.workers},
      {"maxWorkers", record.max_workers},       {"cpusPerWorker", record.cpus_per_worker},
      {"listenMetrics", record.listen_metrics}, {"caFile", record.ca_file},
      {"tokenFile", record.token_file},
  };
  return WriteFileAtomically(PathOf(folder), json.dump(2) + "\n");
}

}  // namespace adaptdl::cli
