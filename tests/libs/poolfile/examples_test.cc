// The examples that people copy: deploy/pools, and the YAML blocks of docs/pools.md.

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/poolfile/pool_file.h"

namespace adaptdl::poolfile {
namespace {

const std::string& Source() {
  static const auto* const kSource = new std::string(ADAPTDL_SOURCE_DIR);
  return *kSource;
}

TEST(PoolFileExamplesTest, FilesAreRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Source() + "/deploy/pools")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const absl::StatusOr<PoolFile> file = ReadPoolFile(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->warnings.empty());
  }
  EXPECT_GE(files, 5);
}

TEST(PoolFileExamplesTest, BlocksOfTheDocumentAreRead) {
  const absl::StatusOr<std::string> document = ReadWholeFile(Source() + "/docs/pools.md");
  ASSERT_TRUE(document.ok()) << document.status();
  const std::vector<std::string> parts = absl::StrSplit(*document, "```yaml\n");
  ASSERT_GE(parts.size(), 7u);
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string block = parts[i].substr(0, parts[i].find("```"));
    const absl::StatusOr<PoolFile> file = ParsePoolFile(block, absl::StrCat("block ", i));
    EXPECT_TRUE(file.ok()) << file.status();
  }
}

}  // namespace
}  // namespace adaptdl::poolfile
