#include "libs/base/process/environment.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Environment, IsOursWithTheChanges) {
  setenv("ADAPTDL_TEST_KEPT", "kept=1", 1);
  setenv("ADAPTDL_TEST_CHANGED", "old", 1);
  setenv("ADAPTDL_TEST_TAKEN", "taken", 1);
  EXPECT_THAT(OwnEnvironment(), Contains("ADAPTDL_TEST_CHANGED=old"));
  const auto changed = OwnEnvironmentWith(
      {{"ADAPTDL_TEST_CHANGED", "new"}, {"ADAPTDL_TEST_TAKEN", ""}, {"ADAPTDL_TEST_ADDED", "added"}});
  EXPECT_THAT(changed, Contains("ADAPTDL_TEST_KEPT=kept=1"));
  EXPECT_THAT(changed, Contains("ADAPTDL_TEST_CHANGED=new"));
  EXPECT_THAT(changed, Contains("ADAPTDL_TEST_ADDED=added"));
  EXPECT_THAT(changed, Not(Contains(HasSubstr("old"))));
  EXPECT_THAT(changed, Not(Contains(HasSubstr("ADAPTDL_TEST_TAKEN"))));
  for (const char* name : {"ADAPTDL_TEST_KEPT", "ADAPTDL_TEST_CHANGED", "ADAPTDL_TEST_TAKEN"}) unsetenv(name);
}

}  // namespace
}  // namespace adaptdl
