// The CRDs: what they take and refuse, by the double of an API server, which judges by their schemas; and that their CEL
// rules, which it does not judge, are rules of ours as well.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobspec/job_spec.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/job_object.h"
#include "libs/kubejobs/names.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"
#include "tests/kube/yaml.h"

namespace adaptdl::kubejobs {
namespace {

using kube::Json;
using testing::HasSubstr;

const kube::ResourceType kCrds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                  "CustomResourceDefinition", false};
const kube::ResourceType kJobs = {kGroup, kVersion, kJobPlural, kJobKind};
const kube::ResourceType kQuotas = {kGroup, kVersion, kQuotaPlural, kQuotaKind};
const kube::ChangeOptions kBy = {.field_manager = "test"};

Json NewJob(const std::string& name = "a") {
  return Json::parse(absl::StrCat(R"({"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
      "metadata": {"name": ")",
                                  name, R"(", "namespace": "default"},
      "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}})"));
}

class CrdTest : public testing::Test {
 protected:
  CrdTest() {
    for (const char* name : {"adaptdljob", "adaptdlquota"}) {
      const auto made = client_.Create(Collection(kCrds), kube::ReadCrd(name), kBy);
      EXPECT_TRUE(made.ok()) << made.status();
    }
  }

  absl::StatusOr<Json> Create(const kube::ResourceType& type, const Json& object) {
    return client_.Create(Collection(type, "default"), object, kBy);
  }
  // A job with `value` there is refused, and the field named.
  void ExpectRefused(const std::string& pointer, const Json& value, const std::string& field) {
    Json job = NewJob();
    job[Json::json_pointer(pointer)] = value;
    const auto made = Create(kJobs, job);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << pointer << " " << value;
    EXPECT_THAT(made.status().message(), HasSubstr(field)) << pointer << " " << value;
  }

