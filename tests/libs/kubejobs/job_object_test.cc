#include "libs/kubejobs/job_object.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "libs/jobspec/job_spec.h"

namespace adaptdl::kubejobs {
namespace {

using google::protobuf::util::MessageDifferencer;
using kube::Json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Json Object() {
  return Json::parse(R"({
    "apiVersion": "adaptdl.petuum.com/v1",
    "kind": "AdaptDLJob",
    "metadata": {"name": "resnet", "namespace": "vision", "uid": "6f1c", "labels": {"team": "vision"},
                 "resourceVersion": "7", "managedFields": []},
    "spec": {
      "minReplicas": 2, "maxReplicas": 8, "priority": 5, "allowedReplicas": [2, 4, 8], "maxRestarts": 1,
      "rescale": "restart", "suspend": true, "preemptible": false,
      "template": {
        "metadata": {"labels": {"app": "resnet"}},
        "spec": {
          "terminationGracePeriodSeconds": 60,
          "nodeSelector": {"disk": "ssd"},
          "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
          "someNewFieldOfKubernetes": {"a": 1},
          "containers": [{
            "name": "main", "image": "registry/resnet:1", "command": ["python3"], "args": ["train.py"],
            "env": [{"name": "A", "value": "b"},
                    {"name": "ADAPTDL_CHECKPOINT_PATH", "value": "/data/checkpoints"},
                    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "settings"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi", "nvidia.com/gpu": 1}}
          }, {"name": "log-shipper", "image": "shipper", "resources": {"requests": {"cpu": "100m"}}}]}}},
    "status": {"phase": "Pending"}
  })");
}

TEST(JobObjectTest, ObjectsAreJobs) {
  const auto job = JobFromObject(Object());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->namespace_(), "vision");
  EXPECT_EQ(job->name(), "resnet");
  EXPECT_EQ(job->uid(), "6f1c");
  EXPECT_EQ(job->labels().at("team"), "vision");
  const v1::JobSpec& spec = job->spec();
  EXPECT_EQ(spec.min_replicas(), 2);
  EXPECT_EQ(spec.max_replicas(), 8);
  EXPECT_EQ(spec.priority(), 5);
  EXPECT_EQ(spec.max_restarts(), 1);
  EXPECT_EQ(spec.rescale(), v1::RESCALE_MODE_RESTART);
  EXPECT_TRUE(spec.suspend());
  EXPECT_FALSE(spec.preemptible());
  EXPECT_THAT(spec.allowed_replicas(), ElementsAre(2, 4, 8));
  const v1::ReplicaTemplate& replica = spec.template_();
  EXPECT_EQ(replica.image(), "registry/resnet:1");
  EXPECT_THAT(replica.command(), ElementsAre("python3"));
  EXPECT_EQ(replica.termination_grace_period().seconds(), 60);
  EXPECT_EQ(replica.placement().node_selector().at("disk"), "ssd");
  EXPECT_THAT(replica.placement().tolerations(), SizeIs(1)) << "of nodes that are AdaptDL's alone";
  ASSERT_THAT(replica.env(), SizeIs(1))
      << "what others know the value of, and what the pod gets from us, is not here";
  EXPECT_EQ(replica.env(0).name(), "A");
  EXPECT_EQ(replica.resources().cpu_millis(), 2100) << "of the whole pod";
  EXPECT_EQ(replica.resources().gpus(), 1);
  EXPECT_EQ(replica.resources().extended().at("pods"), 1);
}

TEST(JobObjectTest, SmallOnesGetDefaults) {
  const Json object = Json::parse(R"({"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
      "metadata": {"name": "a", "namespace": "b"},
      "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}})");
  const auto job = JobFromObject(object);
  ASSERT_TRUE(job.ok()) << "an image has an entry point: " << job.status();
  EXPECT_TRUE(job->spec().preemptible());
  EXPECT_EQ(job->spec().max_restarts(), 3);
  EXPECT_EQ(job->spec().rescale(), v1::RESCALE_MODE_IN_PLACE);
  EXPECT_EQ(job->spec().template_().resources().cpu_millis(), 0);
  const auto with_defaults = JobFromObject(object, {{"requests", {{"cpu", "1.5"}}}});
  ASSERT_TRUE(with_defaults.ok());
  EXPECT_EQ(with_defaults->spec().template_().resources().cpu_millis(), 1500);
}

TEST(JobObjectTest, AllThatIsWrongIsToldByField) {
  Json object = Object();
  object["spec"]["minReplicas"] = 9;
  object["spec"]["priority"] = "high";
  const auto job = JobFromObject(object);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(job.status().message(), AllOf(HasSubstr("spec.priority"), HasSubstr("\nspec.minReplicas")));
  EXPECT_EQ(job.status().message().find("object"), std::string::npos) << job.status();
}

TEST(JobObjectTest, WrongOnesAreRefused) {
  const auto refused = [](const char* pointer, const Json& value) {
    Json object = Object();
    object[Json::json_pointer(pointer)] = value;
    const auto job = JobFromObject(object);
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << pointer << value;
    return std::string(job.status().message());
  };
  EXPECT_THAT(refused("/kind", "Job"), HasSubstr("kind"));
  EXPECT_THAT(refused("/apiVersion", "batch/v1"), HasSubstr("apiVersion"));
  EXPECT_THAT(refused("/metadata/name", std::string(64, 'a')), HasSubstr("metadata.name"));
  EXPECT_THAT(refused("/metadata/name", "a.b"), HasSubstr("metadata.name"));
  EXPECT_THAT(refused("/spec", 7), HasSubstr("spec"));
  EXPECT_THAT(refused("/spec/template/spec/containers", Json::array()), HasSubstr("containers"));
  EXPECT_THAT(refused("/spec/template/spec/containers/0/image", Json()), HasSubstr("image"));
  EXPECT_THAT(refused("/spec/template/spec/containers/1/resources/requests/cpu", "lots"),
              HasSubstr("spec.template.spec.containers[1].resources.requests.cpu"));
  EXPECT_THAT(refused("/spec/template/spec/tolerations", Json::parse(R"([{"effect": "None"}])")),
              HasSubstr("tolerations[0].effect"));
  EXPECT_THAT(refused("/spec/allowedReplicas", Json::parse("[4, 2]")), HasSubstr("allowedReplicas"));
  EXPECT_THAT(refused("/spec/template/spec/terminationGracePeriodSeconds", 1e9),
              HasSubstr("terminationGracePeriod"));
  for (const char* text : {"null", "[]", "3", "{}", R"({"metadata": 3, "spec": {"template": []}})"}) {
    EXPECT_FALSE(JobFromObject(Json::parse(text)).ok()) << text;
  }
}

TEST(JobObjectTest, LabelsThatAreTooLongForUsAreLeftOut) {
  Json object = Object();
  object["metadata"]["labels"]
        ["a.very.long.prefix.of.somebody.who.labels.everything/" + std::string(60, 'x')] = "1";
  const auto job = JobFromObject(object);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->labels(), SizeIs(1));
}

