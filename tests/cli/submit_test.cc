// "adaptdl submit" by the real program.

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFile[] = R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {name: from-file}
spec:
  maxReplicas: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - command: [train]
        args: [--epochs, "1"]
        workingDir: data
)";

class SubmitTest : public CommandTest {
 protected:
  // The only submission.
  v1::SubmitJobRequest Submitted() {
    const std::vector<v1::SubmitJobRequest> submissions = supervisor_.submissions();
    EXPECT_EQ(submissions.size(), 1u);
    return submissions.empty() ? v1::SubmitJobRequest() : submissions.front();
  }
};

TEST_F(SubmitTest, TakesAFile) {
  const std::string path = folder_.Write("jobs/one.yaml", kFile);
  folder_.Write("jobs/data/a", "1");
  const ProgramResult result = Run({"submit", path});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "job default/from-file submitted\n");
  EXPECT_EQ(
      result.err,
      "warning: one.yaml:8: spec.template.spec.restartPolicy has no effect: the supervisor restarts replicas "
      "by spec.maxRestarts\n" +
          folder_.path() + "/jobs goes along with the job: 2 files, 250B\n");
  const v1::SubmitJobRequest request = Submitted();
  EXPECT_EQ(request.request_id().size(), 32u);
  EXPECT_EQ(request.job().name(), "from-file");
  const v1::ReplicaTemplate& replica = request.job().spec().template_();
  EXPECT_THAT(replica.command(), ElementsAre("train"));
  EXPECT_THAT(replica.args(), ElementsAre("--epochs", "1"));
  EXPECT_EQ(replica.working_directory(), "data");
}

