#include "libs/aws/errors.h"

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/xml.h"
#include "libs/base/utf8.h"

namespace adaptdl::aws {
namespace {

constexpr char kCode[] = "adaptdl/aws-code";
constexpr size_t kMaxMessageBytes = 1000;
// Signatures are good for five minutes.
constexpr absl::Duration kMaxSkew = absl::Minutes(4);

constexpr absl::string_view kCapacity[] = {
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientVolumeCapacity",
    "InstanceLimitExceeded",
    "MaxSpotFleetRequestCountExceeded",
    "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow",
    "UnfulfillableCapacity",
    "VcpuLimitExceeded",
    "VolumeLimitExceeded",
};
constexpr absl::string_view kThrottling[] = {
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
};
constexpr absl::string_view kUnavailable[] = {
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "ResourceContention",
    "ScalingActivityInProgress",
    "ServerInternal",
    "ServiceUnavailable",
    "Unavailable",
};
constexpr absl::string_view kCredentials[] = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidIdentityToken",
    "InvalidToken",
    "MissingAuthenticationToken",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
};
constexpr absl::string_view kPermission[] = {
    "AccessDenied",  "AccessDeniedException", "Blocked",
    "OptInRequired", "PendingVerification",   "UnauthorizedOperation",
};
constexpr absl::string_view kState[] = {
    "IncorrectInstanceState",
    "IncorrectState",
    "OperationNotPermitted",
    "ResourceInUse",
};

absl::StatusCode StatusCodeOf(absl::string_view code) {
  const auto is_among = [code](const auto& codes) { return absl::c_linear_search(codes, code); };
  if (is_among(kCapacity)) return absl::StatusCode::kResourceExhausted;
  if (is_among(kThrottling) || is_among(kUnavailable)) return absl::StatusCode::kUnavailable;
  if (is_among(kCredentials)) return absl::StatusCode::kUnauthenticated;
  if (is_among(kPermission)) return absl::StatusCode::kPermissionDenied;
  if (is_among(kState)) return absl::StatusCode::kFailedPrecondition;
  if (absl::StrContains(code, "NotFound")) return absl::StatusCode::kNotFound;
  if (absl::StrContains(code, "AlreadyExists") || code == "IdempotentParameterMismatch")
    return absl::StatusCode::kAlreadyExists;
  if (absl::StartsWith(code, "Invalid") || absl::StartsWith(code, "Malformed") ||
      absl::StartsWith(code, "Missing") || absl::StartsWith(code, "Unsupported") ||
      absl::StartsWith(code, "Unknown") || code == "ValidationError") {
    return absl::StatusCode::kInvalidArgument;
  }
  return absl::StatusCode::kUnknown;
}

// An answer without a code of its own: from a proxy, say.
absl::Status ErrorOfHttpStatus(const HttpResponse& response) {
  const std::string text = absl::StrCat("HTTP status ", response.status,
                                        " without an error code: ", ToUtf8(response.body.substr(0, 200)));
  if (response.status >= 500 || response.status == 429) return absl::UnavailableError(text);
  if (response.status == 401) return absl::UnauthenticatedError(text);
  if (response.status == 403) return absl::PermissionDeniedError(text);
  return absl::UnknownError(text);
}

// How far this machine's clock is before that of the service; zero: unknown, or near enough.
absl::Duration SkewOf(const HttpResponse& response, absl::Time now) {
  const auto date = response.headers.find("date");
  absl::Time served;
  if (date == response.headers.end() ||
      !absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", date->second, &served, nullptr))
    return absl::ZeroDuration();
  const absl::Duration skew = now - served;
  return absl::AbsDuration(skew) > kMaxSkew ? skew : absl::ZeroDuration();
}

}  // namespace

absl::Status ErrorOfCode(absl::string_view code, absl::string_view message) {
  absl::Status status(StatusCodeOf(code),
                      ToUtf8(absl::StrCat(code, ": ", message.substr(0, kMaxMessageBytes))));
  status.SetPayload(kCode, absl::Cord(code));
  return status;
}

absl::Status ErrorOfAnswer(const HttpResponse& response, absl::Time now) {
  const absl::StatusOr<XmlElement> xml = ParseXml(response.body);
  if (!xml.ok()) return ErrorOfHttpStatus(response);
  // EC2's; the other services'; S3's.
  XmlElement error = xml->At("Errors/Error");
  if (!error) error = xml->At("Error");
  if (!error && xml->name() == "Error") error = *xml;
  const std::string code = error.Text("Code");
  if (code.empty()) return ErrorOfHttpStatus(response);
  const absl::Duration skew = SkewOf(response, now);
  const absl::Status status = ErrorOfCode(code.substr(0, 100), error.Text("Message"));
  if (!absl::IsUnauthenticated(status) || skew == absl::ZeroDuration()) return status;
  return ErrorOfCode(
      code.substr(0, 100),
      absl::StrCat(error.Text("Message").substr(0, kMaxMessageBytes / 2), " (this machine's clock is ",
                   absl::FormatDuration(absl::Trunc(absl::AbsDuration(skew), absl::Seconds(1))),
                   skew > absl::ZeroDuration() ? " ahead of" : " behind", " the service's: set it right)"));
}

std::string CodeOf(const absl::Status& status) {
  const auto code = status.GetPayload(kCode);
  return code.has_value() ? std::string(*code) : "";
}

bool IsThrottling(const absl::Status& status) { return absl::c_linear_search(kThrottling, CodeOf(status)); }

bool LeavesOpen(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status) ||
         absl::IsInternal(status) || absl::IsUnknown(status);
}

}  // namespace adaptdl::aws
