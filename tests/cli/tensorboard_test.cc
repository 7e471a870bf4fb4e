// TensorBoards on clusters of node workers.

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/output.h"
#include "cli/tensorboard/boards.h"
#include "cli/tensorboard/event_mirror.h"
#include "gmock/gmock.h"
#include "libs/base/file.h"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EventMirrorTest, AppendsWhatIsNew) {
  const auto mirror = EventMirror::Create(1000);
  ASSERT_TRUE(mirror.ok()) << mirror.status();
  ASSERT_TRUE((*mirror)->Take("a", "events", 3, 0, "abc").ok());
  const std::string copy = (*mirror)->folder() + "/a/events";
  // Who has it open sees it grow.
  std::ifstream reader(copy);
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "abc");
  reader.clear();
  ASSERT_TRUE((*mirror)->Take("a", "events", 6, 0, "abcd").ok());
  ASSERT_TRUE((*mirror)->Take("a", "events", 6, 4, "ef").ok());
  reader >> text;
  EXPECT_EQ(text, "def");
  EXPECT_EQ((*mirror)->bytes(), 6);
}

TEST(EventMirrorTest, AFileThatIsShorterIsAnotherOne) {
  const auto mirror = EventMirror::Create(1000);
  ASSERT_TRUE(mirror.ok()) << mirror.status();
  ASSERT_TRUE((*mirror)->Take("a", "sub/events", 3, 0, "abc").ok());
  ASSERT_TRUE((*mirror)->Take("a", "sub/events", 2, 0, "xy").ok());
  EXPECT_EQ(ReadWholeFile((*mirror)->folder() + "/a/sub/events").value_or(""), "xy");
  EXPECT_EQ((*mirror)->bytes(), 2);
}

TEST(EventMirrorTest, RefusesWhatLeadsOutAndWhatIsTooMuch) {
  const auto mirror = EventMirror::Create(4);
  ASSERT_TRUE(mirror.ok()) << mirror.status();
  for (const char* path : {"", "../x", "a/../../x", "/etc/x", "a//b", "."}) {
    EXPECT_TRUE(absl::IsInvalidArgument((*mirror)->Take("job", path, 1, 0, "x"))) << path;
    EXPECT_TRUE(absl::IsInvalidArgument((*mirror)->Take(path, "events", 1, 0, "x"))) << path;
  }
  EXPECT_TRUE(absl::IsInvalidArgument((*mirror)->Take("job", "events", 9, 5, "x")));
  EXPECT_TRUE(absl::IsResourceExhausted((*mirror)->Take("job", "events", 5, 0, "12345")));
}

TEST(EventMirrorTest, ItsFolderGoesWithIt) {
  std::string folder;
  {
    const auto mirror = EventMirror::Create(10);
    ASSERT_TRUE(mirror.ok()) << mirror.status();
    ASSERT_TRUE((*mirror)->Take("job", "events", 1, 0, "x").ok());
    folder = (*mirror)->folder();
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

class TensorboardTest : public CommandTest {
 protected:
  // A job that logs to this TensorBoard.
  void AddLoggingJob(const std::string& name, v1::JobPhase phase, const std::string& board) {
    v1::Job job = EndedJob(name, phase);
    job.mutable_spec()->mutable_template_()->set_tensorboard(board);
    supervisor_.AddJob(job);
  }
};

TEST_F(TensorboardTest, ABoardIsTheJobsThatNameIt) {
  EXPECT_THAT(Run({"tensorboard", "list"}).err, HasSubstr("submit jobs with --tensorboard NAME"));
  AddLoggingJob("a", v1::JOB_PHASE_SUCCEEDED, "digits");
  AddLoggingJob("b", v1::JOB_PHASE_RUNNING, "digits");
  AddLoggingJob("c", v1::JOB_PHASE_RUNNING, "");
  const ProgramResult list = Run({"tensorboard", "list"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr("UNFINISHED"), HasSubstr("digits")));
  const ProgramResult json = Run({"tensorboard", "list", "-o", "json"});
  EXPECT_EQ(Json::parse(json.out)["tensorboards"],
            Json::parse(R"([{"name": "digits", "jobs": ["a", "b"], "unfinished": 1}])"));
  EXPECT_EQ(Run({"tensorboard", "create", "digits"}).code, 0);
  EXPECT_EQ(Run({"tensorboard", "create", "Digits!"}).code, 2);
  const ProgramResult kept = Run({"tensorboard", "delete", "digits"});
  EXPECT_EQ(kept.code, 1);
  EXPECT_THAT(kept.err, HasSubstr("adaptdl delete a b"));
  EXPECT_EQ(Run({"tensorboard", "delete", "other"}).code, 0);
}

TEST_F(TensorboardTest, SubmitNamesTheBoard) {
  EXPECT_EQ(Run({"submit", "--name", "a", "--tensorboard", "digits", "--", "true"}).code, 0);
  EXPECT_EQ(supervisor_.submissions()[0].job().spec().template_().tensorboard(), "digits");
}

TEST_F(TensorboardTest, ProxyShowsWhatJobsHaveLogged) {
  AddLoggingJob("a", v1::JOB_PHASE_SUCCEEDED, "digits");
  v1::FileChunk chunk;
  chunk.set_path("tensorboard/events.out.1");
  chunk.set_size(6);
  chunk.set_data("logged");
  supervisor_.AddChunk(chunk);
  // In the place of TensorBoard: tells how it was called, and what there is to see.
  const std::string program = folder_.path() + "/viewer";
  ASSERT_TRUE(
      WriteFileAtomically(program, "#!/bin/sh\necho \"$3 $4 $5 $6\"\ncat \"$2/a/events.out.1\"\nexit 7\n")
          .ok());
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  const ProgramResult shown = Run({"tensorboard", "proxy", "digits", "--program", program, "-p", "6006"});
  EXPECT_EQ(shown.code, 7) << shown.err;
  EXPECT_EQ(shown.out, "--host 127.0.0.1 --port 6006\nlogged");
  EXPECT_EQ(supervisor_.last_files_request().path(), "tensorboard");

  const ProgramResult none = Run({"tensorboard", "proxy", "other", "--program", program});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("submit one with --tensorboard other"));
  const ProgramResult missing = Run({"tensorboard", "proxy", "digits", "--program", "no-such-program"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("pip install tensorboard"));
}

}  // namespace
}  // namespace adaptdl::cli
