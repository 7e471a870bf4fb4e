#include "services/autoscaler/providers/gcp/instance_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "libs/gcp/errors.h"

namespace adaptdl::autoscaler {
namespace {

using gcp::ListAt;
using gcp::ObjectAt;
using gcp::TextAt;
using nlohmann::json;

constexpr char kPageSize[] = "500";
constexpr int kMostPages = 200;
constexpr size_t kLongestFailure = 300;

// Of {"errors": [{"code": ..., "message": ...}]}, the way in which operations and machines say it. That there is no capacity
// before all else.
absl::Status FirstError(const json& holder) {
  absl::Status first;
  for (const json& error : ListAt(ObjectAt(holder, "error"), "errors")) {
    const absl::Status status = gcp::ErrorOfCode(TextAt(error, "code"), TextAt(error, "message"));
    if (absl::IsResourceExhausted(status)) return status;
    if (first.ok()) first = status;
  }
  return first;
}

std::string LastPart(const std::string& url) { return url.substr(url.rfind('/') + 1); }

ManagedInstance ReadInstance(const json& entry) {
  ManagedInstance instance;
  instance.name = LastPart(TextAt(entry, "instance"));
  instance.id = gcp::NumberAt(entry, "id");
  if (instance.id == "0") instance.id.clear();
  instance.action = TextAt(entry, "currentAction");
  instance.status = TextAt(entry, "instanceStatus");
  const json as_operation = {{"error", ObjectAt(ObjectAt(entry, "lastAttempt"), "errors")}};
  if (const absl::Status failure = FirstError(as_operation); !failure.ok())
    instance.failure = ToUtf8(failure.message(), kLongestFailure);
  return instance;
}

}  // namespace

InstanceGroup::InstanceGroup(const GcpPoolOptions& options, gcp::RestApi* api)
    : group_name_(options.instance_group),
      zone_path_(absl::StrCat("/compute/v1/projects/", options.project, "/zones/", options.zone)),
      group_path_(absl::StrCat(zone_path_, "/instanceGroupManagers/", options.instance_group)),
      zone_(options.zone),
      api_(*api) {}

absl::StatusOr<json> InstanceGroup::CallGroup(const gcp::RestCall& call) const {
  absl::StatusOr<json> answer = api_.Call(call);
  if (!absl::IsNotFound(answer.status())) return answer;
  return absl::NotFoundError(absl::StrCat("gcp.instanceGroup \"", group_name_, "\" is not in zone ", zone_,
                                          " of that project: make it, or name one that is (",
                                          answer.status().message(), ")"));
}

absl::StatusOr<std::vector<ManagedInstance>> InstanceGroup::List() const {
  std::vector<ManagedInstance> instances;
  std::string page;
  for (int k = 0; k < kMostPages; ++k) {
    gcp::RestCall call = {.method = "POST",
                          .path = group_path_ + "/listManagedInstances",
                          .query = {{"maxResults", kPageSize}},
                          .may_repeat = true};
    if (!page.empty()) call.query.emplace_back("pageToken", page);
    const absl::StatusOr<json> answer = CallGroup(call);
    if (!answer.ok()) return answer.status();
    for (const json& entry : ListAt(*answer, "managedInstances")) {
      ManagedInstance instance = ReadInstance(entry);
      if (!instance.name.empty()) instances.push_back(std::move(instance));
    }
    page = TextAt(*answer, "nextPageToken");
    if (page.empty()) return instances;
  }
  return absl::OutOfRangeError(absl::StrCat("listManagedInstances: more than ", kMostPages, " pages"));
}

absl::StatusOr<std::string> InstanceGroup::Create(const std::vector<std::string>& names,
                                                  const std::string& request_id) const {
  json instances = json::array();
  for (const std::string& name : names) instances.push_back({{"name", name}});
  const absl::StatusOr<json> answer = CallGroup({.method = "POST",
                                                 .path = group_path_ + "/createInstances",
                                                 .query = {{"requestId", request_id}},
                                                 .body = {{"instances", std::move(instances)}},
                                                 .may_repeat = true});
  if (!answer.ok()) return answer.status();
  if (const absl::Status failure = FirstError(*answer); !failure.ok()) return failure;
  return TextAt(*answer, "name");
}

absl::Status InstanceGroup::Delete(const std::string& name) const {
  const std::string instance = absl::StrCat("zones/", zone_, "/instances/", name);
  const absl::StatusOr<json> answer =
      CallGroup({.method = "POST",
                 .path = group_path_ + "/deleteInstances",
                 // One that is unknown, or ends already, is passed over.
                 .body = {{"instances", json::array({instance})}, {"skipInstancesOnValidationError", true}},
                 .may_repeat = true});
  return answer.ok() ? FirstError(*answer) : answer.status();
}

absl::StatusOr<std::string> InstanceGroup::FailureOf(const std::string& operation) const {
  const absl::StatusOr<json> answer =
      api_.Call({.path = absl::StrCat(zone_path_, "/operations/", operation), .may_repeat = true});
  if (absl::IsNotFound(answer.status())) return "";
  if (!answer.ok()) return answer.status();
  if (TextAt(*answer, "status") != "DONE") return "";
  return ToUtf8(FirstError(*answer).message(), kLongestFailure);
}

absl::StatusOr<InstanceDetails> InstanceGroup::Describe(const std::string& name) const {
  const absl::StatusOr<json> answer =
      api_.Call({.path = absl::StrCat(zone_path_, "/instances/", name), .may_repeat = true});
  if (!answer.ok()) return answer.status();
  InstanceDetails details;
  const json& interfaces = ListAt(*answer, "networkInterfaces");
  if (!interfaces.empty()) details.address = TextAt(interfaces.front(), "networkIP");
  absl::Time created;
  if (absl::ParseTime(absl::RFC3339_full, TextAt(*answer, "creationTimestamp"), &created, nullptr))
    details.create_time = created;
  return details;
}

}  // namespace adaptdl::autoscaler
