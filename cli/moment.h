// Moments as people write them. A plain function, thread-safe.

#ifndef ADAPTDL_CLI_MOMENT_H_
#define ADAPTDL_CLI_MOMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::cli {

// "10m", "2h30m" and "7d": so long before `now`. Or a time: "2026-12-01T08:00:00Z", and in UTC "2026-12-01 08:00:00",
// "2026-12-01 08:00" and "2026-12-01". `flag` names the flag in the error, which is one of usage.
absl::StatusOr<absl::Time> ParseMoment(absl::string_view flag, const std::string& text, absl::Time now);

// What those are, to stand in a flag's help.
inline constexpr char kMomentHelp[] = "a time span such as 10m or 7d, or a time such as 2026-12-01T08:00:00Z";

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_MOMENT_H_
