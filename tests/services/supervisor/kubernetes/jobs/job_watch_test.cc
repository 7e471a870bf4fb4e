// AdaptDLJob objects become jobs, and jobs that are submitted become objects.

#include "services/supervisor/kubernetes/jobs/job_watch.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "services/supervisor/kubernetes/jobs/object_registrar.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/nodes/observed_nodes.h"
#include "tests/services/supervisor/kubernetes/kube_managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::HasSubstr;

class JobWatchTest : public KubeManagersTest {
 protected:
  JobWatchTest() : registrar_(&client_, [this](const Json& object) { Seen(object); }) {}

  void Watch() {
    watch_ = nullptr;
    cluster_->jobs()->SetRegistrar(&registrar_, jobspec::ReplicaKind::kPod);
    watch_ = std::make_unique<JobWatch>(
        &client_, cluster_->core(), cluster_->jobs(), [this](const Json& object) { Seen(object); },
        JobWatchOptions());
    ASSERT_TRUE(watch_->AwaitSynced({}));
  }
  void Seen(const Json& /*object*/) { ++seen_; }

  static Json JobObject(const std::string& name) {
    return {{"apiVersion", kubejobs::kApiVersion},
            {"kind", kubejobs::kJobKind},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"spec",
             {{"maxReplicas", 4},
              {"template",
               {{"spec",
                 {{"containers",
                   {{{"name", "main"},
                     {"image", "train:1"},
                     {"resources", {{"requests", {{"cpu", "500m"}}}}}}}}}}}}}}};
  }
  void Create(const Json& object) {
    const auto made = client_.Create(kube::Collection(AdaptDLJobs(), "default"), object, by_);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  static kube::Target ObjectNamed(const std::string& name) {
    return kube::ObjectOf(AdaptDLJobs(), {"default", name});
  }
  void AwaitJob(const std::string& name, const std::function<bool(const v1::Job&)>& holds) {
    Await("job " + name, [&] {
      watch_->Step();
      const auto job = cluster_->jobs()->GetJob("default", name);
      return job.ok() && holds(*job);
    });
  }
  void AwaitNone(const std::string& name) {
    Await("no job " + name, [&] {
      watch_->Step();
      return absl::IsNotFound(cluster_->jobs()->GetJob("default", name).status());
    });
  }
  v1::SubmitJobRequest Submission(const std::string& name) {
    v1::SubmitJobRequest request;
    request.set_request_id(NextRequest());
    request.mutable_job()->set_name(name);
    request.mutable_job()->mutable_spec()->mutable_template_()->set_image("train:1");
    return request;
  }

  std::atomic<int> seen_ = 0;
  ObjectRegistrar registrar_;
  std::unique_ptr<JobWatch> watch_;
};

TEST_F(JobWatchTest, WhatIsAppliedShowsUp) {
  Create(JobObject("before"));
  Watch();
  const v1::Job before = Get("before");
  EXPECT_EQ(before.uid(), kube::UidOf(*client_.Get(ObjectNamed("before"))));
  EXPECT_EQ(before.spec().max_replicas(), 4);
  EXPECT_EQ(before.spec().template_().resources().cpu_millis(), 500);
  EXPECT_EQ(before.status().phase(), v1::JOB_PHASE_PENDING);
  Create(JobObject("later"));
  AwaitJob("later", [](const v1::Job& job) { return job.status().phase() == v1::JOB_PHASE_PENDING; });
  EXPECT_GE(seen_, 2);
}

TEST_F(JobWatchTest, ASpecificationThatMakesNoSenseFails) {
  Watch();
  Json object = JobObject("a");
  object["spec"]["minReplicas"] = 9;
  Create(object);
  AwaitJob("a", [](const v1::Job& job) { return job.status().phase() == v1::JOB_PHASE_FAILED; });
  EXPECT_EQ(Get("a").status().reason(), "InvalidSpec");
  EXPECT_THAT(Get("a").status().message(), HasSubstr("spec.minReplicas is 9, more than spec.maxReplicas, 4"));
}

TEST_F(JobWatchTest, EditsAreUpdates) {
  Create(JobObject("a"));
  Watch();
  ASSERT_TRUE(
      client_.MergePatch(ObjectNamed("a"), {{"spec", {{"maxReplicas", 8}, {"suspend", true}}}}, by_).ok());
  AwaitJob("a", [](const v1::Job& job) { return job.spec().suspend() && job.spec().max_replicas() == 8; });
  EXPECT_EQ(Get("a").status().reason(), "Suspended");
  // What can't change does not, though nobody has refused it.
  ASSERT_TRUE(
      client_.MergePatch(ObjectNamed("a"), {{"spec", {{"preemptible", false}, {"suspend", false}}}}, by_)
          .ok());
  AwaitJob("a", [](const v1::Job& job) { return !job.spec().suspend(); });
  EXPECT_TRUE(Get("a").spec().preemptible());
  v1::ListEventsRequest request;
  request.set_name("a");
  const auto events = cluster_->jobs()->ListEvents(request);
  EXPECT_TRUE(std::any_of(events->events().begin(), events->events().end(),
                          [](const v1::Event& event) { return event.reason() == "SpecImmutable"; }));
}

