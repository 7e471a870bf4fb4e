#include "libs/kubejobs/pod.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/pod_state.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::Json;
using testing::HasSubstr;
using testing::SizeIs;

Json Job() {
  return Json::parse(R"json({
    "apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
    "metadata": {"name": "resnet", "namespace": "vision", "uid": "6f1c2b3a-9d"},
    "spec": {"template": {
      "metadata": {"name": "ignored", "labels": {"app": "resnet", "adaptdl": "mine"}, "annotations": {"note": "x"}},
      "spec": {
        "imagePullSecrets": [{"name": "registry"}],
        "restartPolicy": "OnFailure",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "initContainers": [{"name": "fetch", "image": "busybox"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [
          {"name": "main", "image": "i", "command": ["train"],
           "env": [{"name": "FOLDER", "value": "/runs/$(ADAPTDL_JOB_ID)"},
                   {"name": "ADAPTDL_REPLICA_RANK", "value": "7"},
                   {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                   {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
           "volumeMounts": [{"name": "data", "mountPath": "/data"}],
           "resources": {"limits": {"cpu": "3500m"}}},
          {"name": "gpu", "image": "j", "env": [{"name": "OMP_NUM_THREADS", "value": "9"}],
           "volumeMounts": [{"name": "data", "mountPath": "/dev/shm/"}],
           "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}}
  })json");
}

Json Node() {
  return Json::parse(
      R"({"metadata": {"name": "n1.example.com", "labels": {"kubernetes.io/hostname": "n1"}}})");
}

v1::LaunchReplica Launch() {
  v1::LaunchReplica launch;
  launch.set_namespace_("vision");
  launch.set_job("resnet");
  launch.set_job_uid("6f1c2b3a-9d");
  launch.set_replica_id("resnet-6f1c2b3a-4-1");
  launch.set_group(4);
  launch.set_rank(1);
  launch.set_num_replicas(3);
  launch.set_num_nodes(2);
  launch.set_num_restarts(2);
  launch.set_token("secret of the group");
  launch.mutable_adaptdl_http()->set_supervisor_url("http://:7300/group-key");
  return launch;
}

PodOptions Options() {
  PodOptions options;
  options.supervisor_address = "supervisor.adaptdl.svc:7000";
  options.supervisor_ca_pem = "-----BEGIN CERTIFICATE-----\n";
  options.supervisor_tls_name = "supervisor.adaptdl";
  options.default_resources = {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}};
  options.claim = "adaptdl-6f1c";
  return options;
}

Json Make(const Json& job = Job(), const PodOptions& options = Options()) {
  const auto pod = MakePod(job, Launch(), Node(), options);
  EXPECT_TRUE(pod.ok()) << pod.status();
  return pod.ok() ? *pod : Json();
}

// The values of all variables of this name: there ought to be one.
std::vector<Json> ValuesOf(const Json& container, const std::string& name) {
  std::vector<Json> values;
  for (const Json& variable : container["env"]) {
    if (variable["name"] == name)
      values.push_back(variable.contains("value") ? variable["value"] : variable["valueFrom"]);
  }
  return values;
}

std::string ValueOf(const Json& container, const std::string& name) {
  const std::vector<Json> values = ValuesOf(container, name);
  return values.size() == 1 && values[0].is_string() ? values[0].get<std::string>() : "not there once";
}

Json MountAt(const Json& container, const std::string& path) {
  for (const Json& mount : container["volumeMounts"]) {
    if (mount["mountPath"] == path) return mount;
  }
  return Json();
}

Json VolumeOf(const Json& pod, const std::string& name) {
  for (const Json& volume : pod["spec"]["volumes"]) {
    if (volume["name"] == name) return volume;
  }
  return Json();
}

TEST(PodTest, SaysWhichReplicaItIs) {
  const Json pod = Make();
  EXPECT_EQ(pod["kind"], "Pod");
  EXPECT_EQ(pod["metadata"], Json::parse(R"({
      "name": "resnet-6f1c2b3a-4-1", "namespace": "vision", "finalizers": ["adaptdl.petuum.com/replica"],
      "labels": {"app": "resnet", "adaptdl": "true", "adaptdl/job": "resnet", "petuum.com/nodegroup": "all",
                 "adaptdl.petuum.com/job-uid": "6f1c2b3a-9d"},
      "annotations": {"note": "x", "adaptdl/group": "4", "adaptdl/rank": "1", "adaptdl/replicas": "3",
                      "adaptdl/node": "n1.example.com", "kubectl.kubernetes.io/default-container": "main"},
      "ownerReferences": [{"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob", "name": "resnet",
                           "uid": "6f1c2b3a-9d", "controller": true, "blockOwnerDeletion": true}]})"));
  EXPECT_EQ(pod["spec"]["hostname"], "resnet-4-1");
}

TEST(PodTest, WhatItSaysIsReadFromIt) {
  const auto report = ReportOf(Make());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->job_uid(), "6f1c2b3a-9d");
  EXPECT_EQ(report->job(), "resnet");
  EXPECT_EQ(report->replica().replica_id(), "resnet-6f1c2b3a-4-1");
  EXPECT_EQ(report->replica().group(), 4);
  EXPECT_EQ(report->replica().rank(), 1);
  EXPECT_EQ(report->replica().node_id(), "n1.example.com");
  EXPECT_EQ(report->replica().state(), v1::REPLICA_STATE_LAUNCHING);
}

TEST(PodTest, IsBoundToItsNodeAndKeepsTheTemplate) {
  const Json spec = Make()["spec"];
  EXPECT_EQ(spec["nodeSelector"], Json::parse(R"({"disk": "ssd", "kubernetes.io/hostname": "n1"})"));
  EXPECT_EQ(spec["restartPolicy"], "Never");
  EXPECT_THAT(spec["tolerations"], SizeIs(2));
  EXPECT_EQ(spec["tolerations"][1]["key"], "petuum.com/nodegroup");
  EXPECT_EQ(spec["imagePullSecrets"][0]["name"], "registry");
  EXPECT_EQ(spec["initContainers"], Job()["spec"]["template"]["spec"]["initContainers"]);
  EXPECT_EQ(spec["containers"][0]["command"][0], "train");
  EXPECT_EQ(spec["containers"][0]["resources"],
            Json::parse(R"({"limits": {"cpu": "3500m"}, "requests": {"memory": "1Gi"}})"));
  Json node = Node();
  node["metadata"].erase("labels");
  EXPECT_EQ(MakePod(Job(), Launch(), node, Options()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PodTest, ContainersGetTheEnvironmentOfReplicas) {
  const Json pod = Make();
  for (const Json& container : pod["spec"]["containers"]) {
    EXPECT_EQ(ValueOf(container, "ADAPTDL_JOB_ID"), "vision/resnet");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_JOB_UID"), "6f1c2b3a-9d");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_REPLICA_ID"), "resnet-6f1c2b3a-4-1");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_GROUP"), "4");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_REPLICA_RANK"), "1") << "whatever the template says";
    EXPECT_EQ(ValueOf(container, "ADAPTDL_NUM_REPLICAS"), "3");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_NUM_NODES"), "2");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_NUM_RESTARTS"), "2");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_MASTER_PORT"), "47004");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_SUPERVISOR_URL"), "http://supervisor.adaptdl.svc:7300/group-key");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_SCHED_VERSION"), "0.2.11");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_SUPERVISOR_ADDRESS"), "supervisor.adaptdl.svc:7000");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_SUPERVISOR_CA_PEM"), "-----BEGIN CERTIFICATE-----\n");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_SUPERVISOR_TLS_NAME"), "supervisor.adaptdl");
    EXPECT_EQ(ValueOf(container, "ADAPTDL_NODE_ID"), "n1.example.com");
    ASSERT_THAT(ValuesOf(container, "ADAPTDL_REPLICA_HOST"), SizeIs(1));
    EXPECT_EQ(ValuesOf(container, "ADAPTDL_REPLICA_HOST")[0]["fieldRef"]["fieldPath"], "status.podIP");
    EXPECT_THAT(ValuesOf(container, "ADAPTDL_GROUP_TOKEN"), SizeIs(0)) << "pods have a token of their own";
  }
  EXPECT_EQ(pod.dump().find("secret of the group"), std::string::npos);
  const Json& main = pod["spec"]["containers"][0];
  EXPECT_EQ(ValueOf(main, "FOLDER"), "/runs/$(ADAPTDL_JOB_ID)");
  EXPECT_EQ(main["env"][0]["name"], "ADAPTDL_JOB_ID") << "before those that make use of it";
  EXPECT_THAT(ValuesOf(main, "KEY"), SizeIs(1));
  EXPECT_EQ(ValueOf(main, "OMP_NUM_THREADS"), "3");
  EXPECT_EQ(ValueOf(main, "ADAPTDL_NUM_GPUS"), "0");
  EXPECT_EQ(ValueOf(main, "NVIDIA_VISIBLE_DEVICES"), "none");
  const Json& gpu = pod["spec"]["containers"][1];
  EXPECT_EQ(ValueOf(gpu, "OMP_NUM_THREADS"), "9");
  EXPECT_EQ(ValueOf(gpu, "ADAPTDL_NUM_GPUS"), "2");
  EXPECT_THAT(ValuesOf(gpu, "NVIDIA_VISIBLE_DEVICES"), SizeIs(0));
}

