// What can be concluded from what a cluster says of itself: is all well, and what helps where it is not. Plain functions
// on values, thread-safe.

#ifndef ADAPTDL_CLI_SUPPORT_CHECKUP_H_
#define ADAPTDL_CLI_SUPPORT_CHECKUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/admin_service.pb.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_pool_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "cli/table.h"

namespace adaptdl::cli {

enum class Verdict { kOk, kWarning, kFailure };

// How one thing is.
struct Check {
  Verdict verdict = Verdict::kOk;
  // What was looked at: "nodes".
  std::string subject = {};
  // How it is.
  std::string text = {};
  // What helps. Empty: nothing need be done.
  std::string remedy = {};
};

// One address of the supervisor, as it was tried from here.
struct AddressState {
  std::string address;
  // Why no connection comes about. OK: one does.
  absl::Status connection = absl::OkStatus();
  // Its health, or why it does not say.
  absl::StatusOr<std::string> health = std::string();
};

struct DiskState {
  std::string folder;
  int64_t free_bytes = 0;
  int64_t all_bytes = 0;
};

// By whose clock: this machine's. Parts that could not be had say why.
struct ClusterState {
  absl::Time now;
  std::string version;
  std::vector<AddressState> addresses;
  absl::StatusOr<v1::WhoAmIResponse> identity;
  absl::StatusOr<v1::ListNodesResponse> nodes;
  absl::StatusOr<v1::GetNodePoolsResponse> pools;
  // That have not finished, of the namespaces that the caller sees.
  absl::StatusOr<v1::ListJobsResponse> jobs;
  // Services of the local cluster that are not well: "allocator is DOWN".
  std::vector<std::string> sick_services;
  // Of the local cluster. Absent: there is none.
  std::optional<DiskState> disk;
};

// Supervisor, identity, clocks, versions, nodes, what they say is wrong with GPUs and drivers, decisions, pools, disk: in
// this order, as far as the first ones leave something to look at.
std::vector<Check> CheckUp(const ClusterState& state);

Table CheckTable(const std::vector<Check>& checks);
// "What to do" below it. Empty: nothing.
std::string Remedies(const std::vector<Check>& checks);

// The worst of them.
Verdict WorstOf(const std::vector<Check>& checks);
std::string VerdictText(Verdict verdict);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_SUPPORT_CHECKUP_H_
