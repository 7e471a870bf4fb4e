#include "libs/jobspec/python.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobspec/job_spec.h"

namespace adaptdl::jobspec {
namespace {

using ::testing::HasSubstr;

TEST(PythonTest, WhatNamesAPackageIsTaken) {
  for (const std::string text :
       {"", "# nothing\n", "torch==2.1\nnumpy>=1.24,<2  # comment\n", "--no-index\n--find-links /wheels\nabc",
        "/data/wheels/my-1.0-py3-none-any.whl", "-e /data/my", "name @ file:///data/my", "--require-hashes",
        "git+https://example.com/my.git@v1"}) {
    const absl::Status status = CheckRequirements("requirements.txt", text);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
  }
}

TEST(PythonTest, WhatNamesAFileOfTheSubmittersMachineIsRefusedByItsLine) {
  for (const std::string line :
       {"-r more.txt", "-rmore.txt", "--requirement more.txt", "--requirement=more.txt", "-c limits.txt",
        "--constraint limits.txt", ".", "./my", "../my", "-e .", "-e.", "--editable=./my", "file:./my"}) {
    const absl::Status status = CheckRequirements("requirements.txt", "numpy\n  " + line + "\n");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(status.message(), HasSubstr("requirements.txt, line 2")) << line;
  }
}

TEST(PythonTest, CommentsAloneAreNothingToInstall) {
  EXPECT_FALSE(HasRequirements(""));
  EXPECT_FALSE(HasRequirements("\n  # numpy\n\n"));
  EXPECT_TRUE(HasRequirements("# numpy\nnumpy"));
}

TEST(PythonTest, TheInterpreterHasADefaultWhereAnEnvironmentIsAskedFor) {
  v1::JobSpec spec;
  FillDefaults(&spec);
  EXPECT_FALSE(spec.template_().has_python());
  spec.mutable_template_()->mutable_python();
  FillDefaults(&spec);
  EXPECT_EQ(spec.template_().python().interpreter(), "python3");
}

}  // namespace
}  // namespace adaptdl::jobspec
