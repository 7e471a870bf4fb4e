// The secrets of a job's groups, as they are shown and compared. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_SECRETS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_SECRETS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::supervisor {

// What stands for the token in URLs, which end up in programs' logs: tells nothing about the token.
std::string UrlSecret(absl::string_view token);

// Whether two secrets are the same, in a time that does not depend on where they differ.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_SECRETS_H_
