// adaptdl-supervisor as a program: what it asks for before it serves anybody.

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;

class ProgramTest : public testing::Test {
 protected:
  // Runs it with `flags`, which it refuses. What it says.
  std::string Refusal(const std::string& flags) {
    const std::string output = absl::StrCat(folder_.path(), "/output");
    const int status =
        system(absl::StrCat(ADAPTDL_BINARY_DIR "/bin/adaptdl-supervisor --metrics-listen= --state-dir=",
                            folder_.path(), "/state ", flags, " 2>", output)
                   .c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << flags;
    return ReadWholeFile(output).value_or("");
  }

  TemporaryFolder folder_;
};

TEST_F(ProgramTest, DoesNotStartBeforeItIsSaidHowToTalk) {
  const std::string said = Refusal("--listen=127.0.0.1:0");
  EXPECT_THAT(said, HasSubstr("--tls-cert"));
  EXPECT_THAT(said, HasSubstr("adaptdl admin certificates"));
  EXPECT_THAT(said, HasSubstr("--insecure"));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(folder_.path(), "/state"))) << "nothing was touched";
}

TEST_F(ProgramTest, DoesNotServePlaintextWhereOthersReachIt) {
  EXPECT_THAT(Refusal("--listen=0.0.0.0:0 --insecure"), HasSubstr("--insecure-anywhere"));
}

TEST_F(ProgramTest, DoesNotServeHttpWhereOthersReachIt) {
  EXPECT_THAT(Refusal("--listen=127.0.0.1:0 --insecure --adaptdl-http=0.0.0.0:0"),
              HasSubstr("--adaptdl-http-insecure"));
}

}  // namespace
}  // namespace adaptdl::supervisor
