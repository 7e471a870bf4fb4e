#include "libs/jobfile/job_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::jobfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kSmallest[] = R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata:
  name: small
spec:
  template:
    spec:
      containers:
      - command: [train]
)";

constexpr char kFull[] = R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata:
  generateName: mnist-
  namespace: research
  labels: {team: vision, "a/b": "1"}
spec:
  minReplicas: 2
  maxReplicas: 8
  allowedReplicas: [1, 2, 4]
  priority: -10
  suspend: true
  apiAccess: true
  startFrom: digits-7
  preemptible: false
  maxRestarts: 5
  rescale: restart
  python:
    interpreter: python3.11
    requirements: |
      numpy==1.24
      torch
  template:
    spec:
      terminationGracePeriodSeconds: 45
      containers:
      - name: main
        image: example.com/train:1
        command: ["python3", "train.py"]
        args:
        - --epochs
        - "10"
        env:
        - name: MODE
          value: fast
        - {name: EMPTY}
        workingDir: /data
        resources:
          requests: {cpu: 2.007, memory: 1.5Gi}
          limits: {nvidia.com/gpu: 1, cpu: 4, example.com/fpga: "2"}
)";

TEST(JobFileTest, ReadsTheSmallestFile) {
  const auto file = ParseJobFile(kSmallest, "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->job.name(), "small");
  EXPECT_EQ(file->generate_name, "");
  EXPECT_EQ(file->job.namespace_(), "");
  EXPECT_THAT(file->job.spec().template_().command(), ElementsAre("train"));
  EXPECT_FALSE(file->job.spec().has_preemptible());
  EXPECT_FALSE(file->job.spec().has_max_restarts());
  EXPECT_FALSE(file->job.spec().template_().has_resources());
  EXPECT_FALSE(file->job.spec().template_().has_termination_grace_period());
  EXPECT_THAT(file->warnings, IsEmpty());
}

TEST(JobFileTest, ReadsEveryField) {
  const auto file = ParseJobFile(kFull, "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->warnings, IsEmpty());
  EXPECT_EQ(file->generate_name, "mnist-");
  EXPECT_EQ(file->job.namespace_(), "research");
  EXPECT_THAT(file->job.labels(), UnorderedElementsAre(Pair("team", "vision"), Pair("a/b", "1")));
  const v1::JobSpec& spec = file->job.spec();
  EXPECT_EQ(spec.min_replicas(), 2);
  EXPECT_EQ(spec.max_replicas(), 8);
  EXPECT_THAT(spec.allowed_replicas(), ElementsAre(1, 2, 4));
  EXPECT_EQ(spec.priority(), -10);
  EXPECT_TRUE(spec.suspend());
  EXPECT_TRUE(spec.template_().api_access());
  EXPECT_EQ(spec.start_from().job(), "digits-7");
  EXPECT_TRUE(spec.has_preemptible());
  EXPECT_FALSE(spec.preemptible());
  EXPECT_EQ(spec.max_restarts(), 5);
  EXPECT_EQ(spec.rescale(), v1::RESCALE_MODE_RESTART);
  EXPECT_EQ(spec.template_().python().interpreter(), "python3.11");
  EXPECT_EQ(spec.template_().python().requirements(), "numpy==1.24\ntorch\n");
  const v1::ReplicaTemplate& replica = spec.template_();
  EXPECT_EQ(replica.termination_grace_period().seconds(), 45);
  EXPECT_EQ(replica.image(), "example.com/train:1");
  EXPECT_THAT(replica.command(), ElementsAre("python3", "train.py"));
  EXPECT_THAT(replica.args(), ElementsAre("--epochs", "10"));
  ASSERT_EQ(replica.env_size(), 2);
  EXPECT_EQ(replica.env(0).name(), "MODE");
  EXPECT_EQ(replica.env(0).value(), "fast");
  EXPECT_EQ(replica.env(1).value(), "");
  EXPECT_EQ(replica.working_directory(), "/data");
  EXPECT_EQ(replica.resources().cpu_millis(), 2007);
  EXPECT_EQ(replica.resources().memory_bytes(), 1610612736);
  EXPECT_EQ(replica.resources().gpus(), 1);
  EXPECT_THAT(replica.resources().extended(), UnorderedElementsAre(Pair("example.com/fpga", 2)));
}

TEST(JobFileTest, RequestsWhatIsOnlyLimited) {
  const auto file = ParseJobFile(
      absl::StrCat(kSmallest, "        resources: {limits: {cpu: 500m, memory: 1Ki}}\n"), "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->job.spec().template_().resources().cpu_millis(), 500);
  EXPECT_EQ(file->job.spec().template_().resources().memory_bytes(), 1024);
}

TEST(JobFileTest, WarnsOfFieldsWithoutEffectByLine) {
  const auto file = ParseJobFile(absl::StrCat(kSmallest,
                                              "        imagePullPolicy: Always\n"
                                              "        ports: [{containerPort: 80, anything: [1]}]\n"
                                              "      - command: [sidecar]\n"
                                              "      restartPolicy: Never\n"
                                              "      volumes: []\n"
                                              "status: {phase: Running}\n"),
                                 "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(
      file->warnings,
      ElementsAre(HasSubstr("job.yaml:10: spec.template.spec.containers[0].imagePullPolicy has no effect"),
                  HasSubstr("job.yaml:11: spec.template.spec.containers[0].ports has no effect"),
                  HasSubstr("job.yaml:12: spec.template.spec.containers[1] has no effect"),
                  HasSubstr("job.yaml:13: spec.template.spec.restartPolicy has no effect"),
                  HasSubstr("job.yaml:14: spec.template.spec.volumes has no effect"),
                  HasSubstr("job.yaml:15: status has no effect")));
  EXPECT_THAT(file->job.spec().template_().command(), ElementsAre("train"));
}

TEST(JobFileTest, ReadsWhereReplicasMayBePlaced) {
  const auto file = ParseJobFile(absl::StrCat(kSmallest, R"(      nodeSelector: {disk: ssd}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: zone, operator: In, values: [a, b]}
              - {key: cores, operator: Gt, values: ["8"]}
              matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]
          preferredDuringSchedulingIgnoredDuringExecution: []
      tolerations:
      - {key: gpu, operator: Equal, value: a100, effect: NoSchedule}
      - {operator: Exists}
)"),
                                 "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->warnings, ElementsAre(HasSubstr("preferences are not kept")));
  const v1::Placement& placement = file->job.spec().template_().placement();
  EXPECT_THAT(placement.node_selector(), UnorderedElementsAre(Pair("disk", "ssd")));
  ASSERT_EQ(placement.node_terms_size(), 1);
  const v1::NodeSelectorTerm& term = placement.node_terms(0);
  EXPECT_THAT(term.labels(0).values(), ElementsAre("a", "b"));
  EXPECT_EQ(term.labels(1).operator_(), v1::NODE_OPERATOR_GREATER_THAN);
  EXPECT_EQ(term.fields(0).key(), "metadata.name");
  EXPECT_EQ(term.fields(0).operator_(), v1::NODE_OPERATOR_NOT_IN);
  EXPECT_EQ(placement.tolerations(0).value(), "a100");
  EXPECT_EQ(placement.tolerations(0).effect(), v1::TAINT_EFFECT_NO_SCHEDULE);
  EXPECT_TRUE(placement.tolerations(1).any_value());
}

TEST(JobFileTest, RefusesPlacementsThatMakeNoSense) {
  const auto problem = [](const std::string& pod) {
    return std::string(
        ParseJobFile(absl::StrCat(kSmallest, "      ", pod, "\n"), "job.yaml", {}).status().message());
  };
  EXPECT_THAT(problem("tolerations: [{key: a, operator: Is}]"),
              HasSubstr("tolerations[0].operator must be Exists or Equal, not \"Is\""));
  EXPECT_THAT(problem("tolerations: [{key: a, effect: Never}]"), HasSubstr("tolerations[0].effect must be"));
  EXPECT_THAT(problem("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
                      "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Of}]}]}}}"),
              HasSubstr("use In, NotIn, Exists, DoesNotExist, Gt or Lt"));
  EXPECT_THAT(problem("nodeSelector: {a: [b]}"), HasSubstr("nodeSelector.a must be"));
}

TEST(JobFileTest, KeepsTextsThatAreQuoted) {
  const auto file = ParseJobFile(
      absl::StrCat(kSmallest, "        args: [\"1\", 'true', 1.2.3, \"${HOME}\", 2020-01-01, ~x]\n"),
      "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->job.spec().template_().args(),
              ElementsAre("1", "true", "1.2.3", "${HOME}", "2020-01-01", "~x"));
}

TEST(JobFileTest, WritesAliasesOut) {
  const auto file =
      ParseJobFile(absl::StrCat(kSmallest, "        args: &a [x, y]\n      - command: *a\n"), "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->job.spec().template_().args(), ElementsAre("x", "y"));
}

TEST(JobFileTest, NeedsNoNameFromAFileThatTheCallerNames) {
  std::string text = kSmallest;
  text.erase(text.find("metadata:"), std::string("metadata:\n  name: small\n").size());
  EXPECT_FALSE(ParseJobFile(text, "job.yaml", {}).ok());
  EXPECT_TRUE(ParseJobFile(text, "job.yaml", {.named_by_caller = true}).ok());
}

TEST(JobFileTest, PrefersTheNameToItsPrefix) {
  std::string text = kSmallest;
  text.insert(text.find("spec:"), "  generateName: other-\n");
  const auto file = ParseJobFile(text, "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->job.name(), "small");
  EXPECT_EQ(file->generate_name, "");
  EXPECT_THAT(file->warnings, ElementsAre(HasSubstr("job.yaml:5: metadata.generateName has no effect")));
}

TEST(JobFileTest, ReadsDemands) {
  std::string text = kSmallest;
  text.insert(text.find("  template:"),
              "  deadline: 2026-12-01T09:00:00+01:00\n  gpuTypes: [a100, h100]\n"
              "  dataSets:\n  - {name: images, url: s3://bucket/images}\n");
  text.insert(text.find("      containers:"), "      nodeSelector: {disk: ssd}\n");
  const auto file = ParseJobFile(text, "job.yaml", {});
  ASSERT_TRUE(file.ok()) << file.status();
  const v1::JobSpec& spec = file->job.spec();
  EXPECT_EQ(spec.deadline().seconds(), 1796112000);
  EXPECT_THAT(spec.template_().placement().gpu_types(), ElementsAre("a100", "h100"));
  EXPECT_EQ(spec.template_().placement().node_selector().at("disk"), "ssd");
  ASSERT_EQ(spec.template_().data_sets_size(), 1);
  EXPECT_EQ(spec.template_().data_sets(0).name(), "images");
  EXPECT_EQ(spec.template_().data_sets(0).url(), "s3://bucket/images");
}

TEST(JobFileTest, SaysWhichDemandsAreWrong) {
  const auto refuse = [](const std::string& field) {
    std::string text = kSmallest;
    text.insert(text.find("  template:"), field);
    return std::string(ParseJobFile(text, "job.yaml", {}).status().message());
  };
  EXPECT_THAT(refuse("  deadline: tomorrow\n"), HasSubstr("spec.deadline must be a time with its zone"));
  EXPECT_THAT(refuse("  deadline: 2026-12-01T09:00:00\n"), HasSubstr("spec.deadline"));
  EXPECT_THAT(refuse("  gpuTypes: a100\n"), HasSubstr("spec.gpuTypes"));
  EXPECT_THAT(refuse("  gpuTypes: [{}]\n"), HasSubstr("spec.gpuTypes[0]"));
  EXPECT_THAT(refuse("  gpuTypes: [\"\"]\n"), HasSubstr("gpu_types"));
  EXPECT_THAT(refuse("  dataSets: [{name: a, url: ftp://x}]\n"), HasSubstr("data_sets[0].url"));
  EXPECT_THAT(refuse("  dataSets: [{name: a, uri: s3://x}]\n"), HasSubstr("spec.dataSets[0].uri"));
}

TEST(JobFileTest, ReadsFromTheDisk) {
  const std::string path = absl::StrCat(testing::TempDir(), "/jobfile_read_test.yaml");
  std::ofstream(path) << kFull;
  EXPECT_TRUE(ReadJobFile(path, {}).ok());
  std::ofstream(path) << "kind: [";
  EXPECT_THAT(std::string(ReadJobFile(path, {}).status().message()), HasSubstr("jobfile_read_test.yaml:1: "));
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsNotFound(ReadJobFile(path, {}).status()));
}

}  // namespace
}  // namespace adaptdl::jobfile
