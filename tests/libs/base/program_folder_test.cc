#include "libs/base/program_folder.h"

#include <filesystem>

#include "gtest/gtest.h"

namespace adaptdl {
namespace {

TEST(ProgramFolder, HoldsThisProgram) {
  EXPECT_TRUE(std::filesystem::exists(ProgramFolder() + "/base_test"));
  EXPECT_EQ(BesideProgram("other"), ProgramFolder() + "/other");
}

}  // namespace
}  // namespace adaptdl