TEST_F(JobWatchTest, WithItsObjectAJobEnds) {
  Create(JobObject("a"));
  ObservedNodes nodes(cluster_->core(), cluster_->nodes());
  ObservedNode node;
  node.node.set_node_id("n1");
  node.node.mutable_capacity()->set_cpu_millis(4000);
  (*node.node.mutable_capacity()->mutable_extended())["pods"] = 110;
  ASSERT_TRUE(nodes.Observe(node).ok());
  Watch();
  const v1::Job job = Get("a");
  ASSERT_TRUE(Allocate(job, {"n1"}).ok());
  ASSERT_EQ(launcher_.launches.size(), 1u);
  const v1::LaunchReplica launch = launcher_.launches[0].second;
  ASSERT_TRUE(Report(launch, "n1", v1::REPLICA_STATE_RUNNING).ok());
  ASSERT_TRUE(client_.Delete(ObjectNamed("a"), {}).ok());
  Await("stopped", [&] {
    watch_->Step();
    return !launcher_.stops.empty();
  });
  EXPECT_EQ(Get("a").uid(), job.uid()) << "as long as a replica lives";
  // Another one of the name waits until this one is gone.
  Create(JobObject("a"));
  watch_->Step();
  ASSERT_TRUE(Report(launch, "n1", v1::REPLICA_STATE_EXITED, 143).ok());
  AwaitJob("a", [&](const v1::Job& now) { return now.uid() != job.uid(); });
}

TEST_F(JobWatchTest, WhatWentWhileNobodyLookedIsGone) {
  Create(JobObject("a"));
  Watch();
  watch_ = nullptr;
  ASSERT_TRUE(client_.Delete(ObjectNamed("a"), {}).ok());
  Watch();
  AwaitNone("a");
}

TEST_F(JobWatchTest, ASubmittedJobIsAnObject) {
  Watch();
  const v1::SubmitJobRequest request = Submission("a");
  const auto submitted = cluster_->jobs()->SubmitJob(request, "alice");
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  const auto object = client_.Get(ObjectNamed("a"));
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(kube::UidOf(*object), submitted->job().uid());
  EXPECT_EQ(kube::At(*object, {"spec", "template", "spec", "containers"})[0]["image"], "train:1");
  // The same call once more, also of a supervisor that knows nothing of the first.
  EXPECT_EQ(cluster_->jobs()->SubmitJob(request, "alice")->job().uid(), submitted->job().uid());
  v1::Job taken = request.job();
  taken.set_namespace_("default");
  EXPECT_EQ(registrar_.Create(taken, "", KeyOf("bob", "default", request)).status().code(),
            absl::StatusCode::kAlreadyExists);
  v1::UpdateJobRequest update;
  update.set_request_id(NextRequest());
  update.set_name("a");
  update.set_suspend(true);
  update.set_max_replicas(3);
  ASSERT_TRUE(cluster_->jobs()->UpdateJob(update, "alice").ok());
  EXPECT_EQ(kube::IntegerAt(*client_.Get(ObjectNamed("a")), {"spec", "maxReplicas"}), 3);
  EXPECT_TRUE(kube::BoolAt(*client_.Get(ObjectNamed("a")), {"spec", "suspend"}));
  v1::SubmitJobRequest without = Submission("b");
  without.mutable_job()->mutable_spec()->mutable_template_()->clear_image();
  without.mutable_job()->mutable_spec()->mutable_template_()->add_command("train");
  EXPECT_THAT(std::string(cluster_->jobs()->SubmitJob(without, "alice").status().message()),
              HasSubstr("spec.template.image: empty: name the image that each replica runs"));
}

TEST_F(JobWatchTest, ARepeatedSubmissionFindsWhatItHasMade) {
  Watch();
  const v1::SubmitJobRequest request = Submission("a");
  v1::Job job = request.job();
  job.set_namespace_("default");
  const RequestKey key = KeyOf("alice", "default", request);
  const auto first = registrar_.Create(job, "", key);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(registrar_.Create(job, "", key)->uid(), first->uid());
  RequestKey other = key;
  other.content = "another one";
  EXPECT_THAT(std::string(registrar_.Create(job, "", other).status().message()),
              HasSubstr("was used for another content"));
}

}  // namespace
}  // namespace adaptdl::supervisor
