#include "simulator/duration_flag.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace adaptdl::simulator {
namespace {

// Abseil's durations, and whole days, as in 7d. Infinite: neither.
absl::Duration ParseDuration(absl::string_view text) {
  absl::Duration duration;
  int days = 0;
  if (absl::ParseDuration(text, &duration)) return duration;
  if (absl::ConsumeSuffix(&text, "d") && absl::SimpleAtoi(text, &days)) return days * absl::Hours(24);
  return absl::InfiniteDuration();
}

}  // namespace

CLI::Option* AddDuration(CLI::App* app, const std::string& name, double* seconds, const std::string& help) {
  const auto parse = [name, seconds](const std::string& text) {
    const absl::Duration duration = ParseDuration(text);
    if (duration < absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
      throw CLI::ValidationError(name,
                                 absl::StrCat("\"", text, "\" is no duration; write one like 60s or 500ms"));
    }
    *seconds = absl::ToDoubleSeconds(duration);
  };
  return app->add_option_function<std::string>(name, parse, help)
      ->type_name("DURATION")
      ->default_str(absl::FormatDuration(absl::Seconds(*seconds)));
}

}  // namespace adaptdl::simulator
