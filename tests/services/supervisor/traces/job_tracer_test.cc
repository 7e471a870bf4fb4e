#include "services/supervisor/traces/job_tracer.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "libs/tracing/fake_tracer.h"
#include "libs/tracing/scope.h"
#include "services/supervisor/state/change_hub.h"
#include "tests/services/supervisor/managers_fixture.h"
#include "tests/services/supervisor/rescale_fixture.h"

namespace adaptdl::supervisor {
namespace {

using tracing::Span;

class JobTracerTest : public RescaleTest {
 protected:
  JobTracerTest() { options_.tracer = tracer_; }

  Span Await(const std::string& name) {
    EXPECT_TRUE(tracer_->Await(name)) << name;
    const std::vector<Span> spans = tracer_->Named(name);
    return spans.empty() ? Span{} : spans.front();
  }

  // The first replica says that it has trained; it is stored with the next step.
  void Train() {
    first_.heart->Beat(0.1);
    first_.heart->Next();
    Advance(absl::Seconds(1));
  }

  // Job "a" grows to two replicas, with a newcomer that takes two seconds to start.
  void Grow() {
    Allocate(job_, {"n1", "n2"});
    const v1::LaunchReplica launch = n2_->NextLaunch();
    n2_->Running(launch);
    clock_.Advance(absl::Seconds(2));
    second_ = Play(launch, "n2:1");
    const v1::GroupFormed formed = second_.join->Formed();
    const v1::GroupFormed plan = first_.heart->NextCommand().plan().formed();
    Enter(&second_, formed);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
    Enter(&first_, plan);
    v1::HeartbeatRequest times;
    times.mutable_rescale()->set_group(2);
    times.mutable_rescale()->mutable_rebuild()->set_nanos(20'000'000);
    times.mutable_rescale()->mutable_synchronize()->set_nanos(30'000'000);
    times.mutable_rescale()->mutable_first_step()->set_nanos(50'000'000);
    first_.heart->Send(times);
    first_.heart->Next();
  }

  const std::shared_ptr<tracing::FakeTracer> tracer_ = std::make_shared<tracing::FakeTracer>();
};

std::string Text(const Span& span, const std::string& key) {
  for (const auto& [name, value] : span.attributes) {
    if (name == key) return std::get<std::string>(value);
  }
  return "";
}

TEST_F(JobTracerTest, TheStartOfAJobIsPartOfTheCallThatSubmittedIt) {
  const tracing::Context caller = tracing::NewTrace();
  {
    const tracing::Scope scope(caller);
    job_ = Submit(NewJob("a"));
  }
  clock_.Advance(absl::Seconds(5));
  Allocate(job_, {"n1"});
  const v1::LaunchReplica launch = n1_->NextLaunch();
  const std::optional<tracing::Context> launched = tracing::Parse(launch.traceparent());
  ASSERT_TRUE(launched.has_value()) << launch.traceparent();
  EXPECT_EQ(launched->trace_id, caller.trace_id);
  // Time passes only once what it is to be measured from is known.
  WaitForPhase("a", v1::JOB_PHASE_STARTING);
  clock_.Advance(absl::Seconds(3));
  first_ = Play(launch, "n1:1");
  n1_->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  Enter(&first_, first_.join->Formed());
  Train();

  const Span start = Await("submit to first step");
  EXPECT_EQ(start.context.trace_id, caller.trace_id);
  EXPECT_EQ(start.parent_span_id, caller.span_id);
  EXPECT_EQ(start.context, *launched);
  EXPECT_EQ(Text(start, "adaptdl.job"), "a");
  EXPECT_EQ(Text(start, "adaptdl.job_uid"), job_.uid());
  const Span queue = Await("queue");
  const Span started = Await("launch");
  const Span first = Await("first step");
  EXPECT_EQ(queue.parent_span_id, start.context.span_id);
  EXPECT_EQ(queue.end - queue.begin, absl::Seconds(5));
  EXPECT_EQ(started.begin, queue.end);
  EXPECT_EQ(started.end - started.begin, absl::Seconds(3));
  EXPECT_EQ(first.begin, started.end);
  EXPECT_EQ(first.end, start.end);
  EXPECT_EQ(start.begin, queue.begin);
}

TEST_F(JobTracerTest, AJobWithoutATraceGetsOneOfItsOwn) {
  StartOne();
  EXPECT_TRUE(tracing::Parse(first_.launch.traceparent()).has_value()) << first_.launch.traceparent();
  Train();
  const Span start = Await("submit to first step");
  EXPECT_EQ(start.parent_span_id, "");
  EXPECT_EQ(tracing::Format(start.context), first_.launch.traceparent());
}

TEST_F(JobTracerTest, ARescaleIsATraceOfWhatItsReplicasReport) {
  StartOne();
  Train();
  const Span start = Await("submit to first step");
  Grow();
  const Span rescale = Await("re-scale");
  EXPECT_NE(rescale.context.trace_id, start.context.trace_id);
  ASSERT_EQ(rescale.links.size(), 1u);
  EXPECT_EQ(rescale.links[0], start.context);
  EXPECT_GE(rescale.end - rescale.begin, absl::Seconds(2));
  const Span rebuild = Await("rebuild");
  const Span synchronize = Await("synchronize");
  EXPECT_EQ(rebuild.parent_span_id, rescale.context.span_id);
  EXPECT_EQ(rebuild.end - rebuild.begin, absl::Milliseconds(20));
  EXPECT_EQ(synchronize.begin, rebuild.end);
  EXPECT_EQ(synchronize.end - synchronize.begin, absl::Milliseconds(30));
  ASSERT_EQ(tracer_->Named("first step").size(), 2u);
  const Span first = tracer_->Named("first step")[1];
  EXPECT_EQ(first.begin, synchronize.end);
  EXPECT_EQ(first.end, rescale.end);
  const Span newcomers = Await("newcomers start");
  EXPECT_EQ(newcomers.begin, rescale.begin);
  EXPECT_EQ(newcomers.end - newcomers.begin, absl::Seconds(2));
}

TEST_F(JobTracerTest, ARestartIsATraceOfItsOwn) {
  v1::Job spec = NewJob("a");
  spec.mutable_spec()->set_rescale(v1::RESCALE_MODE_RESTART);
  StartOne(spec);
  Train();
  Allocate(job_, {"n2"});
  EXPECT_EQ(n1_->NextStop().replica_id(), first_.launch.replica_id());
  clock_.Advance(absl::Seconds(4));
  n1_->Exited(first_.launch, 143);
  const v1::LaunchReplica launch = n2_->NextLaunch();
  n2_->Running(launch);
  WaitForPhase("a", v1::JOB_PHASE_RUNNING);
  first_ = Play(launch, "n2:1");
  Enter(&first_, first_.join->Formed());
  Train();
  const Span restart = Await("restart");
  EXPECT_GE(restart.end - restart.begin, absl::Seconds(4));
  EXPECT_EQ(Text(restart, "adaptdl.job"), "a");
}

TEST_F(JobTracerTest, OfAJobThatBeganEarlierOnlyItsRescalesAreKnown) {
  StartOne();
  Train();
  Await("submit to first step");
  first_ = {};
  n1_ = nullptr;
  n2_ = nullptr;
  Stop();
  clock_.Advance(absl::Seconds(1));
  Start();
  n1_ = std::make_unique<FakeWorker>(channel_, "n1");
  ASSERT_TRUE(n1_->Register().ok());
  n1_->Connect();
  n1_->AwaitHeard();
  Advance(absl::Seconds(5));
  ASSERT_TRUE(Cancel("a").ok());
  WaitFor("a", [](const v1::Job& job) { return job.status().cancel_requested(); });
  EXPECT_EQ(tracer_->Named("submit to first step").size(), 1u);
}

class SilentStream final : public ReplicaStream {
 public:
  void Poke() override {}
  void End(const absl::Status& /*why*/) override {}
};

// Changes are told of by a thread of their own, which may be late.
class LateTracerTest : public ManagersTest {
 protected:
  void SetUp() override {
    ManagersTest::SetUp();
    tracer_ = std::make_unique<JobTracer>(cluster_->core(), spans_);
    cluster_->SetTracer(tracer_.get());
    ASSERT_TRUE(AddNode("n1").ok());
    job_ = Submit("a").value_or(v1::Job());
    changes_.jobs[job_.uid()];
  }
  void TearDown() override { cluster_.reset(); }