TEST(PodTest, SharedMemoryIsLarge) {
  const Json pod = Make();
  const Json mount = MountAt(pod["spec"]["containers"][0], "/dev/shm");
  EXPECT_EQ(VolumeOf(pod, mount["name"])["emptyDir"]["medium"], "Memory");
  EXPECT_TRUE(MountAt(pod["spec"]["containers"][1], "/dev/shm").is_null()) << "the template mounts its own";
}

TEST(PodTest, TokensProveWhoItIs) {
  const Json pod = Make();
  const Json mount = MountAt(pod["spec"]["containers"][1], kTokenFolder);
  EXPECT_EQ(mount["readOnly"], true);
  const Json token = VolumeOf(pod, mount["name"])["projected"]["sources"][0]["serviceAccountToken"];
  EXPECT_EQ(token,
            Json::parse(R"({"audience": "adaptdl-supervisor", "expirationSeconds": 3600, "path": "token"})"));
  EXPECT_EQ(ValueOf(pod["spec"]["containers"][1], "ADAPTDL_IDENTITY_TOKEN_FILE"),
            std::string(kTokenFolder) + "/" + token["path"].get<std::string>());
}

TEST(PodTest, FilesAreOnTheClaimOfTheJob) {
  const Json pod = Make();
  const Json& main = pod["spec"]["containers"][0];
  const Json mount = MountAt(main, ValueOf(main, "ADAPTDL_CHECKPOINT_PATH"));
  EXPECT_EQ(mount["subPath"], "checkpoint");
  EXPECT_EQ(VolumeOf(pod, mount["name"])["persistentVolumeClaim"]["claimName"], "adaptdl-6f1c");
  EXPECT_EQ(MountAt(main, ValueOf(main, "ADAPTDL_SHARE_PATH"))["subPath"], "share");
  EXPECT_THAT(ValueOf(main, "ADAPTDL_TENSORBOARD_LOGDIR"), HasSubstr("/tensorboard"));
}