  kube::ApiServerDouble server_;
  std::unique_ptr<kube::Session> session_ =
      kube::Session::Create({.server = server_.url(), .credentials = std::make_unique<kube::NoCredentials>()},
                            {.burst = 100'000})
          .value();
  kube::Client client_{session_.get()};
};

TEST_F(CrdTest, SmallJobsGetDefaults) {
  const auto made = Create(kJobs, NewJob());
  ASSERT_TRUE(made.ok()) << made.status();
  const Json spec = (*made)["spec"];
  EXPECT_EQ(spec["minReplicas"], 0);
  EXPECT_EQ(spec["preemptible"], true);
  EXPECT_EQ(spec["maxRestarts"], 3);
  EXPECT_EQ(spec["rescale"], "in-place");
  EXPECT_EQ(spec["priority"], 0);
  EXPECT_EQ(spec["suspend"], false);
  EXPECT_FALSE(spec.contains("maxReplicas"));
  // They are those of jobs that are submitted to us.
  v1::JobSpec ours;
  jobspec::FillDefaults(&ours);
  EXPECT_EQ(ours.preemptible(), spec["preemptible"]);
  EXPECT_EQ(ours.max_restarts(), spec["maxRestarts"]);
  EXPECT_EQ(ours.rescale(), v1::RESCALE_MODE_IN_PLACE);
}

TEST_F(CrdTest, TheWholeTemplateIsKept) {
  Json job = NewJob();
  Json& pod = job["spec"]["template"];
  pod["metadata"] = {{"labels", {{"a", "b"}}}, {"annotations", {{"c", "d"}}}};
  pod["spec"]["volumes"] =
      Json::parse(R"([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])");
  pod["spec"]["containers"][0]["envFrom"] = Json::parse(R"([{"secretRef": {"name": "s"}}])");
  const auto made = Create(kJobs, job);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)["spec"]["template"], pod);
}

TEST_F(CrdTest, JobFilesApplyUnchanged) {
  for (const char* example : {"cifar", "mnist", "ncf", "python-mnist", "transformer"}) {
    const auto made = Create(kJobs, kube::ReadYaml(absl::StrCat("examples/", example, "/adaptdljob.yaml")));
    EXPECT_TRUE(made.ok()) << example << ": " << made.status();
  }
}

TEST_F(CrdTest, WhatWeSubmitIsTaken) {
  v1::Job job = *JobFromObject(NewJob("submitted"));
  job.mutable_spec()->set_max_replicas(4);
  job.mutable_spec()->add_allowed_replicas(2);
  const auto made = Create(kJobs, *ObjectFromJob(job, ""));
  ASSERT_TRUE(made.ok()) << made.status();
  job.mutable_spec()->set_max_replicas(0);
  job.mutable_spec()->set_suspend(true);
  const auto updated = client_.MergePatch({kJobs, "default", "submitted"}, UpdatePatch(job.spec()), kBy);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_FALSE((*updated)["spec"].contains("maxReplicas"));
  EXPECT_EQ((*updated)["spec"]["suspend"], true);
}

TEST_F(CrdTest, WrongJobsAreRefused) {
  ExpectRefused("/spec", Json::object(), "spec.template");
  ExpectRefused("/spec/template", Json::object(), "spec.template.spec");
  ExpectRefused("/spec/template/spec/containers", Json::array(), "spec.template.spec.containers");
  ExpectRefused("/spec/template/spec/containers", Json::parse("[1]"), "spec.template.spec.containers[0]");
  ExpectRefused("/spec/minReplicas", -1, "spec.minReplicas");
  ExpectRefused("/spec/minReplicas", 16385, "spec.minReplicas");
  ExpectRefused("/spec/maxReplicas", 0, "spec.maxReplicas");
  ExpectRefused("/spec/maxReplicas", "many", "spec.maxReplicas");
  ExpectRefused("/spec/priority", 1001, "spec.priority");
  ExpectRefused("/spec/maxRestarts", -1, "spec.maxRestarts");
  ExpectRefused("/spec/rescale", "sometimes", "spec.rescale");
  ExpectRefused("/spec/suspend", "yes", "spec.suspend");
  ExpectRefused("/spec/preemptible", 1, "spec.preemptible");
  ExpectRefused("/spec/allowedReplicas", Json::parse("[0]"), "spec.allowedReplicas[0]");
  ExpectRefused("/spec/allowedReplicas", Json(std::vector<int>(65, 1)), "spec.allowedReplicas");
  ExpectRefused("/spec/nonsense", 1, "spec.nonsense");
}

// As the operator writes it (services/supervisor/kubernetes/store/job_status_object.h).
TEST_F(CrdTest, StatusesAreKeptAsTheyAre) {
  const Json status = Json::parse(R"({
    "phase": "Rescaling", "reason": "Moved", "message": "to n2", "group": 3, "allocation": ["n1", "n2"],
    "replicas": 2, "readyReplicas": 1, "restarts": 1, "failures": 1, "rescales": 4, "checkpointError": "no room",
    "submitTimestamp": "2026-01-02T03:04:05.000006Z", "startTimestamp": "2026-01-02T03:04:05.000006Z",
    "completionTimestamp": "2026-01-02T03:04:05.000006Z", "retryTimestamp": "2026-01-02T03:04:05.000006Z",
    "train": {"initBatchSize": 128, "maxBatchSize": 1024, "localBszBounds": [32, null], "maxProfiledReplicas": 2,
      "gradientAccumulation": true, "gradParams": {"norm": 0.5, "var": 2},
      "perfParams": {"alpha_c": 0.1, "gamma": 1.1},
      "perfParamsByGpuType": [{"gpuType": "a100", "perfParams": {"beta_c": 1e-9}}]},
    "conditions": [{"type": "Running", "status": "True", "reason": "Moved", "message": "",
                    "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    "term": 2, "sequence": 7, "rescalesInPlace": true, "lastGroup": 4, "newcomerFailures": 1, "rescaleNote": "2 to 3", "cancelRequested": true,
    "startExpired": true, "tellsProgress": true, "runningSince": "2026-01-02T03:04:05.000006Z", "runningTime": "2.5s",
    "rescalingSince": "2026-01-02T03:04:05.000006Z", "rescaleDuration": "1.5s",
    "decision": {"nodes": ["n1"], "reason": "r", "explanation": ["e"], "unschedulable": true},
    "plans": [{"group": 4, "committed": true, "broken": true, "offered": true, "since": "2026-01-02T03:04:05.000006Z",
               "readyAfter": "1s", "members": [{"replica": "a-1", "node": "n1"}, {"node": "n2"}]}],
    "members": [{"replica": "a-1", "node": "n1", "launchGroup": 1, "launchRank": 0, "group": 3, "rank": 1,
                 "stopRequested": true, "nodeLeaving": true, "endHandled": true, "masterPort": 47000,
                 "end": {"state": "Lost", "exitCode": 1, "signal": 9, "loss": "NotStarted", "cause": "Preemption",
                         "message": "m", "startTimestamp": "2026-01-02T03:04:05.000006Z",
                         "endTimestamp": "2026-01-02T03:04:05.000006Z"}}]})");
  ASSERT_TRUE(Create(kJobs, NewJob()).ok());
  const auto written = client_.MergePatch({kJobs, "default", "a", "status"}, {{"status", status}}, kBy);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ((*written)["status"], status);
  const auto refused =
      client_.MergePatch({kJobs, "default", "a", "status"}, {{"status", {{"phase", "Odd"}}}}, kBy);
  EXPECT_THAT(refused.status().message(), HasSubstr("status.phase"));
}

TEST_F(CrdTest, QuotasAreTakenOrRefused) {
  Json quota = {{"apiVersion", kApiVersion},
                {"kind", kQuotaKind},
                {"metadata", {{"name", "quota"}}},
                {"spec", {{"gpus", 8}, {"weight", 0.5}}}};
  const Json spec = quota["spec"];
  quota["spec"] = {{"weight", 0}};
  EXPECT_THAT(Create(kQuotas, quota).status().message(), HasSubstr("spec.weight"));
  quota["spec"] = {{"gpus", (1 << 20) + 1}};
  EXPECT_THAT(Create(kQuotas, quota).status().message(), HasSubstr("spec.gpus"));
  quota["spec"] = spec;
  const auto made = Create(kQuotas, quota);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)["spec"]["jobs"], 0);
  EXPECT_EQ((*made)["spec"]["submissionsPerMinute"], 0);
}

