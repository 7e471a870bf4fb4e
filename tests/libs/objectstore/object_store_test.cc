#include "libs/objectstore/object_store.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/objectstore/digest.h"
#include "libs/objectstore/memory_store.h"

namespace adaptdl::objectstore {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ObjectStoreTest, RefusesKeysThatArePathsElsewhere) {
  for (const std::string key : {"", "/a", "a/", "a//b", "..", "a/../b", "a/./b", "a\nb", "a\xff"})
    EXPECT_EQ(CheckKey(key).code(), absl::StatusCode::kInvalidArgument) << key;
  for (const std::string key : {"a", "a/b c+d", "ä/..b", "a.b/...c"}) EXPECT_TRUE(CheckKey(key).ok()) << key;
  EXPECT_FALSE(CheckKey(std::string(1025, 'a')).ok());
}

TEST(ObjectStoreTest, ReadsWholeObjectsUpToASize) {
  MemoryStore store;
  ASSERT_TRUE(WriteObject(store, "a", "12345", {}).ok());
  const auto info = store.Head("a", {});
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(*ReadObject(store, *info, 5, {}), "12345");
  EXPECT_EQ(ReadObject(store, *info, 4, {}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(ObjectStoreTest, DeletesAllWithAPrefixAndNothingElse) {
  MemoryStore store;
  for (int i = 0; i < 1001; ++i) store.Set("job-1/" + std::to_string(i), "x");
  store.Set("job-10", "stays");
  ASSERT_TRUE(DeletePrefix(store, "job-1/", {}).ok());
  EXPECT_THAT(store.objects(), ElementsAre(Pair("job-10", "stays")));
}

TEST(DigestTest, IsThatOfOthers) {
  Sha256 sum;
  sum.Update("a");
  sum.Update("bc");
  EXPECT_EQ(sum.Hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Base64("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(Md5Base64("abc"), "kAFQmDzST7DWlj99KOF/cg==");
}

}  // namespace
}  // namespace adaptdl::objectstore
