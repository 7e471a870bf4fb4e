// Rules for names in job files and on command lines: those of the public protocol. Thread-safe.

#ifndef ADAPTDL_LIBS_JOBFILE_NAMES_H_
#define ADAPTDL_LIBS_JOBFILE_NAMES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adaptdl::jobfile {

// A DNS label: 1 to 63 lower-case letters, digits and hyphens, beginning and ending with a letter or digit.
// INVALID_ARGUMENT says "<what> ..., not ...".
absl::Status CheckLabelName(absl::string_view name, absl::string_view what);

// The beginning of a DNS label: 1 to 57 characters, may end with a hyphen.
absl::Status CheckNamePrefix(absl::string_view prefix, absl::string_view what);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_NAMES_H_
