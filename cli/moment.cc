#include "cli/moment.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "cli/context.h"

namespace adaptdl::cli {
namespace {

// Longer spans than anybody keeps jobs.
constexpr int kMaxDays = 36'500;

}  // namespace

absl::StatusOr<absl::Time> ParseMoment(absl::string_view flag, const std::string& text, absl::Time now) {
  absl::Duration span;
  absl::string_view days_text = text;
  int days = 0;
  if (absl::ConsumeSuffix(&days_text, "d") && absl::SimpleAtoi(days_text, &days) && days >= 0 &&
      days <= kMaxDays) {
    return now - days * absl::Hours(24);
  }
  if (absl::ParseDuration(text, &span) && span >= absl::ZeroDuration() &&
      span <= kMaxDays * absl::Hours(24)) {
    return now - span;
  }
  for (const char* format :
       {absl::RFC3339_full, "%Y-%m-%d%ET%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    absl::Time time;
    if (absl::ParseTime(format, text, absl::UTCTimeZone(), &time, nullptr) &&
        time != absl::InfiniteFuture() && time != absl::InfinitePast()) {
      return time;
    }
  }
  return UsageError(absl::StrCat(flag, ": \"", text, "\" is neither; give ", kMomentHelp));
}

}  // namespace adaptdl::cli