v1::Job Submitted() {
  v1::Job job;
  job.set_namespace_("vision");
  job.set_name("resnet");
  (*job.mutable_labels())["team"] = "vision";
  v1::JobSpec* spec = job.mutable_spec();
  spec->set_min_replicas(2);
  spec->set_max_replicas(8);
  spec->add_allowed_replicas(4);
  spec->set_priority(-3);
  spec->set_rescale(v1::RESCALE_MODE_RESTART);
  spec->set_max_restarts(0);
  spec->set_preemptible(false);
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  replica->set_image("registry/resnet:1");
  replica->add_command("sh");
  replica->add_args("-c");
  v1::EnvironmentVariable* variable = replica->add_env();
  variable->set_name("A");
  variable->set_value("\"b\"\n\xc3\xa4");
  replica->set_working_directory("/src");
  replica->mutable_resources()->set_cpu_millis(1500);
  replica->mutable_resources()->set_gpus(2);
  (*replica->mutable_resources()->mutable_extended())["example.com/fpga"] = 1;
  replica->mutable_termination_grace_period()->set_seconds(7);
  (*replica->mutable_placement()->mutable_node_selector())["disk"] = "true";
  return job;
}

TEST(JobObjectTest, SubmittedJobsComeBackAsTheyWere) {
  v1::Job job = Submitted();
  const auto object = ObjectFromJob(job, "");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ((*object)["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"],
            "2");
  auto read = JobFromObject(*object);
  ASSERT_TRUE(read.ok()) << read.status();
  // What pods have besides.
  read->mutable_spec()->mutable_template_()->mutable_placement()->clear_tolerations();
  read->mutable_spec()->mutable_template_()->mutable_resources()->mutable_extended()->erase("pods");
  MessageDifferencer differencer;
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  EXPECT_TRUE(differencer.Compare(job, *read)) << differences;
}

TEST(JobObjectTest, NamesMayBeMadeByTheServer) {
  v1::Job job = Submitted();
  job.clear_name();
  const auto object = ObjectFromJob(job, "resnet-");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ((*object)["metadata"]["generateName"], "resnet-");
  EXPECT_FALSE((*object)["metadata"].contains("name"));
}

TEST(JobObjectTest, WhatPodsCannotDoIsRefused) {
  v1::Job job = Submitted();
  job.mutable_spec()->mutable_template_()->clear_image();
  EXPECT_THAT(ObjectFromJob(job, "").status().message(), HasSubstr("spec.template.image"));
  job = Submitted();
  job.mutable_spec()->mutable_template_()->mutable_python();
  EXPECT_THAT(ObjectFromJob(job, "").status().message(), HasSubstr("spec.template.python"));
}

TEST(JobObjectTest, UpdatesArePatches) {
  v1::JobSpec spec = Submitted().spec();
  EXPECT_EQ(
      UpdatePatch(spec),
      Json::parse(R"({"spec": {"minReplicas": 2, "maxReplicas": 8, "priority": -3, "suspend": false}})"));
  spec.set_max_replicas(0);
  EXPECT_TRUE(UpdatePatch(spec)["spec"]["maxReplicas"].is_null()) << "takes the field away";
}

}  // namespace
}  // namespace adaptdl::kubejobs
