#include "libs/kube/client/errors.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::kube {
namespace {

// Of an answer that no Status explains.
constexpr size_t kMostShown = 200;

absl::StatusCode CodeOf(int64_t http_status, absl::string_view reason) {
  switch (http_status) {
    case 400:
    case 413:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 405:
    case 406:
    case 415:
    case 501:
      return absl::StatusCode::kUnimplemented;
    case 409:
      return reason == "AlreadyExists" ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 500:
    case 502:
      return absl::StatusCode::kInternal;
    case 503:
      return absl::StatusCode::kUnavailable;
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kUnknown;
  }
}

}  // namespace

absl::Status ErrorOfStatus(const Json& status) {
  const int64_t code = IntegerAt(status, {"code"});
  const std::string reason = TextAt(status, {"reason"});
  const std::string message = TextAt(status, {"message"});
  return absl::Status(CodeOf(code, reason),
                      absl::StrCat("the API server says: ", message.empty() ? "nothing" : message, " (", code,
                                   reason.empty() ? "" : " ", reason, ")"));
}

absl::Status ErrorOfAnswer(int http_status, absl::string_view body) {
  const absl::StatusOr<Json> status = ParseJson(body);
  if (status.ok() && TextAt(*status, {"kind"}) == "Status" && IntegerAt(*status, {"code"}) == http_status) {
    return ErrorOfStatus(*status);
  }
  return absl::Status(CodeOf(http_status, ""),
                      absl::StrCat("the API server answers ", http_status, ": ", body.substr(0, kMostShown)));
}

}  // namespace adaptdl::kube
