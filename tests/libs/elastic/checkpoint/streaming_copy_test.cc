#include "libs/elastic/checkpoint/streaming_copy.h"

#include <cstddef>
#include <string>

#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

// Bytes that differ from their neighbours.
std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

TEST(StreamingCopy, CopiesEveryByteAndNoOther) {
  const std::string source = Pattern(20000);
  for (const size_t size : {0, 1, 63, 4095, 4096, 4097, 4160, 10000, 16384}) {
    for (const size_t to : {0, 1, 15, 16, 63}) {
      for (const size_t from : {0, 1, 63}) {
        std::string target(size + 200, '!');
        StreamingCopy(target.data() + to, source.data() + from, size);
        std::string expected(size + 200, '!');
        expected.replace(to, size, source, from, size);
        ASSERT_EQ(target, expected) << size << " bytes from " << from << " to " << to;
      }
    }
  }
}

TEST(PreferHugePages, LeavesContentsAlone) {
  std::string bytes = Pattern(size_t{5} << 20);
  const std::string before = bytes;
  PreferHugePages(bytes.data(), bytes.size());
  PreferHugePages(bytes.data(), 100);
  PreferHugePages(bytes.data(), 0);
  EXPECT_EQ(bytes, before);
}

}  // namespace
}  // namespace adaptdl::elastic
