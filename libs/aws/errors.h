// What Amazon's errors mean here.
//
// | Amazon's code | absl | what callers do |
// |---|---|---|
// | InsufficientInstanceCapacity, SpotMaxPriceTooLow, VcpuLimitExceeded and the like | RESOURCE_EXHAUSTED | try later, or elsewhere |
// | RequestLimitExceeded, Throttling; 500, 503 and the like | UNAVAILABLE | was tried again for a while; try later |
// | ExpiredToken, RequestExpired, AuthFailure, SignatureDoesNotMatch and the like | UNAUTHENTICATED | new credentials did not help; look at the clock |
// | UnauthorizedOperation, AccessDenied | PERMISSION_DENIED | mend the policy |
// | ...NotFound | NOT_FOUND | it is gone, or not to be seen yet |
// | ...AlreadyExists..., IdempotentParameterMismatch | ALREADY_EXISTS | it is there |
// | IncorrectState and the like | FAILED_PRECONDITION | look again |
// | Invalid..., Missing..., ValidationError, Unsupported | INVALID_ARGUMENT | mend the configuration |
// | any other | UNKNOWN | |
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_AWS_ERRORS_H_
#define ADAPTDL_LIBS_AWS_ERRORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/http/http_client.h"

namespace adaptdl::aws {

// The text is "CODE: message". The message comes from outside: it is cut where it is long.
absl::Status ErrorOfCode(absl::string_view code, absl::string_view message);

// Of an answer of the Query protocol that is no success. `now` is the wall time, with which the answer's is compared: a clock
// that is wrong is why signatures are refused.
absl::Status ErrorOfAnswer(const HttpResponse& response, absl::Time now);

// Amazon's code of such an error; "" of any other.
std::string CodeOf(const absl::Status& status);

// Whether the service asks for fewer calls.
bool IsThrottling(const absl::Status& status);

// Whether a call that failed so may have been carried out even so, or yet be.
bool LeavesOpen(const absl::Status& status);

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_ERRORS_H_
