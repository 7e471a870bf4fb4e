#include "libs/base/random_id.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

TEST(RandomIdTest, IsHexadecimalOfTheRightLength) {
  for (const int bytes : {1, 4, 16, 256}) {
    const std::string id = RandomHex(bytes);
    EXPECT_EQ(id.size(), 2u * bytes);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  }
}

TEST(RandomIdTest, DoesNotRepeat) {
  std::set<std::string> ids;
  for (int i = 0; i < 10'000; ++i) ids.insert(RandomHex(16));
  EXPECT_EQ(ids.size(), 10'000u);
}

}  // namespace
}  // namespace adaptdl
