#include "cli/node/worker_settings.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace adaptdl::cli {
namespace {

// The name of the setting that the line gives. Empty: it gives none.
absl::string_view NameIn(absl::string_view line) {
  line = absl::StripLeadingAsciiWhitespace(line);
  const size_t equals = line.find('=');
  if (equals == absl::string_view::npos || line.front() == '#' || line.front() == ';') return "";
  return line.substr(0, equals);
}

}  // namespace

std::string WithSettings(absl::string_view text, const Settings& settings) {
  std::vector<std::string> lines;
  std::set<std::string> given;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    const absl::string_view name = NameIn(line);
    const auto wanted = std::find_if(settings.begin(), settings.end(),
                                     [&](const auto& setting) { return setting.first == name; });
    if (wanted == settings.end()) {
      lines.emplace_back(line);
    } else if (wanted->second.empty() || !given.insert(wanted->first).second) {
      lines.push_back(absl::StrCat("#", line));
    } else {
      lines.push_back(absl::StrCat(wanted->first, "=", wanted->second));
    }
  }
  for (const auto& [name, value] : settings) {
    if (!value.empty() && given.insert(name).second) lines.push_back(absl::StrCat(name, "=", value));
  }
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

std::string SettingIn(absl::string_view text, absl::string_view name) {
  std::string value;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (NameIn(line) == name)
      value = std::string(absl::StripAsciiWhitespace(line.substr(line.find('=') + 1)));
  }
  return value;
}

absl::Status CheckSettings(const Settings& settings) {
  for (const auto& [name, value] : settings) {
    const bool plain =
        value.find_first_of("\"'\\\r\n") == std::string::npos && absl::StripAsciiWhitespace(value) == value;
    if (!plain) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": \"", value,
                       "\" can't be a setting: leave out quotes, backslashes and blanks at its ends"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::cli