// All CEL rules of a schema.
void Collect(const Json& schema, std::vector<std::string>* rules) {
  for (const Json& rule : kube::At(schema, {"x-kubernetes-validations"})) rules->push_back(rule["message"]);
  for (const Json& property : kube::At(schema, {"properties"})) Collect(property, rules);
  if (schema.contains("items")) Collect(schema["items"], rules);
}

struct Violation {
  std::string path;
  Json value;
  // Whether the object was good before: its value there. Null: it is new.
  Json before;
};

// Each rule, by its message, with something that breaks it alone.
std::map<std::string, Violation> Violations() {
  const Json template_before = NewJob()["spec"]["template"];
  Json template_after = template_before;
  template_after["spec"]["containers"][0]["image"] = "j";
  return {
      {"metadata.name must have at most 63 characters", {"/metadata/name", std::string(64, 'a'), {}}},
      {"metadata.name must have no dots", {"/metadata/name", "a.b", {}}},
      {"minReplicas must be at most maxReplicas", {"/spec", {{"minReplicas", 3}, {"maxReplicas", 2}}, {}}},
      {"allowedReplicas must hold a number from minReplicas to maxReplicas",
       {"/spec", {{"minReplicas", 3}, {"allowedReplicas", {1, 2}}}, {}}},
      {"allowedReplicas must be in ascending order", {"/spec/allowedReplicas", {2, 1}, {}}},
      {"template can't change; delete the job, and make another one",
       {"/spec/template", template_after, template_before}},
      {"preemptible can't change", {"/spec/preemptible", false, true}},
      {"deadline can't change", {"/spec/deadline", "2026-12-01T08:00:00Z", "2026-12-02T08:00:00Z"}},
      {"gpuTypes can't change", {"/spec/gpuTypes", {"a100"}, {"h100"}}},
      {"maxRestarts can't change", {"/spec/maxRestarts", 4, 3}},
      {"rescale can't change", {"/spec/rescale", "restart", "in-place"}},
      {"allowedReplicas can't change", {"/spec/allowedReplicas", {1}, {2}}},
  };
}

Json JobWith(const std::string& path, const Json& value) {
  Json patch = Json::object();
  patch[Json::json_pointer(path)] = value;
  Json job = NewJob();
  job.merge_patch(patch);
  return job;
}

TEST(CrdRulesTest, EachIsARuleOfOurs) {
  std::vector<std::string> rules;
  Collect(kube::ReadCrd("adaptdljob")["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &rules);
  const std::map<std::string, Violation> violations = Violations();
  EXPECT_EQ(rules.size(), violations.size());
  for (const std::string& rule : rules) {
    ASSERT_EQ(violations.count(rule), 1U) << rule;
    const auto& [path, value, before] = violations.at(rule);
    const auto job = JobFromObject(JobWith(path, value));
    if (before.is_null()) {
      EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << rule;
      continue;
    }
    const auto former = JobFromObject(JobWith(path, before));
    ASSERT_TRUE(job.ok() && former.ok()) << rule << job.status() << former.status();
    EXPECT_EQ(jobspec::CheckUpdate(*former, *job).code(), absl::StatusCode::kPermissionDenied) << rule;
    EXPECT_TRUE(jobspec::CheckUpdate(*former, *former).ok()) << rule;
  }
}

TEST(CrdRulesTest, WhatMayChangeMay) {
  const v1::Job before = *JobFromObject(NewJob());
  const v1::Job after = *JobFromObject(
      JobWith("/spec", {{"minReplicas", 1}, {"maxReplicas", 9}, {"priority", 7}, {"suspend", true}}));
  EXPECT_TRUE(jobspec::CheckUpdate(before, after).ok());
}

}  // namespace
}  // namespace adaptdl::kubejobs