TEST(PodTest, JobsMayBringAPlaceOfTheirOwn) {
  Json job = Job();
  job["spec"]["template"]["spec"]["containers"][0]["env"].push_back(
      {{"name", "ADAPTDL_CHECKPOINT_PATH"}, {"value", "/data/mine"}});
  PodOptions options = Options();
  EXPECT_EQ(ValueOf(Make(job, options)["spec"]["containers"][0], "ADAPTDL_CHECKPOINT_PATH"), "/data/mine");
  options.claim.clear();
  const Json pod = Make(job, options);
  EXPECT_EQ(ValueOf(pod["spec"]["containers"][0], "ADAPTDL_CHECKPOINT_PATH"), "/data/mine");
  EXPECT_THAT(ValuesOf(pod["spec"]["containers"][1], "ADAPTDL_CHECKPOINT_PATH"), SizeIs(0));
  EXPECT_EQ(pod.dump().find("persistentVolumeClaim"), std::string::npos);
}

TEST(PodTest, PatchesComeLast) {
  PodOptions options = Options();
  options.pod_patches = Json::parse(R"([{"op": "add", "path": "/spec/priorityClassName", "value": "low"}])");
  options.container_patches =
      Json::parse(R"([{"op": "add", "path": "/env/-", "value": {"name": "P", "value": "1"}},
                                              {"op": "replace", "path": "/image", "value": "mirror"}])");
  const Json spec = Make(Job(), options)["spec"];
  EXPECT_EQ(spec["priorityClassName"], "low");
  for (const Json& container : spec["containers"]) {
    EXPECT_EQ(container["image"], "mirror");
    EXPECT_EQ(ValueOf(container, "P"), "1");
  }
}

