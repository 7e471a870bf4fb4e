#include "libs/base/process/pid_file.h"

#include <fstream>

#include "absl/status/status.h"
#include "tests/libs/base/process/process_fixture.h"

namespace adaptdl {
namespace {

using PidFileTest = ProcessTest;

TEST_F(PidFileTest, KeepsTheIdentity) {
  const ProcessIdentity identity{12, 345};
  EXPECT_TRUE(WritePidFile(folder_ + "/pid", identity).ok());
  EXPECT_EQ(ReadPidFile(folder_ + "/pid").value(), identity);
}

TEST_F(PidFileTest, TellsAMissingFileFromADamagedOne) {
  EXPECT_TRUE(absl::IsNotFound(ReadPidFile(folder_ + "/pid").status()));
  for (const char* damaged : {"", "-1 5", "12"}) {
    std::ofstream(folder_ + "/pid") << damaged;
    EXPECT_TRUE(absl::IsDataLoss(ReadPidFile(folder_ + "/pid").status())) << damaged;
  }
}

}  // namespace
}  // namespace adaptdl
