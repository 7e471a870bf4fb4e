// "adaptdl debug" and "adaptdl doctor" by the real program, against a made-up supervisor.

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SupportTest : public CommandTest {
 protected:
  // What is in the file of the archive, which is unpacked by what everybody has.
  std::string Unpacked(const std::string& name) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (absl::StrCat(entry.path().parent_path().filename().string(), "/",
                       entry.path().filename().string()) == name ||
          entry.path().filename() == name) {
        return ReadWholeFile(entry.path().string()).value_or("");
      }
    }
    return "";
  }
};

TEST_F(SupportTest, PacksAllThatIsKnownOfAJobWithoutItsSecrets) {
  v1::Job job = EndedJob("a", v1::JOB_PHASE_FAILED);
  v1::EnvironmentVariable* variable = job.mutable_spec()->mutable_template_()->add_env();
  variable->set_name("WANDB_API_KEY");
  variable->set_value("hunter2");
  supervisor_.AddJob(job);
  v1::Event event;
  event.set_id(1);
  event.set_job("a");
  event.set_reason("ReplicaFailed");
  supervisor_.AddEvent(event);
  v1::StreamLogsResponse logs;
  logs.add_lines()->set_text("one");
  logs.add_lines()->set_text("two");
  logs.mutable_lines(1)->set_rank(1);
  supervisor_.AddLogs(logs);
  v1::StreamLogsResponse warning;
  warning.set_warning("the log of r2 is gone with its node");
  supervisor_.AddLogs(warning);

  const ProgramResult result = Run({"debug", "a", "--tail", "7", "--file", "bundle.tar.zst"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "bundle.tar.zst\n");
  EXPECT_EQ(supervisor_.last_logs_request().tail_lines(), 7);
  const std::filesystem::path bundle = folder_.path() + "/bundle.tar.zst";
  EXPECT_EQ(std::filesystem::status(bundle).permissions(), std::filesystem::perms(0600));
  const std::string unpack = absl::StrCat("cd ", folder_.path(), " && tar -xf bundle.tar.zst");
  ASSERT_EQ(std::system(unpack.c_str()), 0);

  EXPECT_THAT(Unpacked("job.json"), HasSubstr("WANDB_API_KEY"));
  EXPECT_THAT(Unpacked("job.json"), HasSubstr("<redacted>"));
  EXPECT_THAT(Unpacked("describe.txt"), HasSubstr("Failed"));
  EXPECT_THAT(Unpacked("events.json"), HasSubstr("ReplicaFailed"));
  EXPECT_THAT(Unpacked("logs/group-0-rank-1.txt"), HasSubstr("two"));
  EXPECT_THAT(Unpacked("versions.json"), HasSubstr("adaptdl"));
  EXPECT_THAT(Unpacked("README.txt"), HasSubstr("missing.txt"));
  // This supervisor knows neither who asks nor histories.
  EXPECT_THAT(Unpacked("missing.txt"), HasSubstr("logs: the log of r2 is gone with its node"));
  EXPECT_THAT(Unpacked("missing.txt"), HasSubstr("history.json: "));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(ReadWholeFile(entry.path().string()).value_or("hunter2"), Not(HasSubstr("hunter2")))
        << entry.path();
  }

  // Nothing is written over.
  EXPECT_EQ(Run({"debug", "a", "--file", "bundle.tar.zst"}).code, 1);
  EXPECT_EQ(Run({"debug", "ghost"}).err, "error: job ghost does not exist\n");
}

TEST_F(SupportTest, TheDoctorsExitCodeSaysHowItIs) {
  const ProgramResult nobody = Run({"doctor", "--supervisor", "127.0.0.1:1"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.out, HasSubstr("FAILURE   supervisor 127.0.0.1:1"));
  EXPECT_THAT(nobody.out, HasSubstr("What helps"));
  const ProgramResult found = Run({"doctor", "-o", "json"});
  const nlohmann::json document = nlohmann::json::parse(found.out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << found.out;
  EXPECT_EQ(document["checks"][0]["verdict"], "ok");
  // The made-up one knows no identities, which is one of the things that must be right.
  EXPECT_EQ(document["verdict"], "FAILURE");
  EXPECT_EQ(found.code, 1);
}

TEST_F(SupportTest, TheDoctorMeasuresOnlyBetweenNodeWorkers) {
  EXPECT_EQ(Run({"doctor", "--node", "n0"}).code, 2);
  const ProgramResult result = Run({"doctor", "--bandwidth", "--kubernetes"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("not on Kubernetes"));
}

}  // namespace
}  // namespace adaptdl::cli