TEST(PodTest, PatchesThatDoNotFitAreRefused) {
  for (const char* text :
       {R"([{"op": "remove", "path": "/spec/nothing"}])", R"([{"op": "nonsense", "path": "/a"}])",
        R"([{"op": "remove", "path": "/spec/containers"}])", R"({"op": "add"})", "[7]",
        R"([{"op": "replace", "path": "", "value": 3}])"}) {
    PodOptions options = Options();
    options.pod_patches = Json::parse(text);
    EXPECT_EQ(MakePod(Job(), Launch(), Node(), options).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_TRUE(CheckPatches("f", Json()).ok());
  EXPECT_TRUE(CheckPatches("f", Json::parse(R"([{"op": "remove", "path": "/a"}])")).ok());
  EXPECT_THAT(CheckPatches("job.patch.pods", Json::parse(R"([{"op": "grow", "path": "/a"}])")).message(),
              HasSubstr("job.patch.pods"));
  EXPECT_FALSE(CheckPatches("f", Json::object()).ok());
}

TEST(PodTest, TemplatesWithoutContainersAreRefused) {
  for (const char* text :
       {"{}", "null", R"({"containers": []})", R"({"containers": [7]})", R"({"containers": {}})"}) {
    Json job = Job();
    job["spec"]["template"]["spec"] = Json::parse(text);
    EXPECT_EQ(MakePod(job, Launch(), Node(), Options()).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(PodTest, OddTemplatesStillMakePods) {
  Json job = Job();
  job["spec"]["template"]["metadata"] = 3;
  Json& spec = job["spec"]["template"]["spec"];
  spec["volumes"] = "none";
  spec["nodeSelector"] = Json::array();
  spec["containers"][0]["env"] = Json::parse(R"([3, {"name": 4}, {}])");
  spec["containers"][0]["volumeMounts"] = Json::object();
  EXPECT_EQ(Make(job)["metadata"]["labels"]["adaptdl"], "true");
}

TEST(PodTest, HostNamesAreCut) {
  EXPECT_EQ(HostName("resnet", 4, 1), "resnet-4-1");
  const std::string name = HostName(std::string(63, 'a'), 12, 3);
  EXPECT_THAT(name, SizeIs(63));
  EXPECT_THAT(name, HasSubstr("a-12-3"));
}

}  // namespace
}  // namespace adaptdl::kubejobs
