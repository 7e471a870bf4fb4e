// Files of ignore rules, with paths that they are asked about: the text, a NUL byte, and the path. They end in time, say the
// same twice, and the last rule that matches decides.

#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "libs/archive/ignore_rules.h"
#include "libs/archive/paths.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using adaptdl::archive::IgnoreRules;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const absl::string_view text = input.substr(0, end);
  const absl::string_view path = end == absl::string_view::npos ? "a/b.txt" : input.substr(end + 1);
  // No other path is asked about.
  if (!adaptdl::archive::WrongWithPath(path).empty()) return 0;
  const auto rules = IgnoreRules::Below(IgnoreRules::BuiltIn(), "", text);
  for (const bool is_folder : {false, true}) {
    if (rules->Ignores(path, is_folder) != rules->Ignores(path, is_folder)) abort();
    if (!IgnoreRules::Below(rules, "", "*")->Ignores(path, is_folder)) abort();
    if (IgnoreRules::Below(rules, "", "!*")->Ignores(path, is_folder)) abort();
  }
  return 0;
}