  // The job runs, and nobody was told of a change.
  void Run() {
    ASSERT_TRUE(Allocate(job_, {"n1"}).ok());
    ASSERT_EQ(launcher_.launches.size(), 1u);
    launch_ = launcher_.launches[0].second;
    ASSERT_TRUE(Report(launch_, "n1", v1::REPLICA_STATE_RUNNING).ok());
    sessions_.Attach(launch_.replica_id(), stream_);
  }
  void Train() {
    v1::HeartbeatRequest request;
    request.mutable_progress()->set_optimizer_steps(1);
    sessions_.Heard(launch_.replica_id(), job_.uid(), request, clock_.Steady());
    Advance(absl::Seconds(1));
  }

  const std::shared_ptr<SilentStream> stream_ = std::make_shared<SilentStream>();
  const std::shared_ptr<tracing::FakeTracer> spans_ = std::make_shared<tracing::FakeTracer>();
  std::unique_ptr<JobTracer> tracer_;
  v1::Job job_;
  v1::LaunchReplica launch_;
  Changes changes_;
};

TEST_F(LateTracerTest, AJobThatRunsByThenHasItsTraceAllTheSame) {
  Run();
  EXPECT_TRUE(tracing::Parse(launch_.traceparent()).has_value()) << launch_.traceparent();
  tracer_->OnChanges(changes_);
  Train();
  tracer_->OnChanges(changes_);
  const std::vector<Span> starts = spans_->Named("submit to first step");
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(tracing::Format(starts[0].context), launch_.traceparent());
}

TEST_F(LateTracerTest, ARepeatedSubmissionChangesNothing) {
  const tracing::Context caller = tracing::NewTrace();
  tracer_->Begin(job_.uid(), caller);
  Run();
  tracer_->Begin(job_.uid(), tracing::NewTrace());
  Train();
  tracer_->OnChanges(changes_);
  tracer_->Begin(job_.uid(), caller);
  tracer_->OnChanges(changes_);
  const std::vector<Span> starts = spans_->Named("submit to first step");
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(tracing::Format(starts[0].context), launch_.traceparent());
  EXPECT_EQ(starts[0].parent_span_id, caller.span_id);
}

}  // namespace
}  // namespace adaptdl::supervisor
