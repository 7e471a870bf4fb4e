// Texts that are as they were when somebody has looked at them last: tests/cli/golden/NAME.txt. With
// ADAPTDL_UPDATE_GOLDEN=1 they are written anew, to be looked at in the difference.

#ifndef ADAPTDL_TESTS_CLI_GOLDEN_H_
#define ADAPTDL_TESTS_CLI_GOLDEN_H_

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/text_width.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"

namespace adaptdl::cli {

inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(ADAPTDL_SOURCE_DIR, "/tests/cli/golden/", name, ".txt");
  if (std::getenv("ADAPTDL_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(text, ReadWholeFile(path).value_or("")) << path;
}

// No line is wider than `width`, which is what makes terminals wrap.
inline void ExpectFits(absl::string_view text, int width) {
  for (const absl::string_view line : absl::StrSplit(text, '\n'))
    EXPECT_LE(DisplayWidth(line), width) << line;
}

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_GOLDEN_H_