TEST_F(SubmitTest, TakesAFolderAPrefixANamespaceAndArguments) {
  folder_.Write("project/adaptdljob.yaml", "not: read\n");
  folder_.Write("project/other.yaml", kFile);
  folder_.Write("project/data/a", "1");
  const ProgramResult result = Run({"submit", "project", "-f", "other.yaml", "-n", "mine", "--namespace",
                                    "team", "--", "--epochs", "5", "--", "-x"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "job team/mine-x7k2p submitted\n");
  const v1::SubmitJobRequest request = Submitted();
  EXPECT_EQ(request.generate_name(), "mine-");
  EXPECT_EQ(request.job().name(), "");
  EXPECT_THAT(request.job().spec().template_().args(), ElementsAre("--epochs", "5", "--", "-x"));
}

TEST_F(SubmitTest, DropsArgumentsForASeparatorAlone) {
  folder_.Write("project/adaptdljob.yaml", kFile);
  folder_.Write("project/data/a", "1");
  EXPECT_EQ(Run({"submit", "project", "--"}).code, 0);
  EXPECT_THAT(Submitted().job().spec().template_().args(), IsEmpty());
}

TEST_F(SubmitTest, TakesACommand) {
  const ProgramResult result = Run({"submit",
                                    "--min-replicas",
                                    "1",
                                    "--max-replicas",
                                    "3",
                                    "--allowed-replicas",
                                    "1,2,4",
                                    "--priority",
                                    "-10",
                                    "--cpus",
                                    "500m",
                                    "--memory",
                                    "1Gi",
                                    "--gpus",
                                    "1",
                                    "--max-restarts",
                                    "0",
                                    "--env",
                                    "A=b=c",
                                    "--label",
                                    "team=vision",
                                    "--",
                                    "./Train_it.py",
                                    "--epochs",
                                    "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "job default/train-it-py-x7k2p submitted\n");
  const v1::Job job = Submitted().job();
  EXPECT_EQ(job.labels().at("team"), "vision");
  EXPECT_EQ(job.spec().min_replicas(), 1);
  EXPECT_EQ(job.spec().max_replicas(), 3);
  EXPECT_THAT(job.spec().allowed_replicas(), ElementsAre(1, 2, 4));
  EXPECT_EQ(job.spec().priority(), -10);
  EXPECT_EQ(job.spec().max_restarts(), 0);
  const v1::ReplicaTemplate& replica = job.spec().template_();
  EXPECT_THAT(replica.command(), ElementsAre("./Train_it.py", "--epochs", "1"));
  EXPECT_EQ(replica.env(0).name(), "A");
  EXPECT_EQ(replica.env(0).value(), "b=c");
  EXPECT_EQ(replica.resources().cpu_millis(), 500);
  EXPECT_EQ(replica.resources().memory_bytes(), 1 << 30);
  EXPECT_EQ(replica.resources().gpus(), 1);
  EXPECT_EQ(replica.working_directory() + "/", folder_.path() + "/");
}

TEST_F(SubmitTest, TheRequirementsGoWithTheJob) {
  folder_.Write("requirements.txt", "numpy==1.24\n");
  EXPECT_EQ(
      Run({"submit", "--python", "--requirements", "requirements.txt", "--", "python", "train.py"}).code, 0);
  const v1::PythonEnvironment python = Submitted().job().spec().template_().python();
  EXPECT_EQ(python.interpreter(), "python3");
  EXPECT_EQ(python.requirements(), "numpy==1.24\n");
}

TEST_F(SubmitTest, AnEnvironmentMayBeEmptyAndOfAnotherPython) {
  EXPECT_EQ(Run({"submit", "--python=python3.12", "--", "python", "train.py"}).code, 0);
  const v1::ReplicaTemplate replica = Submitted().job().spec().template_();
  EXPECT_EQ(replica.python().interpreter(), "python3.12");
  EXPECT_EQ(replica.python().requirements(), "");
  EXPECT_THAT(replica.command(), ElementsAre("python", "train.py"));
}

TEST_F(SubmitTest, AJobFileCanBeGivenRequirementsToo) {
  const std::string path = folder_.Write("jobs/one.yaml", kFile);
  folder_.Write("jobs/data/a", "1");
  folder_.Write("requirements.txt", "torch\n");
  EXPECT_EQ(Run({"submit", path, "--requirements", "requirements.txt"}).code, 0);
  EXPECT_EQ(Submitted().job().spec().template_().python().requirements(), "torch\n");
}

TEST_F(SubmitTest, RequirementsThatTheNodesCannotHaveAreRefused) {
  folder_.Write("requirements.txt", "numpy\n-r more.txt\n");
  const ProgramResult result = Run({"submit", "--requirements", "requirements.txt", "--", "true"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("requirements.txt, line 2: \"-r more.txt\""));
  folder_.Write("binary.txt", "\xff\xfe");
  EXPECT_THAT(Run({"submit", "--requirements", "binary.txt", "--", "true"}).err,
              HasSubstr("is no UTF-8 text"));
  EXPECT_THAT(Run({"submit", "--requirements", "none.txt", "--", "true"}).err, HasSubstr("none.txt"));
  EXPECT_TRUE(supervisor_.submissions().empty());
}

TEST_F(SubmitTest, AJobMayCallTheApi) {
  EXPECT_EQ(Run({"submit", "--api-access", "--", "true"}).code, 0);
  EXPECT_TRUE(Submitted().job().spec().template_().api_access());
}

TEST_F(SubmitTest, AJobMayStartFromAnothersCheckpoint) {
  EXPECT_EQ(Run({"submit", "--start-from", "digits-7", "--", "true"}).code, 0);
  EXPECT_EQ(Submitted().job().spec().start_from().job(), "digits-7");
}

TEST_F(SubmitTest, KeepsOneRequestIdOverRetries) {
  supervisor_.FailNext(2);
  EXPECT_EQ(Run({"submit", "--name", "once", "--", "true"}).code, 0);
  const std::vector<v1::SubmitJobRequest> submissions = supervisor_.submissions();
  ASSERT_EQ(submissions.size(), 3u);
  EXPECT_EQ(submissions[0].request_id(), submissions[2].request_id());
}

TEST_F(SubmitTest, TellsWhatTheSupervisorRefuses) {
  supervisor_.AddJob(PendingJob("taken"));
  const ProgramResult result = Run({"submit", "--name", "taken", "--", "true"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "error: job.name taken is taken\n");
}

TEST_F(SubmitTest, TellsAllProblemsOfAFile) {
  const std::string path = folder_.Write("bad.yaml",
                                         "apiVersion: adaptdl.petuum.com/v1\n"
                                         "kind: AdaptDLJob\n"
                                         "metadata: {name: x}\n"
                                         "spec:\n"
                                         "  maxReplica: 2\n"
                                         "  minReplicas: many\n");
  const ProgramResult result = Run({"submit", path});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "error: bad.yaml:5: spec.maxReplica is not a known field; did you mean spec.maxReplicas?\n"
            "error: bad.yaml:5: spec.template is missing; it holds the container to run\n"
            "error: bad.yaml:6: spec.minReplicas must be a whole number, not \"many\"\n");
  EXPECT_TRUE(supervisor_.submissions().empty());
}

TEST_F(SubmitTest, SaysHowAProgramIsSubmitted) {
  folder_.Write("train",
                "\x7f"
                "ELF");
  folder_.Write("train.py", "print()");
  std::filesystem::permissions(folder_.path() + "/train", std::filesystem::perms::owner_all);
  ProgramResult result = Run({"submit", "train"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("train is a program, and no job file; to run it: adaptdl submit -- train\n"));
  EXPECT_THAT(Run({"submit", "train.py"}).err, HasSubstr("adaptdl submit -- python3 train.py"));
  result = Run({"submit", "train", "--epochs", "3"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("--epochs is no flag of adaptdl submit; a program and its flags stand behind"));
  // A job file is one, even where everything can be executed.
  const std::string path = folder_.Write("jobs/job.yaml", kFile);
  folder_.Write("jobs/data/a", "1");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  result = Run({"submit", path});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(SubmitTest, WarnsOfAProgramThatIsNotThere) {
  folder_.Write("bin/train", "");
  EXPECT_THAT(Run({"submit", "--", "bin/train"}).err, IsEmpty());
  EXPECT_THAT(Run({"submit", "--name", "in-path", "--", "train"}).err, IsEmpty()) << "one in PATH";
  const ProgramResult result = Run({"submit", "--name", "mistyped", "--", "bin/trian"});
  EXPECT_EQ(result.code, 0) << "the nodes may have it";
  EXPECT_THAT(result.err, HasSubstr("warning: bin/trian is not in "));
}

TEST_F(SubmitTest, RefusesWrongUsage) {
  folder_.Write("project/adaptdljob.yaml", kFile);
  EXPECT_EQ(Run({"submit"}).code, 2);
  EXPECT_EQ(Run({"submit", "--"}).code, 2);
  EXPECT_EQ(Run({"submit", "project", "--cpus", "2"}).code, 2);
  EXPECT_EQ(Run({"submit", "project/adaptdljob.yaml", "-f", "x"}).code, 2);
  EXPECT_EQ(Run({"submit", "--cpus", "many", "--", "true"}).code, 2);
  EXPECT_EQ(Run({"submit", "--env", "A", "--", "true"}).code, 2);
  EXPECT_THAT(Run({"submit", "--min-replicas", "4", "--max-replicas", "2", "--", "true"}).err,
              HasSubstr("--min-replicas 4 is more than --max-replicas 2"));
  EXPECT_EQ(Run({"submit", "--allowed-replicas", "1,x", "--", "true"}).code, 2);
  EXPECT_EQ(Run({"submit", "project", "--priority", "1"}).code, 2);
  EXPECT_EQ(Run({"submit", "project", "-n", "Bad_Name"}).code, 2);
  EXPECT_EQ(Run({"submit", "project", "--wait", "--follow"}).code, 2);
  EXPECT_THAT(Run({"submit", "nowhere"}).err, HasSubstr("nowhere does not exist"));
  EXPECT_THAT(Run({"submit", "project", "-f", "none.yaml"}).err,
              HasSubstr("project/none.yaml does not exist"));
  EXPECT_TRUE(supervisor_.submissions().empty());
}

TEST_F(SubmitTest, PrintsTheJobAsJson) {
  EXPECT_THAT(Run({"submit", "--name", "j", "-o", "json", "--", "true"}).out, HasSubstr("\"name\": \"j\""));
}

}  // namespace
}  // namespace adaptdl::cli
