// "adaptdl submit" of folders that go along with the job, by the real program.

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kFolderJobFile[] = R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {name: folder}
spec:
  deadline: 2026-12-01T08:00:00Z
  dataSets: [{name: images, url: "s3://bucket/images"}]
  template:
    spec:
      containers:
      - command: [python3, train.py]
)";

class SubmitFolderTest : public CommandTest {
 protected:
  SubmitFolderTest() {
    folder_.Write("p/adaptdljob.yaml", kFolderJobFile);
    folder_.Write("p/train.py", "print('hello')\n");
  }

  v1::ReplicaTemplate Submitted() {
    const std::vector<v1::SubmitJobRequest> submissions = supervisor_.submissions();
    EXPECT_FALSE(submissions.empty());
    return submissions.empty() ? v1::ReplicaTemplate() : submissions.back().job().spec().template_();
  }
  // Bytes that compression makes no smaller.
  static std::string Noise(size_t size) {
    std::string noise(size, '\0');
    uint32_t state = 1;
    for (char& byte : noise) {
      state = state * 1664525 + 1013904223;
      byte = static_cast<char>(state >> 24);
    }
    return noise;
  }
};

TEST_F(SubmitFolderTest, TheFolderGoesAlongOnce) {
  const ProgramResult result = Run({"submit", "p"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "job default/folder submitted\n");
  EXPECT_EQ(result.err,
            absl::StrCat("p goes along with the job: 2 files, ", sizeof(kFolderJobFile) - 1 + 15, "B\n"));
  const v1::ReplicaTemplate replica = Submitted();
  EXPECT_EQ(replica.working_directory(), "");
  const auto archives = supervisor_.code().archives();
  ASSERT_THAT(archives, SizeIs(1));
  EXPECT_EQ(replica.code().digest(), archives.begin()->first);
  EXPECT_EQ(replica.code().size(), static_cast<int64_t>(archives.begin()->second.size()));

  // Another time nothing is sent; a file that has changed is another archive.
  EXPECT_EQ(Run({"submit", "p", "-n", "more"}).code, 0);
  EXPECT_THAT(supervisor_.code().offsets(), ElementsAre(0));
  EXPECT_EQ(Submitted().code().digest(), archives.begin()->first);
  folder_.Write("p/train.py", "print('bye')\n");
  EXPECT_EQ(Run({"submit", "p", "-n", "more", "--namespace", "team"}).code, 0);
  EXPECT_NE(Submitted().code().digest(), archives.begin()->first);
  EXPECT_EQ(supervisor_.code().name_space(), "team");
}

TEST_F(SubmitFolderTest, AnUploadGoesOnWhereItBroke) {
  folder_.Write("p/data.bin", Noise(3 << 20));
  supervisor_.code().BreakNextAfter(2 << 20);
  const ProgramResult result = Run({"submit", "p"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(supervisor_.code().offsets(), ElementsAre(0, 2 << 20));
  EXPECT_EQ(static_cast<int64_t>(supervisor_.code().archives().begin()->second.size()),
            Submitted().code().size());
}

TEST_F(SubmitFolderTest, WhatWasDamagedIsSentAgain) {
  ASSERT_EQ(Run({"submit", "p"}).code, 0);
  const std::string digest = Submitted().code().digest();
  supervisor_.code().Put(digest, std::string(10, '\0'));
  const ProgramResult result = Run({"submit", "p", "-n", "again"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(supervisor_.code().offsets(), ElementsAre(0, 10, 0));
}

TEST_F(SubmitFolderTest, WhatIsTooLargeIsRefusedByName) {
  folder_.Write("p/data/big.bin", Noise(100'000));
  const ProgramResult bytes = Run({"submit", "p", "--max-code-bytes", "64Ki"});
  EXPECT_EQ(bytes.code, 1);
  EXPECT_THAT(bytes.err, AllOf(HasSubstr("\"data/\" (97.7 KiB)"), HasSubstr(".adaptdlignore"),
                               HasSubstr("--max-code-bytes"), HasSubstr("--no-code")));
  EXPECT_THAT(Run({"submit", "p", "--max-code-files", "3"}).err,
              HasSubstr("4 files and folders, more than 3"));
  supervisor_.code().SetLimit(50'000);
  EXPECT_THAT(Run({"submit", "p"}).err,
              AllOf(HasSubstr("the supervisor takes 48.8KiB"), HasSubstr("--max-code-archive")));
  EXPECT_EQ(Run({"submit", "p", "--max-code-bytes", "some"}).code, 2);
  EXPECT_THAT(supervisor_.submissions(), IsEmpty());
  folder_.Write("p/.adaptdlignore", "data\n");
  EXPECT_EQ(Run({"submit", "p", "--max-code-bytes", "64Ki"}).code, 0);
}

TEST_F(SubmitFolderTest, LinksThatLeadOutAreRefusedByName) {
  std::filesystem::create_symlink("/etc/passwd", folder_.path() + "/p/away");
  const ProgramResult result = Run({"submit", "p"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("\"away\" is a symbolic link to \"/etc/passwd\""),
                                HasSubstr(".adaptdlignore")));
  EXPECT_THAT(supervisor_.submissions(), IsEmpty());
}

TEST_F(SubmitFolderTest, ADryRunListsWhatGoesAlong) {
  folder_.Write("p/adaptdljob.yaml", kFolderJobFile);
  folder_.Write("p/.gitignore", "# data\n*.bin\nout/\n");
  folder_.Write("p/lib/model.py", std::string(1536, '#'));
  folder_.Write("p/lib/__pycache__/model.pyc", "x");
  folder_.Write("p/a.bin", "x");
  folder_.Write("p/out/log", "x");
  std::filesystem::create_symlink("lib/model.py", folder_.path() + "/p/link.py");
  const ProgramResult result = Run({"submit", "p", "--dry-run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, absl::StrCat("p: 5 files, 1.8KiB\n"
                                     "      18B  .gitignore\n"
                                     "     ",
                                     sizeof(kFolderJobFile) - 1,
                                     "B  adaptdljob.yaml\n"
                                     "   1.5KiB  lib/model.py\n"
                                     "     link  link.py -> lib/model.py\n"
                                     "      15B  train.py\n"
                                     "left out\n"
                                     "  by .gitignore:2: *.bin\n"
                                     "    a.bin\n"
                                     "  by built in: __pycache__/\n"
                                     "    lib/__pycache__/\n"
                                     "  by .gitignore:3: out/\n"
                                     "    out/\n"));
  const std::string json = Run({"submit", "p", "--dry-run", "-o", "json"}).out;
  EXPECT_THAT(json, AllOf(HasSubstr("\"path\": \"lib/model.py\",\n        \"bytes\": 1536"),
                          HasSubstr("\"rule\": \".gitignore:3: out/\""), HasSubstr("\"name\": \"folder\"")));
  EXPECT_EQ(Run({"submit", "p", "--dry-run", "--no-code"}).out, "no folder goes along with the job\n");
  EXPECT_THAT(supervisor_.submissions(), IsEmpty());
  EXPECT_THAT(supervisor_.code().archives(), IsEmpty());
}

TEST_F(SubmitFolderTest, WhatTheCommandNamesAndDoesNotGoAlongIsWarnedOf) {
  folder_.Write("p/.gitignore", "build/\n*.csv\n");
  folder_.Write("p/build/train", "");
  folder_.Write("p/data/some.csv", "");
  folder_.Write("p/other.csv", "");
  const std::string err =
      Run({"submit", "--code", "p", "--", "./build/train", "--data", "data/some.csv", "build"}).err;
  EXPECT_THAT(
      err, HasSubstr("warning: ./build/train, which the command names, is left out by .gitignore:1: build/; "
                     "\"!build/\" in .adaptdlignore takes it along\n"));
  EXPECT_THAT(
      err, HasSubstr("warning: data/some.csv, which the command names, is left out by .gitignore:2: *.csv; "
                     "\"!data/some.csv\" in .adaptdlignore takes it along\n"));
  EXPECT_THAT(err, Not(HasSubstr("other.csv")));
  folder_.Write("p/.adaptdlignore", "!build/\n!data/some.csv\n");
  EXPECT_THAT(Run({"submit", "--code", "p", "--", "./build/train", "data/some.csv"}).err,
              Not(HasSubstr("warning")));
  EXPECT_THAT(Run({"submit", "--code", "p", "--workdir", "data", "--", "train", "../other.csv"}).err,
              HasSubstr("warning: ../other.csv"));
}

TEST_F(SubmitFolderTest, AFileTakesItsFolderAlongIfItsCommandIsThere) {
  EXPECT_EQ(Run({"submit", "p/adaptdljob.yaml"}).code, 0);
  EXPECT_TRUE(Submitted().has_code());
  std::filesystem::rename(folder_.path() + "/p/train.py", folder_.path() + "/train.py");
  EXPECT_EQ(Run({"submit", "p/adaptdljob.yaml", "-n", "other"}).code, 0);
  EXPECT_FALSE(Submitted().has_code());
  EXPECT_EQ(Run({"submit", "p/adaptdljob.yaml", "-n", "third", "--code", "."}).code, 0);
  EXPECT_TRUE(Submitted().has_code());
  EXPECT_EQ(Run({"submit", "p", "-n", "fourth", "--no-code"}).code, 0);
  EXPECT_FALSE(Submitted().has_code());
}

TEST_F(SubmitFolderTest, ACommandTakesAFolderAlongIfItIsToldTo) {
  EXPECT_EQ(Run({"submit", "--code", "p", "--", "python3", "train.py"}).code, 0);
  EXPECT_TRUE(Submitted().has_code());
  EXPECT_EQ(Submitted().working_directory(), "");
  folder_.Write("p/sub/x", "x");
  EXPECT_EQ(Run({"submit", "--code", "p", "--workdir", "sub", "--", "true"}).code, 0);
  EXPECT_EQ(Submitted().working_directory(), "sub");
  EXPECT_EQ(Run({"submit", "--code", "p", "--no-code", "--", "true"}).code, 2);
  EXPECT_EQ(Run({"submit", "-d", "File", "--", "true"}).code, 2);
}

TEST_F(SubmitFolderTest, AFolderMayHoldAnotherFile) {
  std::filesystem::rename(folder_.path() + "/p/adaptdljob.yaml", folder_.path() + "/p/adaptdljob.yml");
  EXPECT_EQ(Run({"submit", "p"}).code, 0);
  // Also one that is named from here, as AdaptDL's own command has it.
  std::filesystem::rename(folder_.path() + "/p/adaptdljob.yml", folder_.path() + "/p/job.yml");
  EXPECT_EQ(Run({"submit", "p", "-f", "job.yml", "-n", "a"}).code, 0);
  EXPECT_EQ(Run({"submit", "p", "-f", "p/job.yml", "-n", "b"}).code, 0);
}

TEST_F(SubmitFolderTest, AnImageIsWarnedOfOnce) {
  folder_.Write("p/Dockerfile", "FROM python:3.7-slim\nCOPY train.py /root/train.py\n");
  folder_.Write("p/adaptdljob.yaml", absl::StrCat(kFolderJobFile, "        image: registry/train:1\n"));
  EXPECT_EQ(Run({"submit", "p"}).err.find("warning: "), 0u);
  folder_.Write("p/other.yaml", R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: hello-}
spec: {template: {spec: {containers: [{command: [python3, /root/train.py]}]}}}
)");
  const ProgramResult result = Run({"submit", "p", "-f", "other.yaml"});
  EXPECT_THAT(
      result.err,
      HasSubstr("warning: nodes run the command as it is: p/Dockerfile is not built; of the folder are "
                "taken /root/train.py as train.py"));
  EXPECT_THAT(Submitted().command(), ElementsAre("python3", "train.py"));
}

TEST_F(SubmitFolderTest, DemandsGoWithTheJob) {
  const ProgramResult result = Run({"submit", "p", "--gpu-type", "A100", "--gpu-type", "H100",
                                    "--node-selector", "disk=ssd", "--deadline", "2026-12-02T08:00:00Z"});
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::JobSpec spec = supervisor_.submissions().front().job().spec();
  EXPECT_THAT(spec.template_().placement().gpu_types(), ElementsAre("A100", "H100"));
  EXPECT_EQ(spec.template_().placement().node_selector().at("disk"), "ssd");
  EXPECT_EQ(spec.deadline().seconds(), 1'796'198'400);
  EXPECT_EQ(spec.template_().data_sets(0).url(), "s3://bucket/images");
  EXPECT_THAT(
      Run({"describe", "folder"}).out,
      AllOf(HasSubstr("Deadline:          Dec-02 08:00:00 UTC\n"), HasSubstr("disk=ssd"), HasSubstr("A100"),
            HasSubstr("Data:              images (s3://bucket/images)\n"), HasSubstr("Code:              ")));
  EXPECT_EQ(Run({"submit", "--deadline", "tomorrow", "--", "true"}).code, 2);
  EXPECT_EQ(Run({"submit", "--node-selector", "ssd", "--", "true"}).code, 2);
}

}  // namespace
}  // namespace adaptdl::cli
