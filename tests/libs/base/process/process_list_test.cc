#include "libs/base/process/process_list.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"
#include "tests/libs/base/process/process_fixture.h"

namespace adaptdl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class ProcessListTest : public ProcessTest {
 protected:
  ProcessIdentity Sleep(SpawnOptions options = {}) {
    options.command = {"/bin/sleep", "1000"};
    const ProcessIdentity process = IdentifyProcess(Spawn(options).value()).value();
    EndLater(process);
    return process;
  }
};

TEST_F(ProcessListTest, ListsThisProcessAndItsChildren) {
  const ProcessIdentity child = Sleep();
  EXPECT_THAT(ListProcesses(), Contains(getpid()));
  EXPECT_THAT(ListProcesses(), Contains(child.pid));
  EXPECT_THAT(ListChildren(), Contains(child.pid));
  EXPECT_THAT(ListChildren(), Not(Contains(getpid())));
}

TEST_F(ProcessListTest, FindsProcessesByProgramAndFolder) {
  std::filesystem::create_directory(folder_ + "/in");
  std::filesystem::create_directory(folder_ + "/inner");
  SpawnOptions options;
  options.working_directory = folder_ + "/in";
  const ProcessIdentity child = Sleep(options);
  EXPECT_THAT(FindProcesses("sleep", folder_), ElementsAre(child));
  EXPECT_THAT(FindProcesses("sleep", folder_ + "/in"), ElementsAre(child));
  EXPECT_THAT(FindProcesses("sleep", folder_ + "/inner"), IsEmpty());
  EXPECT_THAT(FindProcesses("adaptdl-shim", folder_), IsEmpty());
}

TEST_F(ProcessListTest, FindsProcessesByTheirEnvironment) {
  const std::string variable = absl::StrCat("ADAPTDL_TEST_FOLDER=", folder_);
  SpawnOptions options;
  options.environment = std::vector<std::string>{"A=b", variable};
  const ProcessIdentity child = Sleep(options);
  // The kernel shows it a moment after the program has begun.
  EXPECT_TRUE(Eventually([&] { return !FindProcessesWith(variable).empty(); }));
  EXPECT_THAT(FindProcessesWith(variable), ElementsAre(child));
  EXPECT_THAT(FindProcessesWith(absl::StrCat(variable, "x")), IsEmpty());
  EXPECT_THAT(FindProcessesWith("ADAPTDL_TEST_FOLDER"), IsEmpty());
  ASSERT_TRUE(SignalProcess(child, SIGKILL).ok());
  ASSERT_TRUE(WaitForChild(child.pid).has_value());
  EXPECT_THAT(FindProcessesWith(variable), IsEmpty());
}

}  // namespace
}  // namespace adaptdl
