// What a job file must not hold, and what its author is told.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobfile/document.h"
#include "libs/jobfile/job_file.h"

namespace adaptdl::jobfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Lines 1 to 11; METADATA, SPEC, POD and CONTAINER take further fields.
constexpr char kFrame[] = R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata:
  {METADATA}
spec:
  {SPEC}
  template:
    spec:
      {POD}
      containers:
      - {CONTAINER}
)";

struct Fill {
  std::string metadata = "name: small";
  std::string spec = "maxReplicas: 4";
  std::string pod = "terminationGracePeriodSeconds: 1";
  std::string container = "command: [train]";
};

std::string Text(const Fill& fill) {
  return absl::StrReplaceAll(kFrame, {{"{METADATA}", fill.metadata},
                                      {"{SPEC}", fill.spec},
                                      {"{POD}", fill.pod},
                                      {"{CONTAINER}", fill.container}});
}

// The lines of the refusal; one that says so if there is none.
std::vector<std::string> ProblemsOfText(const std::string& text) {
  const auto file = ParseJobFile(text, "job.yaml", {});
  if (file.ok()) return {"accepted"};
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  return absl::StrSplit(file.status().message(), '\n');
}

std::vector<std::string> Problems(const Fill& fill) { return ProblemsOfText(Text(fill)); }

TEST(RefusalTest, FrameItselfIsGood) { EXPECT_THAT(Problems(Fill{}), ElementsAre("accepted")); }

TEST(RefusalTest, NamesUnknownFieldsAndWhatWasMeant) {
  EXPECT_THAT(
      Problems({.spec = "maxReplica: 4"}),
      ElementsAre("job.yaml:6: spec.maxReplica is not a known field; did you mean spec.maxReplicas?"));
  EXPECT_THAT(Problems({.metadata = "name: a\n  lables: {}"}),
              ElementsAre("job.yaml:5: metadata.lables is not a known field; did you mean metadata.labels?"));
  EXPECT_THAT(
      Problems({.container = "command: [a]\n        envs: []"}),
      ElementsAre("job.yaml:12: spec.template.spec.containers[0].envs is not a known field; did you mean "
                  "spec.template.spec.containers[0].env?"));
  EXPECT_THAT(Problems({.spec = "zzzzzzzz: 1"}),
              ElementsAre("job.yaml:6: spec.zzzzzzzz is not a known field"));
  EXPECT_THAT(ProblemsOfText(Text({}) + "speck: 1\n"),
              ElementsAre("job.yaml:12: speck is not a known field; did you mean spec?"));
  EXPECT_THAT(Problems({.spec = "<<: {minReplicas: 1}"}),
              ElementsAre(HasSubstr("merge keys are not supported")));
}

TEST(RefusalTest, NamesWrongTypes) {
  EXPECT_THAT(Problems({.spec = "minReplicas: two"}),
              ElementsAre("job.yaml:6: spec.minReplicas must be a whole number, not \"two\""));
  EXPECT_THAT(Problems({.spec = "minReplicas: \"2\""}),
              ElementsAre("job.yaml:6: spec.minReplicas must be a whole number, not \"2\""));
  EXPECT_THAT(Problems({.spec = "minReplicas: 1.5"}),
              ElementsAre("job.yaml:6: spec.minReplicas must be a whole number, not the number 1.5"));
  EXPECT_THAT(Problems({.spec = "preemptible: yes"}),
              ElementsAre("job.yaml:6: spec.preemptible must be true or false, not the truth value yes"));
  EXPECT_THAT(Problems({.metadata = "name: [a]"}),
              ElementsAre("job.yaml:4: metadata.name must be a text, not a list"));
  EXPECT_THAT(
      Problems({.container = "command: train"}),
      ElementsAre("job.yaml:11: spec.template.spec.containers[0].command must be a list, not \"train\""));
  EXPECT_THAT(
      Problems({.container = "command: [train, 5]"}),
      ElementsAre("job.yaml:11: spec.template.spec.containers[0].command[1] must be a text, not the number "
                  "5; put it in quotes: \"5\""));
  EXPECT_THAT(
      Problems({.container = "{command: [a], env: [{name: A, value: true}]}"}),
      ElementsAre(HasSubstr("env[0].value must be a text, not the truth value true; put it in quotes")));
  EXPECT_THAT(Problems({.pod = "tolerations: 5"}),
              ElementsAre(HasSubstr("spec.template.spec.tolerations must be a list")));
}

