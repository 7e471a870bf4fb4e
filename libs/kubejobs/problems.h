// What the reader of job files says of objects, which have fields, but no file and no lines.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBEJOBS_PROBLEMS_H_
#define ADAPTDL_LIBS_KUBEJOBS_PROBLEMS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::kubejobs {

// The name of the file, for the reader.
inline constexpr char kPlace[] = "object";

// `message`, a problem a line, without names of files and numbers of lines.
std::string WithoutPlaces(absl::string_view message);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_PROBLEMS_H_
