#include "libs/base/shared_library.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/program_folder.h"

namespace adaptdl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRemedy[] = "put it there";

TEST(SharedLibrary, FindsFunctions) {
  const auto library = SharedLibrary::Open({TEST_LIBRARY}, kRemedy);
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->path(), TEST_LIBRARY);
  const auto answer = library->Find<int(int)>("AdaptdlTestAnswer");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ((*answer)(41), 42);
}

TEST(SharedLibrary, TakesTheFirstPlaceWhereItIs) {
  const auto library = SharedLibrary::Open({"/missing/library.so", TEST_LIBRARY}, kRemedy);
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->path(), TEST_LIBRARY);
}

TEST(SharedLibrary, NamesThePlacesAndTheRemedy) {
  const auto library = SharedLibrary::Open({"/missing/libx.so", "libx_that_is_nowhere.so"}, kRemedy);
  EXPECT_TRUE(absl::IsNotFound(library.status()));
  EXPECT_THAT(library.status().ToString(),
              HasSubstr("cannot open libx_that_is_nowhere.so (looked for /missing/libx.so, "
                        "libx_that_is_nowhere.so): "));
  EXPECT_THAT(library.status().ToString(), HasSubstr("; put it there"));
}

TEST(SharedLibrary, FindsWhatIsLoadedAlreadyAndLoadsNothing) {
  const auto loaded = SharedLibrary::Loaded("libc.so.6");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->Find<int()>("getpid").ok());
  EXPECT_TRUE(absl::IsNotFound(SharedLibrary::Loaded("libx_that_is_nowhere.so").status()));
}

TEST(SharedLibrary, SaysWhatIsWrongWithAFileThatIsNone) {
  const std::string path = testing::TempDir() + "/no_library.so";
  std::ofstream(path) << "text";
  const auto library = SharedLibrary::Open({path}, kRemedy);
  EXPECT_TRUE(absl::IsNotFound(library.status()));
  EXPECT_THAT(library.status().ToString(), HasSubstr("too short"));
}

TEST(SharedLibrary, NamesASymbolThatIsNotThere) {
  const auto library = SharedLibrary::Open({TEST_LIBRARY}, kRemedy);
  ASSERT_TRUE(library.ok()) << library.status();
  const absl::Status missing = library->Find<int(int)>("AdaptdlNothing").status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.ToString(), HasSubstr("AdaptdlNothing"));
  EXPECT_THAT(missing.ToString(), HasSubstr(TEST_LIBRARY));
}

TEST(SharedLibrary, OursAreBesideTheProgramInLibOrWhereTheLinkerLooks) {
  EXPECT_THAT(LibraryPlaces("libx.so"),
              ElementsAre(ProgramFolder() + "/libx.so", ProgramFolder() + "/../lib/libx.so", "libx.so"));
}

}  // namespace
}  // namespace adaptdl
