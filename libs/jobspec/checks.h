// Checks of single fields. Errors are INVALID_ARGUMENT and read "<field>: <value>: <remedy>". Pure functions;
// thread-safe.

#ifndef ADAPTDL_LIBS_JOBSPEC_CHECKS_H_
#define ADAPTDL_LIBS_JOBSPEC_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/job.pb.h"
#include "google/protobuf/map.h"

namespace adaptdl::jobspec {

// A value as an error shows it: short, in quotes, and without anything that a terminal could act on.
std::string Show(absl::string_view value);
absl::Status Wrong(absl::string_view field, absl::string_view value, absl::string_view remedy);
absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high);

bool IsLowerAlnum(char c);
// Whether it holds control characters.
bool HasControl(absl::string_view text);
absl::Status CheckNoNul(absl::string_view field, absl::string_view value);

// A DNS label: 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends.
bool IsDnsLabel(absl::string_view text);
absl::Status CheckDnsLabel(absl::string_view field, absl::string_view value);
// The beginning of a DNS label: 1 to 57 characters, may end with "-".
bool IsNamePrefix(absl::string_view text);

absl::Status CheckLabels(const google::protobuf::Map<std::string, std::string>& labels);
absl::Status CheckResources(absl::string_view field, const v1::Resources& resources);

}  // namespace adaptdl::jobspec

#endif  // ADAPTDL_LIBS_JOBSPEC_CHECKS_H_