TEST(RefusalTest, NamesWrongValues) {
  EXPECT_THAT(Problems({.spec = "minReplicas: -1"}),
              ElementsAre("job.yaml:6: spec.minReplicas must lie between 0 and 16384, not \"-1\""));
  EXPECT_THAT(Problems({.spec = "maxReplicas: 0"}),
              ElementsAre(HasSubstr("spec.maxReplicas must lie between 1 and 16384")));
  EXPECT_THAT(Problems({.spec = "maxReplicas: 99999999999999999999"}),
              ElementsAre(HasSubstr("spec.maxReplicas must lie between")));
  EXPECT_THAT(Problems({.spec = "minReplicas: 20000"}),
              ElementsAre("job.yaml:6: spec.minReplicas must lie between 0 and 16384, not \"20000\""));
  EXPECT_THAT(Problems({.spec = "maxRestarts: 1001"}), ElementsAre(HasSubstr("between 0 and 1000")));
  EXPECT_THAT(Problems({.pod = "terminationGracePeriodSeconds: 3601"}),
              ElementsAre(HasSubstr("terminationGracePeriodSeconds must lie between 0 and 3600")));
  EXPECT_THAT(Problems({.spec = "{minReplicas: 3, maxReplicas: 2}"}).front(), HasSubstr("job.yaml:"));
  EXPECT_THAT(Problems({.spec = "minReplicas: 3\n  maxReplicas: 2"}),
              ElementsAre(HasSubstr("job.yaml:6: spec.minReplicas is 3, more than spec.maxReplicas, 2")));
  EXPECT_THAT(Problems({.spec = "rescale: warm"}),
              ElementsAre("job.yaml:6: spec.rescale must be in-place or restart, not \"warm\""));
  EXPECT_THAT(Problems({.pod = "terminationGracePeriodSeconds: -5"}),
              ElementsAre(HasSubstr("terminationGracePeriodSeconds must lie between 0")));
}

TEST(RefusalTest, NamesSizesThatTheJobCannotHave) {
  EXPECT_THAT(Problems({.spec = "allowedReplicas: 2"}),
              ElementsAre("job.yaml:6: spec.allowedReplicas must be a list, not the number 2"));
  EXPECT_THAT(Problems({.spec = "allowedReplicas: [1, two]"}),
              ElementsAre("job.yaml:6: spec.allowedReplicas[1] must be a whole number, not \"two\""));
  EXPECT_THAT(Problems({.spec = "allowedReplicas: [0]"}),
              ElementsAre(HasSubstr("spec.allowedReplicas[0] must lie between 1 and 16384")));
  EXPECT_THAT(Problems({.spec = "allowedReplicas: [16385]"}),
              ElementsAre(HasSubstr("spec.allowedReplicas[0] must lie between 1 and 16384")));
  EXPECT_THAT(Problems({.spec = "allowedReplicas: [2, 2]"}),
              ElementsAre("job.yaml:6: spec.allowedReplicas[1] is 2, after 2; list the numbers in ascending "
                          "order, each once"));
  EXPECT_THAT(Problems({.spec = "minReplicas: 3\n  maxReplicas: 7\n  allowedReplicas: [1, 2, 8]"}),
              ElementsAre(HasSubstr("job.yaml:8: spec.allowedReplicas holds no number from")));
  EXPECT_THAT(Problems({.spec = "minReplicas: 3\n  allowedReplicas: [1, 4]"}), ElementsAre("accepted"));
  std::string many = "allowedReplicas: [1";
  for (int i = 2; i <= 65; ++i) absl::StrAppend(&many, ", ", i);
  EXPECT_THAT(Problems({.spec = many + "]"}), ElementsAre(HasSubstr("has 65 entries; keep to 64")));
  EXPECT_THAT(Problems({.spec = "priority: 1001"}),
              ElementsAre("job.yaml:6: spec.priority must lie between -1000 and 1000, not \"1001\""));
}

