#include "libs/gcp/errors.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "libs/base/utf8.h"
#include "nlohmann/json.hpp"

namespace adaptdl::gcp {
namespace {

using nlohmann::json;

constexpr char kThrottled[] = "adaptdl/gcp-throttled";
constexpr size_t kMaxMessageBytes = 1000;
constexpr size_t kMaxReasonBytes = 100;

constexpr absl::string_view kCapacity[] = {
    "IP_SPACE_EXHAUSTED",
    "LIMIT_EXCEEDED",
    "QUOTA_EXCEEDED",
    "REGION_RESOURCE_POOL_EXHAUSTED",
    "RESOURCE_POOL_EXHAUSTED",
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "limitExceeded",
    "quotaExceeded",
    "stockout",
};
constexpr absl::string_view kThrottling[] = {"RATE_LIMIT_EXCEEDED", "rateLimitExceeded",
                                             "userRateLimitExceeded"};
constexpr absl::string_view kState[] = {"RESOURCE_NOT_READY", "conditionNotMet", "resourceNotReady",
                                        "resourceInUseByAnotherResource"};

bool IsAmong(absl::string_view reason, absl::Span<const absl::string_view> reasons) {
  return absl::c_linear_search(reasons, reason);
}

absl::StatusCode CodeOf(int http_status, absl::string_view reason) {
  if (IsAmong(reason, kCapacity)) return absl::StatusCode::kResourceExhausted;
  if (IsAmong(reason, kThrottling) || http_status == 429) return absl::StatusCode::kUnavailable;
  if (IsAmong(reason, kState)) return absl::StatusCode::kFailedPrecondition;
  switch (http_status) {
    case 400:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return absl::StatusCode::kAlreadyExists;
    case 412:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return http_status >= 500 ? absl::StatusCode::kUnavailable : absl::StatusCode::kUnknown;
  }
}

std::string TextOf(const json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

std::string ReasonOf(const json& error) {
  const auto errors = error.find("errors");
  if (errors == error.end() || !errors->is_array() || errors->empty()) return TextOf(error, "status");
  const std::string reason = TextOf(errors->front(), "reason");
  return reason.empty() ? TextOf(error, "status") : reason;
}

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message) {
  return {code,
          ToUtf8(absl::StrCat(reason.substr(0, kMaxReasonBytes), ": ", message.substr(0, kMaxMessageBytes)))};
}

}  // namespace

absl::Status ErrorOfCode(absl::string_view code, absl::string_view message) {
  return MakeError(CodeOf(0, code), code, message);
}

absl::Status ErrorOfAnswer(const HttpResponse& response) {
  const json answer = json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const auto error = answer.is_object() ? answer.find("error") : answer.end();
  absl::Status status;
  std::string reason;
  if (answer.is_object() && error != answer.end() && error->is_object()) {
    reason = ReasonOf(*error);
    status = MakeError(CodeOf(response.status, reason), reason.empty() ? "error" : reason,
                       TextOf(*error, "message"));
  } else {
    // From a proxy, say.
    status = absl::Status(CodeOf(response.status, ""),
                          absl::StrCat("HTTP status ", response.status,
                                       " without an error: ", ToUtf8(response.body.substr(0, 200))));
  }
  if (IsAmong(reason, kThrottling) || response.status == 429) status.SetPayload(kThrottled, absl::Cord("1"));
  return status;
}

bool IsThrottling(const absl::Status& status) { return status.GetPayload(kThrottled).has_value(); }

bool LeavesOpen(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status) ||
         absl::IsInternal(status) || absl::IsUnknown(status);
}

}  // namespace adaptdl::gcp
