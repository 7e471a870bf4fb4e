// What Google's errors mean here.
//
// | Google's HTTP status and reason | absl | what callers do |
// |---|---|---|
// | ZONE_RESOURCE_POOL_EXHAUSTED, QUOTA_EXCEEDED, quotaExceeded and the like | RESOURCE_EXHAUSTED | try later, or elsewhere |
// | 429, rateLimitExceeded; 500, 503 and the like | UNAVAILABLE | was tried again for a while; try later |
// | 401 | UNAUTHENTICATED | a new token did not help; look at the account and the clock |
// | 403 | PERMISSION_DENIED | mend the account's roles |
// | 404 | NOT_FOUND | it is not there |
// | 409 | ALREADY_EXISTS | it is there |
// | 412, resourceNotReady and the like | FAILED_PRECONDITION | look again |
// | 400 | INVALID_ARGUMENT | mend the configuration |
// | any other | UNKNOWN | |
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_GCP_ERRORS_H_
#define ADAPTDL_LIBS_GCP_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/http/http_client.h"

namespace adaptdl::gcp {

// Of an answer that is no success. The words come from outside: they are cut where they are long.
absl::Status ErrorOfAnswer(const HttpResponse& response);

// What became of work that a call has only begun: an operation's error, or a machine's.
absl::Status ErrorOfCode(absl::string_view code, absl::string_view message);

// Whether the service asks for fewer calls.
bool IsThrottling(const absl::Status& status);

// Whether a call that failed so may have been carried out even so, or yet be.
bool LeavesOpen(const absl::Status& status);

}  // namespace adaptdl::gcp

#endif  // ADAPTDL_LIBS_GCP_ERRORS_H_
