// Which folder goes along with a job, and what its command becomes.

#include "cli/code/plan.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/program.h"

namespace adaptdl::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlanTest : public testing::Test {
 protected:
  PlanTest() {
    Write("job.yaml");
    Write("train.py");
    Write("sub/job.yaml");
    Write("sub/more.py");
  }

  void Write(const std::string& name, const std::string& text = "x") { folder_.Write(name, text); }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  // The folder that goes along; "-": none.
  std::string Plan(const CodeWish& wish) {
    const auto plan = PlanCode(wish, &replica_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return "";
    warning_ = plan->warning;
    return plan->folder.empty() ? "-" : plan->folder;
  }
  void Command(const std::vector<std::string>& words, const std::string& working_directory = "") {
    replica_.mutable_command()->Assign(words.begin(), words.end());
    replica_.set_working_directory(working_directory);
  }
  std::string command() const { return absl::StrJoin(replica_.command(), " "); }

  TemporaryFolder folder_;
  v1::ReplicaTemplate replica_;
  std::string warning_;
};

TEST_F(PlanTest, AFolderThatIsNamedGoesAlong) {
  Command({"train"});
  EXPECT_EQ(Plan({.job_file = Path("job.yaml"), .folder = folder_.path()}), folder_.path());
  EXPECT_EQ(replica_.working_directory(), "");
  Command({"train"}, "sub");
  EXPECT_EQ(Plan({.folder = folder_.path()}), folder_.path());
  EXPECT_EQ(replica_.working_directory(), "sub");
}

TEST_F(PlanTest, AFoldersJobFileSaysItRelativeToItself) {
  Command({"train"}, ".");
  EXPECT_EQ(Plan({.job_file = Path("sub/job.yaml"), .folder = folder_.path()}), folder_.path());
  EXPECT_EQ(replica_.working_directory(), "sub");
}

TEST_F(PlanTest, TheFolderOfAFileGoesAlongIfTheJobNeedsIt) {
  const CodeWish wish = {.job_file = Path("job.yaml")};
  Command({"python3", "train.py"});
  EXPECT_EQ(Plan(wish), folder_.path());
  Command({"sh", "-c", "cd /tmp; python3 sub/more.py --epochs 3"});
  EXPECT_EQ(Plan(wish), folder_.path());
  Command({"adaptdl-mnist"}, ".");
  EXPECT_EQ(Plan(wish), folder_.path());
  EXPECT_EQ(replica_.working_directory(), "");
}

TEST_F(PlanTest, TheFolderOfAFileStaysIfTheJobDoesNotNameIt) {
  const CodeWish wish = {.job_file = Path("job.yaml")};
  for (const std::vector<std::string>& words : {std::vector<std::string>{"adaptdl-mnist", "--epochs", "2"},
                                                {"train.py"},
                                                {"python3", "/opt/train.py"},
                                                {"ls", "sub"}}) {
    Command(words);
    EXPECT_EQ(Plan(wish), "-") << command();
    EXPECT_EQ(replica_.working_directory(), "");
  }
  Command({"python3", "train.py"}, "/opt");
  EXPECT_EQ(Plan(wish), "-");
  EXPECT_EQ(replica_.working_directory(), "/opt");
}

TEST_F(PlanTest, AHomeDoesNotGoAlongUnasked) {
  Command({"python3", "train.py"});
  const auto unasked = PlanCode({.job_file = Path("job.yaml"), .home = folder_.path() + "/"}, &replica_);
  EXPECT_EQ(unasked.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(unasked.status().message(), HasSubstr("--code DIR"));
  EXPECT_EQ(Plan({.job_file = Path("job.yaml"), .folder = folder_.path(), .home = folder_.path()}),
            folder_.path());
}

TEST_F(PlanTest, NothingGoesAlongIfTheUserSaysSo) {
  Command({"python3", "train.py"}, "sub");
  EXPECT_EQ(Plan({.job_file = Path("job.yaml"), .folder = folder_.path(), .none = true}), "-");
  EXPECT_EQ(replica_.working_directory(), Path("sub"));
}

TEST_F(PlanTest, WhatStartsElsewhereIsSaid) {
  Command({"train"}, "/opt");
  EXPECT_EQ(Plan({.folder = folder_.path()}), "-");
  EXPECT_THAT(warning_, HasSubstr("starts in /opt of the nodes"));
  Command({"train"}, "missing");
  EXPECT_EQ(PlanCode({.folder = folder_.path()}, &replica_).status().code(), absl::StatusCode::kNotFound);
  Command({"train"}, "..");
  const auto outside = PlanCode({.folder = folder_.path()}, &replica_);
  EXPECT_EQ(outside.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(outside.status().message(), HasSubstr("--code DIR"));
  EXPECT_EQ(PlanCode({.folder = Path("none")}, &replica_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PlanTest, TheCommandOfAdaptdlsTutorialIsFoundInTheFolder) {
  Write("Dockerfile",
        "FROM python:3.7-slim\nRUN python3 -m pip install adaptdl\nCOPY train.py /root/train.py\n");
  Command({"python3", "/root/train.py", "--data=/root/none", "--out=/mnt/out"});
  EXPECT_EQ(Plan({.job_file = Path("job.yaml"), .folder = folder_.path()}), folder_.path());
  EXPECT_EQ(command(), "python3 train.py --data=/root/none --out=/mnt/out");
  EXPECT_THAT(warning_, AllOf(HasSubstr("Dockerfile is not built"), HasSubstr("/root/train.py as train.py"),
                              HasSubstr("--requirements"), Not(HasSubstr("/mnt/out"))));
}

TEST_F(PlanTest, AFileFindsItsProgramByTheDockerfileBesideItToo) {
  Write("Dockerfile", "FROM x\nCOPY train.py /root/\n");
  const CodeWish wish = {.job_file = Path("job.yaml")};
  Command({"python3", "/root/train.py"});
  EXPECT_EQ(Plan(wish), folder_.path());
  EXPECT_EQ(command(), "python3 train.py");
  Command({"python3", "/opt/train.py"});
  EXPECT_EQ(Plan(wish), "-");
  EXPECT_EQ(command(), "python3 /opt/train.py");
  EXPECT_EQ(warning_, "");
}

TEST_F(PlanTest, AJobStartsWhereItsImageDoes) {
  Write("Dockerfile", "FROM x\nWORKDIR /root\nCOPY sub bench\nCOPY train.py .\nWORKDIR /root/bench\n");
  Command({"./more.py", "--main", "/root/train.py", "more.py", "/root/bench/lost.py"});
  EXPECT_EQ(Plan({.folder = folder_.path()}), folder_.path());
  EXPECT_EQ(replica_.working_directory(), "sub");
  EXPECT_EQ(command(), "./more.py --main ../train.py more.py /root/bench/lost.py");
  EXPECT_THAT(warning_, HasSubstr("/root/bench/lost.py of the image is not in the folder"));
}

TEST_F(PlanTest, AProgramOfTheImageIsNotLookedUpInPath) {
  Write("docker/File", "WORKDIR /w\nCOPY train.py /w/\n");
  Command({"/w/train.py"}, "/w");
  EXPECT_EQ(Plan({.folder = folder_.path(), .dockerfile = "docker/File"}), folder_.path());
  EXPECT_EQ(command(), "./train.py");
  EXPECT_EQ(replica_.working_directory(), "");
  EXPECT_EQ(PlanCode({.folder = folder_.path(), .dockerfile = "no"}, &replica_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PlanTest, AnImageIsSaidNotToBePulled) {
  replica_.set_image("registry/x:1");
  Command({"train"});
  Plan({.job_file = Path("job.yaml")});
  EXPECT_THAT(warning_, HasSubstr("image registry/x:1 is not pulled"));
}

}  // namespace
}  // namespace adaptdl::cli
