// Parts of what people are told about jobs. Thread-safe.

#ifndef ADAPTDL_LIBS_JOBS_DESCRIPTIONS_H_
#define ADAPTDL_LIBS_JOBS_DESCRIPTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::jobs {

// "1 replica", "2 replicas".
std::string Plural(int count);
// "3 replicas on a, b", for the node of each replica.
std::string DescribeNodes(const std::vector<std::string>& nodes);
// To whole milliseconds.
std::string Rounded(absl::Duration duration);
// ": reason"; nothing without one.
std::string Because(absl::string_view reason);

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_DESCRIPTIONS_H_