TEST(RefusalTest, NamesBadNames) {
  EXPECT_THAT(Problems({.metadata = "name: Small_one"}),
              ElementsAre(StartsWith("job.yaml:4: metadata.name must be 1 to 63 lower-case letters")));
  EXPECT_THAT(Problems({.metadata = absl::StrCat("name: ", std::string(64, 'a'))}),
              ElementsAre(HasSubstr("(64 characters)")));
  EXPECT_THAT(Problems({.metadata = "name: a-"}), ElementsAre(HasSubstr("metadata.name must be")));
  EXPECT_THAT(Problems({.metadata = absl::StrCat("generateName: ", std::string(58, 'a'))}),
              ElementsAre(HasSubstr("metadata.generateName must be 1 to 57")));
  EXPECT_THAT(Problems({.metadata = "name: a\n  namespace: ../b"}),
              ElementsAre(HasSubstr("job.yaml:5: metadata.namespace must be")));
  EXPECT_THAT(Problems({.metadata = absl::StrCat("name: a\n  labels: {k: ", std::string(64, 'v'), "}")}),
              ElementsAre(HasSubstr("metadata.labels.k")));
}

TEST(RefusalTest, NamesWhatIsMissing) {
  EXPECT_THAT(ProblemsOfText("apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\n"),
              ElementsAre("job.yaml:1: metadata is missing; give the job a metadata.name",
                          "job.yaml:1: spec is missing; it says what to run"));
  EXPECT_THAT(Problems({.metadata = "labels: {}"}), ElementsAre(HasSubstr("metadata.name is missing")));
  EXPECT_THAT(
      Problems({.container = "name: main"}),
      ElementsAre(HasSubstr("spec.template.spec.containers[0].command is missing; node workers run")));
  EXPECT_THAT(Problems({.container = "command: []"}),
              ElementsAre(HasSubstr("command must begin with a program")));
  EXPECT_THAT(ProblemsOfText("[]"), ElementsAre(HasSubstr("must be a map of fields")));
  EXPECT_THAT(ProblemsOfText("kind: Job\napiVersion: batch/v1\nmetadata: {name: a}\nspec: {}\n"),
              ElementsAre("job.yaml:1: kind must be AdaptDLJob, not \"Job\"",
                          "job.yaml:2: apiVersion must be adaptdl.petuum.com/v1, not \"batch/v1\"",
                          "job.yaml:4: spec.template is missing; it holds the container to run"));
}

TEST(RefusalTest, RefusesWhatAProgramWouldMiss) {
  EXPECT_THAT(Problems({.container = "{command: [a], env: [{name: A, valueFrom: {fieldRef: {}}}]}"}),
              ElementsAre(HasSubstr("spec.template.spec.containers[0].env[0].valueFrom is not supported")));
  EXPECT_THAT(Problems({.container = "{command: [a], envFrom: []}"}),
              ElementsAre(HasSubstr("spec.template.spec.containers[0].envFrom is not supported")));
  EXPECT_THAT(Problems({.container = "{command: [a], env: [{name: ADAPTDL_JOB_ID, value: x}]}"}),
              ElementsAre(HasSubstr("env[0].name is \"ADAPTDL_JOB_ID\"; the system sets this one itself")));
  EXPECT_THAT(Problems({.container = "{command: [a], env: [{name: ADAPTDL_KEEP_MEMORY, value: '0'}]}"}),
              ElementsAre("accepted"));
  EXPECT_THAT(Problems({.container = "{command: [a], env: [{name: A=B, value: x}]}"}),
              ElementsAre(HasSubstr("env[0].name must not be empty")));
  EXPECT_THAT(Problems({.container = "command: [\"a\\0b\"]"}), ElementsAre(HasSubstr("NUL")));
}

