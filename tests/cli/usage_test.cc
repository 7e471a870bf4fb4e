// What the command makes of its words, by the real program: usage, completion, names that are none.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using UsageTest = CommandTest;

TEST_F(UsageTest, OffersNamesOfJobsAndNodes) {
  supervisor_.AddJob(PendingJob("train-a"));
  v1::Job elsewhere = PendingJob("train-b");
  elsewhere.set_namespace_("vision");
  supervisor_.AddJob(elsewhere);
  v1::Node node;
  node.set_node_id("node-7");
  node.mutable_status()->set_phase(v1::NODE_PHASE_READY);
  supervisor_.AddNode(node);
  EXPECT_EQ(Run({"__complete", "--", "logs", "tr"}).out, "train-a\tPending (Unschedulable)\n:none\n");
  EXPECT_EQ(Run({"__complete", "--", "--namespace", "vision", "logs", "-f", ""}).out,
            "train-b\tPending (Unschedulable)\n:none\n");
  EXPECT_EQ(Run({"__complete", "--", "cancel", "--namespace=vision", "train-b", "tr"}).out,
            "train-b\tPending (Unschedulable)\n:none\n");
  EXPECT_EQ(Run({"__complete", "--", "describe", "vision/"}).out,
            "vision/train-b\tPending (Unschedulable)\n:none\n");
  EXPECT_EQ(Run({"__complete", "--", "describe", "train-a", "tr"}).out, ":none\n");
  EXPECT_EQ(Run({"__complete", "--", "drain", "n"}).out, "node-7\tReady\n:none\n");
  EXPECT_EQ(Run({"__complete", "--", "submit", "--", "x"}).out, ":files\n");
  EXPECT_EQ(Run({"__complete", "--", "cluster", "up", "--dir", ""}).out, ":files\n");
  EXPECT_EQ(Run({"__complete", "--", "ls", "--sort=st"}).out, "--sort=start\t\n:none\n");
  EXPECT_EQ(Run({"__complete"}).code, 0);
}

TEST_F(UsageTest, RefusesWrongUsage) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"lx"},
                                             {"ls", "--nonsense"},
                                             {"ls", "-o", "xml"},
                                             {"logs"},
                                             {"logs", "a", "--rank", "x"},
                                             {"describe", "a/b/c"},
                                             {"describe", "/a"},
                                             {"ls", "--", "x"},
                                             {"cluster"},
                                             {"cluster", "sideways"}}) {
    const ProgramResult result = Run(arguments);
    EXPECT_EQ(result.code, 2) << arguments.back();
    EXPECT_THAT(result.err, StartsWith("error: "));
    EXPECT_THAT(result.out, IsEmpty());
  }
  const ProgramResult bare = Run({});
  EXPECT_EQ(bare.code, 2);
  EXPECT_THAT(bare.out, IsEmpty());
  EXPECT_THAT(bare.err, HasSubstr("List jobs")) << "who names no command is told which there are";
  EXPECT_THAT(Run({"lx"}).err, HasSubstr("lx is no command of adaptdl"));
  EXPECT_EQ(Run({"--help"}).code, 0);
  EXPECT_THAT(Run({"submit", "--help"}).out, HasSubstr("--follow"));
}

TEST_F(UsageTest, AsksWhatWasMeantByAWordThatItDoesNotKnow) {
  const auto error = [&](const std::vector<std::string>& arguments) {
    const ProgramResult result = Run(arguments);
    EXPECT_EQ(result.code, 2) << arguments.back();
    return result.err;
  };
  EXPECT_EQ(error({"submit", "--name", "a", "--cpu", "2", "--", "train"}),
            "error: --cpu is no flag of adaptdl submit; did you mean --cpus? See adaptdl submit --help\n");
  EXPECT_THAT(
      error({"submit", "--replicas=2", "--", "train"}),
      HasSubstr("--replicas is no flag of adaptdl submit; did you mean --min-replicas, --max-replicas"));
  EXPECT_THAT(error({"ls", "--namespaces", "a"}), HasSubstr("did you mean --namespace?"));
  EXPECT_THAT(error({"describe", "--outptu", "json"}), HasSubstr("--outptu is no flag of adaptdl describe"))
      << "not that JOB is required";
  EXPECT_THAT(error({"describ", "a"}), HasSubstr("describ is no command of adaptdl; did you mean describe?"));
  EXPECT_THAT(error({"cluster", "stats"}), HasSubstr("did you mean status?"));
  EXPECT_THAT(error({"describe"}), HasSubstr("JOB"));
  // As other tools call it.
  EXPECT_THAT(error({"scale", "a"}), HasSubstr("scale is no command of adaptdl; did you mean update?"));
}

TEST_F(UsageTest, TellsItsVersion) { EXPECT_THAT(Run({"version"}).out, StartsWith("adaptdl ")); }

}  // namespace
}  // namespace adaptdl::cli
