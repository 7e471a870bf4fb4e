#include "libs/base/process/environment.h"

#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adaptdl {

std::vector<std::string> OwnEnvironment() { return OwnEnvironmentWith({}); }

std::vector<std::string> OwnEnvironmentWith(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) merged.push_back(absl::StrCat(name, "=", value));
  }
  return merged;
}

}  // namespace adaptdl
