#include "services/allocator/snapshot_converter.h"

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "tests/services/allocator/snapshots.h"

namespace adaptdl::allocator {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

scheduling::JobInfo ConvertOne(const v1::Job& job) {
  v1::ClusterSnapshot snapshot;
  *snapshot.add_jobs() = job;
  SnapshotConverter converter;
  const ConvertedCluster cluster = converter.Convert(snapshot, kNow);
  EXPECT_EQ(cluster.view.jobs.size(), 1u);
  return cluster.view.jobs.at(0);
}

TEST(SnapshotConverter, AJobWithoutHintsMayHaveItsMinimum) {
  v1::Job job = MakeJob("a");
  EXPECT_EQ(ConvertOne(job).max_replicas, 1);
  EXPECT_THAT(ConvertOne(job).max_replicas_reason, HasSubstr("reported"));
  job.mutable_spec()->set_min_replicas(3);
  EXPECT_EQ(ConvertOne(job).min_replicas, 3);
  EXPECT_EQ(ConvertOne(job).max_replicas, 3);
}

TEST(SnapshotConverter, HintsDoubleWhatWasMeasuredWithinTheSpec) {
  v1::Job job = MakeJob("a");
  *job.mutable_status()->mutable_hints() = MakeHints(4);
  EXPECT_EQ(ConvertOne(job).max_replicas, 8);
  EXPECT_THAT(ConvertOne(job).max_replicas_reason, HasSubstr("measured, 4"));
  job.mutable_spec()->set_max_replicas(5);
  EXPECT_EQ(ConvertOne(job).max_replicas, 5);
  EXPECT_EQ(ConvertOne(job).max_replicas_reason, "maxReplicas is 5");
  job.mutable_status()->mutable_hints()->set_min_local_batch_size(32);  // of 64
  EXPECT_EQ(ConvertOne(job).max_replicas, 2);
  EXPECT_THAT(ConvertOne(job).max_replicas_reason, HasSubstr("can't feed more"));
  job.mutable_spec()->set_min_replicas(3);
  EXPECT_EQ(ConvertOne(job).max_replicas, 3);
  *job.mutable_status()->mutable_hints() = MakeHints(0);
  job.mutable_spec()->set_min_replicas(0);
  EXPECT_EQ(ConvertOne(job).max_replicas, 1);
}

TEST(SnapshotConverter, SpeedupsAreThoseOfTheJobsOwnBatch) {
  v1::Job job = MakeJob("a");
  *job.mutable_status()->mutable_hints() = MakeHints(4);
  const scheduling::JobInfo fixed = ConvertOne(job);
  // 64 samples: 0.641 s on one replica; 0.321 + 0.03 s on two; on three, 22 samples each are 66 in all.
  EXPECT_NEAR(fixed.speedup->At(2, 2), 0.641 / 0.351, 1e-6);
  EXPECT_NEAR(fixed.speedup->At(2, 3), 66.0 / 64 * 0.641 / (0.001 + 22 * 0.01 + 0.03), 1e-6);
  // With a larger batch and no gradient statistics, scaling is perfect.
  job.mutable_status()->mutable_hints()->set_max_batch_size(6400);
  EXPECT_GT(ConvertOne(job).speedup->At(2, 3), fixed.speedup->At(2, 3));
}

TEST(SnapshotConverter, KnowsWhatAJobWouldLose) {
  v1::Job job = MakeJob("a");
  job.mutable_status()->mutable_running_time()->set_seconds(70);
  EXPECT_EQ(ConvertOne(job).run_seconds, 70);
  EXPECT_EQ(ConvertOne(job).unsaved_seconds, 0);  // it does not run now
  job.mutable_status()->add_desired_allocation("n0");
  // A plain program, as far as is known.
  EXPECT_FALSE(ConvertOne(job).elastic);
  EXPECT_EQ(ConvertOne(job).unsaved_seconds, 70);
  v1::Job trains = job;
  trains.mutable_status()->mutable_progress()->set_optimizer_steps(1);
  EXPECT_TRUE(ConvertOne(trains).elastic);
  EXPECT_EQ(ConvertOne(trains).unsaved_seconds, 0);
  trains.mutable_status()->set_checkpoint_error("disk full");
  EXPECT_EQ(ConvertOne(trains).unsaved_seconds, 70);
  *job.mutable_status()->mutable_hints() = MakeHints(1);
  EXPECT_TRUE(ConvertOne(job).elastic);
}

TEST(SnapshotConverter, JobsMoveOnToTheNextSizeThatTheyMayHave) {
  v1::Job job = MakeJob("a");
  for (const int count : {2, 4, 10}) job.mutable_spec()->add_allowed_replicas(count);
  EXPECT_THAT(ConvertOne(job).allowed_replicas, ElementsAre(2, 4, 10));
  EXPECT_EQ(ConvertOne(job).min_replicas, 2);
  EXPECT_EQ(ConvertOne(job).max_replicas, 2);
  *job.mutable_status()->mutable_hints() = MakeHints(2);
  EXPECT_EQ(ConvertOne(job).max_replicas, 4);
  job.mutable_status()->mutable_hints()->set_max_profiled_replicas(4);
  EXPECT_EQ(ConvertOne(job).max_replicas, 10) << "8 would be twice as much";
  EXPECT_EQ(ConvertOne(job).measured_replicas, 4);
  job.mutable_status()->mutable_hints()->set_max_profiled_replicas(10);
  EXPECT_EQ(ConvertOne(job).max_replicas, 10);
  EXPECT_THAT(ConvertOne(job).max_replicas_reason, HasSubstr("allowedReplicas holds no more than 10"));
  job.mutable_spec()->set_max_replicas(9);
  EXPECT_EQ(ConvertOne(job).max_replicas, 4);
  EXPECT_EQ(ConvertOne(job).max_replicas_reason,
            "allowedReplicas holds nothing from 5 to 9, and maxReplicas is 9");
  job.mutable_spec()->set_min_replicas(3);
  EXPECT_EQ(ConvertOne(job).min_replicas, 4);
}

TEST(SnapshotConverter, SaysWhatTheJobIsToOthersAndWhatItHasHad) {
  v1::Job job = MakeJob("a");
  job.set_namespace_("team");
  job.mutable_spec()->set_priority(-7);
  scheduling::JobInfo info = ConvertOne(job);
  EXPECT_EQ(info.name_space, "team");
  EXPECT_EQ(info.priority, -7);
  EXPECT_EQ(info.restarts, 0);
  EXPECT_FALSE(info.restarting);
  EXPECT_EQ(info.rescale_seconds, 10);
  EXPECT_EQ(info.attained_service, 0);
  v1::JobStatus* status = job.mutable_status();
  status->set_restarts(3);
  status->set_phase(v1::JOB_PHASE_STOPPING);
  status->mutable_rescale_duration()->set_seconds(4);
  status->mutable_rescale_duration()->set_nanos(500'000'000);
  status->mutable_running_time()->set_seconds(100);
  for (const char* node : {"n0", "n1", "n1"}) status->add_desired_allocation(node);
  info = ConvertOne(job);
  EXPECT_EQ(info.restarts, 3);
  EXPECT_TRUE(info.restarting);
  EXPECT_EQ(info.rescale_seconds, 4.5);
  EXPECT_EQ(info.attained_service, 300);
  job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(2);
  EXPECT_EQ(ConvertOne(job).attained_service, 600);
  status->mutable_running_time()->set_seconds(-5);
  status->mutable_rescale_duration()->set_seconds(-5);
  EXPECT_EQ(ConvertOne(job).attained_service, 0);
  EXPECT_EQ(ConvertOne(job).rescale_seconds, 0);
}

TEST(SnapshotConverter, AJobThatWasNeverRescaledExpectsWhatOthersLost) {
  v1::Job fresh = MakeJob("fresh");
  EXPECT_EQ(ConvertOne(fresh).rescale_seconds, 10);
  fresh.mutable_spec()->set_rescale(v1::RESCALE_MODE_IN_PLACE);
  // Programs of AdaptDL's Python package start again.
  *fresh.mutable_status()->mutable_hints() = MakeHints(1);
  EXPECT_EQ(ConvertOne(fresh).rescale_seconds, 10);
  fresh.mutable_status()->mutable_progress()->set_optimizer_steps(1);
  EXPECT_EQ(ConvertOne(fresh).rescale_seconds, 1);
  v1::Job moved = MakeJob("moved");
  moved.mutable_status()->set_rescales(2);
  moved.mutable_status()->mutable_rescale_duration()->set_nanos(250'000'000);
  v1::Job restarted = MakeJob("restarted");
  restarted.mutable_status()->set_restarts(1);
  restarted.mutable_status()->mutable_rescale_duration()->set_seconds(25);
  v1::Job both = MakeJob("both");
  both.mutable_status()->set_restarts(1);
  both.mutable_status()->set_rescales(1);
  both.mutable_status()->mutable_rescale_duration()->set_seconds(400);
  v1::ClusterSnapshot snapshot;
  for (const v1::Job& job : {moved, restarted, both, fresh}) *snapshot.add_jobs() = job;
  *snapshot.add_jobs() = MakeJob("plain");
  SnapshotConverter converter;
  ConvertedCluster cluster = converter.Convert(snapshot, kNow);
  EXPECT_EQ(cluster.view.jobs[3].rescale_seconds, 0.25);
  EXPECT_EQ(cluster.view.jobs[4].rescale_seconds, 25);
  // Also of jobs that have ended.
  snapshot.mutable_jobs()->DeleteSubrange(0, 3);
  cluster = converter.Convert(snapshot, kNow);
  EXPECT_EQ(cluster.view.jobs[0].rescale_seconds, 0.25);
  EXPECT_EQ(cluster.view.jobs[1].rescale_seconds, 25);
}

TEST(SnapshotConverter, KnowsTheTimeThatIsLeft) {
  v1::Job job = MakeJob("a");
  v1::TrainingProgress* progress = job.mutable_status()->mutable_progress();
  progress->set_scale_invariant_steps(100);
  progress->set_total_scale_invariant_steps(400);
  EXPECT_EQ(ConvertOne(job).remaining_seconds, std::nullopt) << "no model yet";
  *job.mutable_status()->mutable_hints() = MakeHints(1);
  // A step of 64 samples takes one replica 0.641 s.
  ASSERT_TRUE(ConvertOne(job).remaining_seconds.has_value());
  EXPECT_NEAR(*ConvertOne(job).remaining_seconds, 300 * 0.641, 1e-4);
  EXPECT_NEAR(*ConvertOne(job).done_seconds, 100 * 0.641, 1e-4);
  // One that needs two replicas has their half as its unit.
  job.mutable_status()->mutable_hints()->set_max_local_batch_size(32);
  EXPECT_NEAR(*ConvertOne(job).remaining_seconds, 300 * 2 * 0.351, 1e-4);
  progress->set_scale_invariant_steps(500);
  EXPECT_EQ(ConvertOne(job).remaining_seconds, 0);
  progress->set_total_scale_invariant_steps(0);
  EXPECT_EQ(ConvertOne(job).remaining_seconds, std::nullopt);
}

TEST(SnapshotConverter, WhatOthersOfTheKindTookIsAHint) {
  v1::Job job = MakeJob("a");
  *job.mutable_status()->mutable_hints() = MakeHints(1);
  v1::TrainingProgress* progress = job.mutable_status()->mutable_progress();
  progress->set_scale_invariant_steps(100);
  EXPECT_EQ(ConvertOne(job).expected_seconds, std::nullopt);
  // A thousand jobs of 400 steps of 64 samples each: 300 are left, of 0.641 s.
  v1::PastWork* past = job.mutable_status()->mutable_past_work();
  past->set_jobs(1'000'000);
  past->set_mean_log(std::log(400 * 64));
  ASSERT_TRUE(ConvertOne(job).expected_seconds.has_value());
  EXPECT_NEAR(*ConvertOne(job).expected_seconds, 300 * 0.641, 2);
  EXPECT_EQ(ConvertOne(job).remaining_seconds, std::nullopt);
  progress->set_total_scale_invariant_steps(200);
  EXPECT_EQ(ConvertOne(job).expected_seconds, std::nullopt) << "it knows better";
  progress->set_total_scale_invariant_steps(0);
  past->set_mean_log(std::nan(""));
  EXPECT_EQ(ConvertOne(job).expected_seconds, std::nullopt) << "nonsense";
}

TEST(SnapshotConverter, TablesReachAsFarAsTheClusterDoes) {
  v1::ClusterSnapshot snapshot;
  for (const char* id : {"n0", "n1", "n2"}) *snapshot.add_nodes() = MakeNode(id, 2000);
  *snapshot.add_jobs() = MakeJob("a");
  SnapshotConverter converter;
  const auto job = [&] { return converter.Convert(snapshot, kNow).view.jobs.at(0); };
  EXPECT_EQ(job().speedup->max_replicas(), 6);
  EXPECT_EQ(job().max_replicas, 1);
  *snapshot.mutable_jobs(0)->mutable_status()->mutable_hints() = MakeHints(1);
  EXPECT_EQ(job().speedup->max_replicas(), 6);
  EXPECT_EQ(job().max_replicas, 2);
  const auto table = job().speedup;
  snapshot.mutable_nodes()->RemoveLast();
  EXPECT_EQ(job().speedup, table) << "a node that goes away costs no new table";
  snapshot.mutable_jobs(0)->mutable_spec()->set_max_replicas(3);
  SnapshotConverter fresh;
  EXPECT_EQ(fresh.Convert(snapshot, kNow).view.jobs.at(0).speedup->max_replicas(), 3);
  EXPECT_EQ(fresh.Convert(snapshot, kNow).view.now, kNow);
}

TEST(SnapshotConverter, RefusesSizesAndPrioritiesThatCannotBe) {
  const auto why = [](const std::vector<int>& allowed, int priority) {
    v1::ClusterSnapshot snapshot;
    *snapshot.add_jobs() = MakeJob("a");
    snapshot.mutable_jobs(0)->mutable_spec()->set_max_replicas(8);
    snapshot.mutable_jobs(0)->mutable_spec()->mutable_allowed_replicas()->Assign(allowed.begin(),
                                                                                 allowed.end());
    snapshot.mutable_jobs(0)->mutable_spec()->set_priority(priority);
    SnapshotConverter converter;
    const ConvertedCluster cluster = converter.Convert(snapshot, kNow);
    return cluster.refusals.empty() ? "" : cluster.refusals[0].why;
  };
  EXPECT_EQ(why({1, 2}, 0), "");
  EXPECT_THAT(why({2, 1}, 0), HasSubstr("allowed_replicas: 1 after 2"));
  EXPECT_THAT(why({2, 2}, 0), HasSubstr("allowed_replicas: 2 after 2"));
  EXPECT_THAT(why({0, 2}, 0), HasSubstr("allowed_replicas: 0"));
  EXPECT_THAT(why({9}, 0), HasSubstr("allowed_replicas: 9"));
  EXPECT_THAT(why({}, 1001), HasSubstr("priority: 1001"));
}

TEST(SnapshotConverter, KeepsATableUntilTheHintsChange) {
  v1::ClusterSnapshot snapshot;
  *snapshot.add_jobs() = MakeJob("a");
  *snapshot.mutable_jobs(0)->mutable_status()->mutable_hints() = MakeHints(2);
  SnapshotConverter converter;
  const auto first = converter.Convert(snapshot, kNow).view.jobs[0].speedup;
  EXPECT_EQ(converter.Convert(snapshot, kNow).view.jobs[0].speedup, first);
  snapshot.mutable_jobs(0)->mutable_status()->mutable_hints()->mutable_perf_params()->set_beta_c(0.02);
  EXPECT_NE(converter.Convert(snapshot, kNow).view.jobs[0].speedup, first);
}

TEST(SnapshotConverter, UsesDefaultsOfTheSpecification) {
  v1::Job job = MakeJob("a");
  job.mutable_spec()->mutable_template_()->clear_resources();
  const scheduling::JobInfo info = ConvertOne(job);
  EXPECT_EQ(info.request.at(scheduling::kCpu), 1000);
  EXPECT_TRUE(info.preemptible);
  job.mutable_spec()->mutable_template_()->set_api_access(true);
  EXPECT_EQ(ConvertOne(job).request.at(scheduling::kCpu), 1000);
  job.mutable_spec()->mutable_template_()->mutable_resources()->set_memory_bytes(1 << 20);
  EXPECT_EQ(ConvertOne(job).request.count(scheduling::kCpu), 0u);
  job.mutable_spec()->set_preemptible(false);
  EXPECT_FALSE(ConvertOne(job).preemptible);
}

TEST(SnapshotConverter, RefusesABadJobAloneAndByName) {
  v1::ClusterSnapshot snapshot;
  *snapshot.add_nodes() = MakeNode("n0");
  *snapshot.add_jobs() = MakeJob("good");
  *snapshot.add_jobs() = MakeJob("bad");
  snapshot.mutable_jobs(1)->mutable_spec()->set_min_replicas(4);
  snapshot.mutable_jobs(1)->mutable_spec()->set_max_replicas(2);
  SnapshotConverter converter;
  ConvertedCluster cluster = converter.Convert(snapshot, kNow);
  ASSERT_EQ(cluster.view.jobs.size(), 1u);
  EXPECT_EQ(cluster.view.jobs[0].key, "default/good");
  ASSERT_EQ(cluster.refusals.size(), 1u);
  EXPECT_EQ(cluster.refusals[0].what, "job default/bad");
  EXPECT_THAT(cluster.refusals[0].why, HasSubstr("max_replicas, 2"));

  // If it holds replicas, these keep their room.
  snapshot.mutable_jobs(1)->mutable_status()->add_desired_allocation("n0");
  cluster = converter.Convert(snapshot, kNow);
  ASSERT_EQ(cluster.view.jobs.size(), 2u);
  EXPECT_FALSE(cluster.view.jobs[1].preemptible);
  const scheduling::Decision decision = scheduling::GoodputPolicy({}).Decide(cluster.view, 1);
  EXPECT_THAT(decision.jobs[0].allocation, IsEmpty());
  EXPECT_EQ(decision.jobs[1].allocation.size(), 1u);
}

TEST(SnapshotConverter, HintsThatCannotBeAreNotUsed) {
  v1::Job job = MakeJob("a");
  job.mutable_status()->add_desired_allocation("n0");
  job.mutable_status()->add_desired_allocation("n1");
  v1::Hints& hints = *job.mutable_status()->mutable_hints();
  const auto check = [&](const std::string& field) {
    v1::ClusterSnapshot snapshot;
    *snapshot.add_jobs() = job;
    SnapshotConverter converter;
    const ConvertedCluster cluster = converter.Convert(snapshot, kNow);
    ASSERT_EQ(cluster.refusals.size(), 1u) << field;
    EXPECT_THAT(cluster.refusals[0].why, HasSubstr(field));
    EXPECT_EQ(cluster.view.jobs[0].max_replicas, 2) << "what it has is not taken away";
    hints = MakeHints(4);
  };
  hints = MakeHints(4);
  hints.mutable_perf_params()->set_alpha_c(std::nan(""));
  check("alpha_c");
  hints.mutable_perf_params()->set_beta_n(-1);
  check("beta_n");
  hints.mutable_perf_params()->set_gamma(0);
  check("gamma");
  hints.set_init_batch_size(0);
  check("init_batch_size");
  hints.set_max_batch_size(32);
  check("max_batch_size");
  hints.set_min_local_batch_size(128);
  check("min_local_batch_size");
  hints.set_max_profiled_replicas(-5);
  check("max_profiled_replicas");
  hints.set_max_profiled_replicas(std::numeric_limits<int32_t>::max());
  check("max_profiled_replicas");
  hints.mutable_grad_params()->set_var(std::numeric_limits<double>::infinity());
  check("var");
}

TEST(SnapshotConverter, LeavesOutNodesThatCannotBe) {
  v1::ClusterSnapshot snapshot;
  *snapshot.add_nodes() = MakeNode("n1");
  *snapshot.add_nodes() = MakeNode("n1");
  *snapshot.add_nodes() = MakeNode("");
  *snapshot.add_nodes() = MakeNode("n0", -5);
  *snapshot.add_nodes() = MakeNode("n2");
  snapshot.mutable_nodes(4)->mutable_status()->set_phase(v1::NODE_PHASE_DRAINING);
  SnapshotConverter converter;
  const ConvertedCluster cluster = converter.Convert(snapshot, kNow);
  ASSERT_EQ(cluster.view.nodes.size(), 2u);
  EXPECT_EQ(cluster.view.nodes[0].id, "n1");
  EXPECT_FALSE(cluster.view.nodes[0].draining);
  EXPECT_TRUE(cluster.view.nodes[1].draining);
  EXPECT_EQ(cluster.refusals.size(), 3u);
}

TEST(SnapshotConverter, AJobThatWaitsDoesNotHoldOnToNodesThatCannotTakeIt) {
  v1::ClusterSnapshot snapshot;
  *snapshot.add_nodes() = MakeNode("a", 2000);
  v1::Job& job = *snapshot.add_jobs() = MakeJob("j");
  job.mutable_spec()->set_preemptible(false);
  job.mutable_status()->add_desired_allocation("a");
  job.mutable_status()->add_desired_allocation("a");
  const auto allocation = [&] {
    return SnapshotConverter().Convert(snapshot, kNow).view.jobs.at(0).allocation;
  };
  EXPECT_THAT(allocation(), SizeIs(2));
  snapshot.mutable_nodes(0)->mutable_capacity()->set_cpu_millis(1000);
  EXPECT_THAT(allocation(), IsEmpty());
  job.mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  EXPECT_THAT(allocation(), SizeIs(2)) << "what runs stays";
  job.mutable_status()->set_phase(v1::JOB_PHASE_PENDING);
  *snapshot.mutable_nodes(0) = MakeNode("a", 2000);
  snapshot.mutable_nodes(0)->mutable_status()->set_phase(v1::NODE_PHASE_DRAINING);
  EXPECT_THAT(allocation(), IsEmpty());
}

TEST(SnapshotConverter, AJobThatIsBeingCancelledIsLeftAlone) {
  v1::ClusterSnapshot snapshot;
  *snapshot.add_jobs() = MakeJob("a");
  snapshot.mutable_jobs(0)->mutable_status()->set_cancel_requested(true);
  SnapshotConverter converter;
  EXPECT_TRUE(converter.Convert(snapshot, kNow).view.jobs.empty());
  snapshot.mutable_jobs(0)->mutable_status()->add_desired_allocation("n0");
  EXPECT_FALSE(converter.Convert(snapshot, kNow).view.jobs.at(0).preemptible);
}

TEST(HintSignature, ChangesWithTheFirstHintsAndALargerMeasuredSize) {
  v1::Job job = MakeJob("a");
  const std::string none = HintSignature(job);
  *job.mutable_status()->mutable_hints() = MakeHints(1);
  const std::string first = HintSignature(job);
  EXPECT_NE(none, first);
  job.mutable_status()->mutable_hints()->mutable_perf_params()->set_alpha_c(0.3);
  EXPECT_EQ(HintSignature(job), first);
  job.mutable_status()->mutable_hints()->set_max_profiled_replicas(2);
  EXPECT_NE(HintSignature(job), first);
}

// Whatever a snapshot holds, a round ends, and with an answer for each job that can be used.
TEST(SnapshotConverter, SurvivesAnything) {
  std::mt19937_64 random(5);
  const auto pick = [&](auto... values) {
    using T = std::common_type_t<decltype(values)...>;
    const T all[] = {static_cast<T>(values)...};
    return all[std::uniform_int_distribution<size_t>(0, sizeof...(values) - 1)(random)];
  };
  const int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t most = std::numeric_limits<int64_t>::max();
  const int32_t most32 = std::numeric_limits<int32_t>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  SnapshotConverter converter;
  for (int trial = 0; trial < 2000; ++trial) {
    v1::ClusterSnapshot snapshot;
    for (int n = 0; n < 4; ++n) {
      *snapshot.add_nodes() =
          MakeNode(std::to_string(n % 3), pick(int64_t{1000}, int64_t{4000}, int64_t{0}, least, most));
    }
    for (int j = 0; j < 4; ++j) {
      v1::Job job = MakeJob(std::to_string(j % 3));
      job.mutable_spec()->set_min_replicas(pick(0, 1, 2, -1, most32));
      job.mutable_spec()->set_max_replicas(pick(0, 1, 8, -1, most32));
      job.mutable_spec()->set_preemptible(pick(0, 1) == 1);
      for (int i = pick(0, 0, 1, 3); i > 0; --i) {
        job.mutable_spec()->add_allowed_replicas(pick(1, 2, 4 - i, 1000, -1, most32));
      }
      job.mutable_status()->mutable_running_time()->set_seconds(pick(int64_t{0}, int64_t{60}, least, most));
      job.mutable_status()->mutable_progress()->set_total_scale_invariant_steps(
          pick(0.0, 1e3, 1e300, infinity, std::nan("")));
      job.mutable_status()->mutable_progress()->set_scale_invariant_steps(pick(0.0, 1e300, -infinity));
      job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(
          pick(int64_t{1000}, int64_t{0}, int64_t{1}, least, most));
      (*job.mutable_spec()->mutable_template_()->mutable_resources()->mutable_extended())["x"] =
          pick(int64_t{0}, int64_t{0}, int64_t{1}, least, most);
      for (int r = pick(0, 0, 1, 5); r > 0; --r) {
        job.mutable_status()->add_desired_allocation(std::string(1, static_cast<char>(pick('0', '1', '9'))));
      }
      v1::Hints& hints = *job.mutable_status()->mutable_hints();
      hints = MakeHints(pick(0, 1, 8, -1, most32));
      hints.set_init_batch_size(pick(int64_t{64}, int64_t{64}, int64_t{0}, int64_t{1}, least, most));
      if (pick(0, 1) == 1)
        hints.set_max_batch_size(pick(int64_t{64}, int64_t{6400}, int64_t{0}, least, most));
      if (pick(0, 1) == 1) hints.set_min_local_batch_size(pick(int64_t{1}, int64_t{64}, least, most));
      if (pick(0, 1) == 1) hints.set_max_local_batch_size(pick(int64_t{1}, int64_t{64}, least, most));
      hints.set_gradient_accumulation(pick(0, 1) == 1);
      hints.mutable_perf_params()->set_alpha_c(pick(0.1, 0.0, 1e-300, 1e300, infinity, std::nan("")));
      hints.mutable_perf_params()->set_beta_c(pick(0.1, 0.0, 1e-300, 1e300, -1.0));
      hints.mutable_perf_params()->set_alpha_n(pick(0.1, 0.0, 1e5));
      hints.mutable_perf_params()->set_gamma(pick(1.0, 10.0, 1.5, 0.0));
      hints.mutable_grad_params()->set_norm(pick(0.0, 1.0, 1e-300, 1e149, infinity));
      hints.mutable_grad_params()->set_var(pick(0.0, 1.0, 1e-300, 1e149, -1.0));
      *snapshot.add_jobs() = job;
    }
    const ConvertedCluster cluster = converter.Convert(snapshot, kNow);
    const scheduling::Decision decision = scheduling::GoodputPolicy({}).Decide(cluster.view, 1);
    ASSERT_EQ(decision.jobs.size(), cluster.job_index.size());
  }
}

v1::GpuTypePerfParams Typed(const std::string& type, double factor) {
  v1::GpuTypePerfParams typed;
  typed.set_gpu_type(type);
  *typed.mutable_perf_params() = MakeHints().perf_params();
  typed.mutable_perf_params()->set_alpha_c(factor * typed.perf_params().alpha_c());
  typed.mutable_perf_params()->set_beta_c(factor * typed.perf_params().beta_c());
  return typed;
}

// A job of GPUs that runs on the first of `types` and knows all of them.
v1::Job GpuJob(const std::string& name, const std::vector<v1::GpuTypePerfParams>& types) {
  v1::Job job = MakeJob(name);
  job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(1);
  v1::Hints* hints = job.mutable_status()->mutable_hints();
  *hints = MakeHints(2);
  *hints->mutable_perf_params() = types.front().perf_params();
  for (const v1::GpuTypePerfParams& typed : types) *hints->add_perf_params_by_gpu_type() = typed;
  return job;
}

v1::ClusterSnapshot GpuCluster(const std::vector<std::string>& types) {
  v1::ClusterSnapshot snapshot;
  for (const std::string& type : types) {
    v1::Node* node = snapshot.add_nodes();
    *node = MakeNode("node-" + type, 8000);
    node->mutable_capacity()->set_gpus(4);
    node->set_gpu_type(type);
  }
  return snapshot;
}

TEST(SnapshotConverter, EveryGpuTypeHasATableOfTheSameUnit) {
  v1::ClusterSnapshot snapshot = GpuCluster({"fast", "slow"});
  *snapshot.add_jobs() = GpuJob("a", {Typed("slow", 1), Typed("fast", 0.25)});
  SnapshotConverter converter;
  const scheduling::JobInfo job = converter.Convert(snapshot, kNow).view.jobs.at(0);
  ASSERT_EQ(job.speedup_by_type.size(), 2u);
  EXPECT_DOUBLE_EQ(job.speedup_by_type.at("slow")->At(1, 1), 1);
  EXPECT_NEAR(job.speedup_by_type.at("fast")->At(1, 1), 4, 1e-6);
  EXPECT_LT(job.speedup_by_type.at("fast")->At(1, 2), 8) << "the network does not get faster";
  EXPECT_EQ(job.speedup_by_type.at("fast")->base_goodput(), job.speedup->base_goodput());
}

TEST(SnapshotConverter, OtherJobsTellHowFastATypeIsUntilItIsMeasured) {
  v1::ClusterSnapshot snapshot = GpuCluster({"fast", "slow"});
  *snapshot.add_jobs() = GpuJob("a", {Typed("slow", 1)});
  SnapshotConverter converter;
  // Nobody knows: as fast as the type it is on.
  scheduling::JobInfo job = converter.Convert(snapshot, kNow).view.jobs.at(0);
  EXPECT_NEAR(job.speedup_by_type.at("fast")->At(1, 1), 1, 1e-6);
  *snapshot.add_jobs() = GpuJob("b", {Typed("slow", 1), Typed("fast", 0.5)});
  job = converter.Convert(snapshot, kNow).view.jobs.at(0);
  EXPECT_NEAR(job.speedup_by_type.at("fast")->At(1, 1), 2, 0.06);
  // Its own measurement wins.
  *snapshot.mutable_jobs(0) = GpuJob("a", {Typed("slow", 1), Typed("fast", 1.0 / 3)});
  job = converter.Convert(snapshot, kNow).view.jobs.at(0);
  EXPECT_NEAR(job.speedup_by_type.at("fast")->At(1, 1), 3, 1e-6);
}

TEST(SnapshotConverter, TypesAreToldApartOnlyWhereItMatters) {
  SnapshotConverter converter;
  v1::ClusterSnapshot snapshot = GpuCluster({"slow"});
  *snapshot.add_jobs() = GpuJob("one-type", {Typed("slow", 1), Typed("gone", 0.5)});
  EXPECT_THAT(converter.Convert(snapshot, kNow).view.jobs.at(0).speedup_by_type, IsEmpty());
  snapshot = GpuCluster({"fast", "slow"});
  *snapshot.add_jobs() = MakeJob("no-hints");
  *snapshot.add_jobs() = GpuJob("no-gpus", {Typed("slow", 1)});
  snapshot.mutable_jobs(1)->mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(0);
  *snapshot.add_jobs() = GpuJob("older-library", {Typed("slow", 1)});
  snapshot.mutable_jobs(2)->mutable_status()->mutable_hints()->clear_perf_params_by_gpu_type();
  for (const scheduling::JobInfo& job : converter.Convert(snapshot, kNow).view.jobs) {
    EXPECT_THAT(job.speedup_by_type, IsEmpty()) << job.key;
  }
}

TEST(SnapshotConverter, ParametersOfATypeAreCheckedToo) {
  v1::ClusterSnapshot snapshot = GpuCluster({"fast", "slow"});
  *snapshot.add_jobs() = GpuJob("a", {Typed("slow", 1), Typed("fast", std::nan(""))});
  SnapshotConverter converter;
  const ConvertedCluster cluster = converter.Convert(snapshot, kNow);
  EXPECT_EQ(cluster.refusals.size(), 1u);
  EXPECT_THAT(cluster.view.jobs.at(0).speedup_by_type, IsEmpty());
}

TEST(SnapshotConverter, QuotasBecomeThoseOfTheView) {
  v1::ClusterSnapshot snapshot;
  v1::NamespaceQuota* quota = snapshot.add_quotas();
  quota->set_namespace_("team");
  quota->set_gpus(3);
  quota->set_weight(2);
  quota = snapshot.add_quotas();
  quota->set_namespace_("broken");
  quota->set_weight(std::nan(""));
  SnapshotConverter converter;
  const ConvertedCluster cluster = converter.Convert(snapshot, kNow);
  ASSERT_EQ(cluster.view.namespaces.size(), 1u);
  EXPECT_EQ(cluster.view.namespaces.at("team").gpu_quota, 3);
  EXPECT_EQ(cluster.view.namespaces.at("team").weight, 2);
  ASSERT_EQ(cluster.refusals.size(), 1u);
  EXPECT_THAT(cluster.refusals[0].what, HasSubstr("broken"));
}

}  // namespace
}  // namespace adaptdl::allocator
