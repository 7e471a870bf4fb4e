// Takes what others must not see out of a job: values of environment variables and arguments that may be secrets, and
// passwords in URLs. What may be one goes: rather a value too many than one too few. What a program prints is not
// looked into.
//
// Plain functions, thread-safe.

#ifndef ADAPTDL_CLI_SUPPORT_REDACTION_H_
#define ADAPTDL_CLI_SUPPORT_REDACTION_H_

#include <string>

#include "absl/strings/string_view.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::cli {

// The job without them. "<redacted>" stands where they were.
v1::Job Redacted(const v1::Job& job);

// Whether a setting of this name may be shown with this value: it sounds like no secret, and the value is a number, a
// truth value, or the setting one of a library's that holds no secrets.
bool MayBeShown(absl::string_view name, absl::string_view value);

// The text without the user and password of URLs in it.
std::string WithoutCredentials(absl::string_view text);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_SUPPORT_REDACTION_H_
