#include "libs/elastic/host/freed_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

bool Keep(const std::map<std::string, std::string>& variables) {
  return KeepFreedMemory([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(KeepFreedMemory, LeavesWhatTheUserHasSet) {
  EXPECT_FALSE(Keep({{"MALLOC_TRIM_THRESHOLD_", "131072"}}));
  EXPECT_FALSE(Keep({{"MALLOC_MMAP_THRESHOLD_", "131072"}}));
  EXPECT_FALSE(Keep({{"MALLOC_MMAP_MAX_", "0"}}));
  EXPECT_FALSE(Keep({{"MALLOC_TOP_PAD_", "1"}}));
  EXPECT_FALSE(Keep({{"GLIBC_TUNABLES", "glibc.rtld.nns=1:glibc.malloc.trim_threshold=1"}}));
}

// Steps that each allocate and free the same.
TEST(KeepFreedMemory, LargeBlocksStayAndAreUsedAgain) {
  if (!Keep({{"GLIBC_TUNABLES", "glibc.rtld.nns=1"}})) GTEST_SKIP() << "malloc is not glibc's";
  const auto step = [] {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (size_t megabytes = 1; megabytes <= 16; ++megabytes) {
      blocks.push_back(std::make_unique<char[]>(megabytes << 20));
    }
  };
  step();
  const struct mallinfo2 first = mallinfo2();
  EXPECT_GE(first.fordblks, size_t{100} << 20) << "it went back to the kernel";
  for (int i = 0; i < 50; ++i) step();
  const struct mallinfo2 last = mallinfo2();
  // Less than the smallest block of a step: other code of the process allocates too.
  constexpr size_t kLeastGrowth = size_t{1} << 20;
  EXPECT_LT(last.hblkhd, first.hblkhd + kLeastGrowth) << "blocks of their own";
  EXPECT_LT(last.arena, first.arena + kLeastGrowth) << "the heap grew";
}

}  // namespace
}  // namespace adaptdl::elastic
