// As chaos_test, with a program of Python whose data other processes read, which are killed as well: each step once,
// with the same samples, to the same weights as one process that nothing happens to.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/chaos/chaos_run.h"
#include "tests/integration/python_program.h"

namespace adaptdl::integration {
namespace {

class PythonChaosTest : public ChaosRun {
 protected:
  std::vector<std::string> Command(const std::string& folder, int epochs) const override {
    return PythonProgram("tests/integration/python/recorded_job.py",
                         {folder, "--workers", "1", "--without-norm", "--epochs", absl::StrCat(epochs)});
  }
};

TEST_F(PythonChaosTest, TrainsAsIfNothingHappened) {
  ASSERT_NO_FATAL_FAILURE(TrainDisturbed());
  CompareWithUndisturbed();
}

}  // namespace
}  // namespace adaptdl::integration
