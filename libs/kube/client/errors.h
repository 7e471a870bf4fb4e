// Errors of the API server as absl::Status: by the table in the README of libs/kube.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_ERRORS_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kube {

// Of an answer that is not one of success. Its body should be an object of kind Status, and need not be: a
// proxy may have answered.
absl::Status ErrorOfAnswer(int http_status, absl::string_view body);

// Of such an object, which is also how a watch says what went wrong.
absl::Status ErrorOfStatus(const Json& status);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_ERRORS_H_
