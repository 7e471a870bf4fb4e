#include "cli/attempts.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {
namespace {

// The event of a launch of all replicas.
constexpr absl::string_view kLaunched = "Allocated";

}  // namespace

std::vector<Attempt> AttemptsOf(const v1::ListEventsResponse& events, int restarts) {
  std::vector<Attempt> attempts;
  for (const v1::Event& event : events.events()) {
    if (event.reason() != kLaunched) continue;
    attempts.push_back({0, event.group(), messages::ToTime(event.time()), event.message()});
  }
  const int known = static_cast<int>(attempts.size());
  int number = std::max(0, restarts + 1 - known);
  for (Attempt& attempt : attempts) attempt.number = ++number;
  return attempts;
}

const Attempt* FindAttempt(const std::vector<Attempt>& attempts, int64_t group) {
  const auto next = std::find_if(attempts.begin(), attempts.end(),
                                 [&](const Attempt& attempt) { return attempt.first_group > group; });
  return next == attempts.begin() ? nullptr : &*(next - 1);
}

}  // namespace adaptdl::cli
