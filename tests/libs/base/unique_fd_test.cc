#include "libs/base/unique_fd.h"

#include <fcntl.h>

#include <utility>

#include "gtest/gtest.h"

namespace adaptdl {
namespace {

int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesAtTheEnd) {
  const int fd = OpenNull();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(owner.valid());
    EXPECT_EQ(owner.get(), fd);
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(UniqueFd, HasOneOwner) {
  const int fd = OpenNull();
  UniqueFd first(fd);
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is what it is after it
  EXPECT_EQ(second.get(), fd);
  first = std::move(second);
  EXPECT_EQ(first.Release(), fd);
  EXPECT_FALSE(first.valid());
  EXPECT_TRUE(IsOpen(fd));
  first.Reset(fd);
  first.Reset();
  EXPECT_FALSE(IsOpen(fd));
}

}  // namespace
}  // namespace adaptdl