TEST(RefusalTest, NamesBadResources) {
  const auto problems = [](const std::string& resources) {
    return Problems({.container = absl::StrCat("{command: [a], resources: ", resources, "}")});
  };
  EXPECT_THAT(problems("{requests: {cpu: lots}}"),
              ElementsAre(HasSubstr("resources.requests.cpu: \"lots\" is not a quantity")));
  EXPECT_THAT(problems("{requests: {cpu: -1}}"), ElementsAre(HasSubstr("is negative")));
  EXPECT_THAT(problems("{limits: {gpu: 1}}"), ElementsAre(HasSubstr("did you mean nvidia.com/gpu?")));
  EXPECT_THAT(problems("{requests: {memori: 1}}"), ElementsAre(HasSubstr("did you mean memory?")));
  EXPECT_THAT(problems("{limits: {nvidia.com/gpu: 1.5}}"), ElementsAre(HasSubstr("not a whole number")));
  EXPECT_THAT(problems("{limits: {nvidia.com/gpu: 5000000000}}"), ElementsAre(HasSubstr("5000000000 GPUs")));
  EXPECT_THAT(problems("{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}"),
              ElementsAre(HasSubstr("requests.nvidia.com/gpu must equal")));
  EXPECT_THAT(problems("{requests: {cpu: 2}, limits: {cpu: 1}}"),
              ElementsAre(HasSubstr("requests.cpu is more than")));
  EXPECT_THAT(problems("{limit: {cpu: 1}}"), ElementsAre(HasSubstr("did you mean")));
}

TEST(RefusalTest, ReportsAllProblemsInOrderOfLines) {
  EXPECT_THAT(Problems({.metadata = "name: BAD", .spec = "minReplicas: x", .container = "cmd: [a]"}),
              ElementsAre(HasSubstr("job.yaml:4:"), HasSubstr("job.yaml:6:"), HasSubstr("job.yaml:11:"),
                          HasSubstr("job.yaml:11:")));
}

TEST(RefusalTest, RefusesFieldsGivenTwice) {
  EXPECT_THAT(Problems({.spec = "maxReplicas: 2\n  maxReplicas: 3"}),
              ElementsAre("job.yaml:7: spec.maxReplicas is given twice; keep one"));
  EXPECT_THAT(Problems({.metadata = "name: a\n  labels: {x: a, x: b}"}),
              ElementsAre(HasSubstr("given twice")));
}

TEST(RefusalTest, RefusesTextThatIsNoYaml) {
  EXPECT_THAT(ProblemsOfText("kind: ["), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(ProblemsOfText("a: b\n c: d\n  - e"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(ProblemsOfText(""), ElementsAre(HasSubstr("job.yaml:1: ")));
  EXPECT_THAT(ProblemsOfText("kind: \xff"), ElementsAre("job.yaml:1: not UTF-8 text"));
  EXPECT_THAT(ProblemsOfText("kind: a\nb: \xc0\xaf"), ElementsAre("job.yaml:2: not UTF-8 text"));
  EXPECT_THAT(ProblemsOfText(std::string("a: b\0", 5)), ElementsAre(HasSubstr("NUL")));
  EXPECT_THAT(ProblemsOfText("{[a]: b}"), ElementsAre(HasSubstr("name must be a text")));
}

TEST(RefusalTest, RefusesASecondDocument) {
  EXPECT_THAT(ProblemsOfText(Text({}) + "---\n" + Text({})), ElementsAre(HasSubstr("a second document")));
  EXPECT_THAT(ProblemsOfText("---\n" + Text({}) + "---\n"), ElementsAre("accepted"));
}

TEST(RefusalTest, BoundsWhatAFileMayCost) {
  EXPECT_THAT(ProblemsOfText(std::string(kMaxFileBytes + 1, ' ')),
              ElementsAre(HasSubstr("larger than 1048576 bytes")));
  EXPECT_THAT(ProblemsOfText("a: " + std::string(100, '[') + std::string(100, ']')),
              ElementsAre(HasSubstr("nested more than 64 levels deep")));
  EXPECT_THAT(ProblemsOfText("a: " + std::string(400'000, '[')), ElementsAre(HasSubstr("job.yaml:1: ")));
  std::string items = "a: [";
  for (int i = 0; i < 200'000; ++i) items += "b,";
  EXPECT_THAT(ProblemsOfText(items + "]"), ElementsAre(HasSubstr("more than 100000 values")));
}

TEST(RefusalTest, RefusesTheBillionLaughs) {
  std::string text = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n";
  for (int i = 1; i < 10; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) absl::StrAppend(&text, j == 0 ? "" : ", ", "*a", i - 1);
    absl::StrAppend(&text, "]\n");
  }
  EXPECT_THAT(ProblemsOfText(text), ElementsAre(HasSubstr("more than 100000 values")));
  EXPECT_THAT(ProblemsOfText("a: &a [*a]"), ElementsAre(HasSubstr("job.yaml:1: ")));
}

}  // namespace
}  // namespace adaptdl::jobfile
