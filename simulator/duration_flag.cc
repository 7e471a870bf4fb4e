#include "simulator/duration_flag.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace adaptdl::simulator {

CLI::Option* AddDuration(CLI::App* app, const std::string& name, double* seconds, const std::string& help) {
  const auto parse = [name, seconds](const std::string& text) {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
        duration == absl::InfiniteDuration()) {
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
