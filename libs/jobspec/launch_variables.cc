#include "libs/jobspec/launch_variables.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/version.h"

namespace adaptdl::jobspec {
namespace {

// Of AdaptDL, whose interface the supervisor speaks over HTTP.
constexpr char kAdaptdlVersion[] = "0.2.11";

constexpr int kFirstMasterPort = 47000;
constexpr int kMasterPorts = 18000;

// "http://:7300/x" with the host of `address`, or of the first of several, where the URL has none.
std::string WithHost(absl::string_view url, absl::string_view address) {
  const size_t host = url.find("://:");
  if (host == absl::string_view::npos) return std::string(url);
  const absl::string_view first = address.substr(0, address.find(','));
  return absl::StrCat(url.substr(0, host + 3), first.substr(0, first.rfind(':')), url.substr(host + 3));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> LaunchVariables(const v1::LaunchReplica& launch,
                                                                 absl::string_view supervisor_address) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"ADAPTDL_JOB_ID", absl::StrCat(launch.namespace_(), "/", launch.job())},
      {"ADAPTDL_JOB_UID", launch.job_uid()},
      {"ADAPTDL_REPLICA_ID", launch.replica_id()},
      {"ADAPTDL_GROUP", absl::StrCat(launch.group())},
      {"ADAPTDL_REPLICA_RANK", absl::StrCat(launch.rank())},
      {"ADAPTDL_NUM_REPLICAS", absl::StrCat(launch.num_replicas())},
      {"ADAPTDL_NUM_NODES", absl::StrCat(launch.num_nodes())},
      {"ADAPTDL_NUM_RESTARTS", absl::StrCat(launch.num_restarts())},
      {"ADAPTDL_SUPERVISOR_ADDRESS", std::string(supervisor_address)}};
  const v1::AdaptdlHttp& http = launch.adaptdl_http();
  // AdaptDL's client refuses a scheduler of another major version than its own.
  variables.emplace_back("ADAPTDL_SCHED_VERSION", launch.has_adaptdl_http() ? kAdaptdlVersion : Version());
  if (!launch.traceparent().empty()) variables.emplace_back("ADAPTDL_TRACEPARENT", launch.traceparent());
  if (!launch.has_adaptdl_http()) return variables;
  variables.emplace_back("ADAPTDL_SUPERVISOR_URL", WithHost(http.supervisor_url(), supervisor_address));
  if (http.master_port() > 0) variables.emplace_back("ADAPTDL_MASTER_PORT", absl::StrCat(http.master_port()));
  return variables;
}

int MasterPort(int64_t group) { return kFirstMasterPort + static_cast<int>(group % kMasterPorts); }

}  // namespace adaptdl::jobspec
