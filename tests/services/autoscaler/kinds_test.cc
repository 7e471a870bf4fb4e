#include "services/autoscaler/kinds.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::Node Like(int64_t cpu_millis, const std::string& gpu_type = "") {
  v1::Node node;
  node.mutable_capacity()->set_cpu_millis(cpu_millis);
  node.set_gpu_type(gpu_type);
  return node;
}

v1::Node Registered(const std::string& id, int64_t cpu_millis) {
  v1::Node node = Like(cpu_millis);
  node.set_node_id(id);
  return node;
}

v1::JobDemand Job(std::initializer_list<int> kinds, const std::string& node = "") {
  v1::JobDemand job;
  job.set_weight(1);
  if (!node.empty()) job.add_node_ids(node);
  for (const int kind : kinds) {
    v1::KindSpeedups* speedups = job.add_kinds();
    speedups->set_kind(kind);
    speedups->set_replicas_per_node(2);
    speedups->add_replicas(1);
    speedups->add_speedups(1);
    speedups->add_replicas(3);
    speedups->add_speedups(2);
  }
  return job;
}

TEST(KindsTest, PoolsOfEqualNodesThatTakeTheSameJobsAreOneKind) {
  const KindQuestion question = AskAbout({Like(4000), Like(3990), Like(8000), Like(4000, "A10G")}, {});
  EXPECT_THAT(question.kinds, SizeIs(4));
  const KindAnswer answer = Interpret(question, {}, {Job({0, 1, 2, 3})});
  EXPECT_THAT(answer.merged, ElementsAre(0, 0, 1, 2));
  EXPECT_EQ(answer.kinds, 3);
  EXPECT_THAT(answer.jobs[0].demand.kinds, SizeIs(3));
}

TEST(KindsTest, PoolsThatDoNotTakeTheSameJobsAreDifferent) {
  const KindQuestion question = AskAbout({Like(4000), Like(4000)}, {});
  EXPECT_THAT(Interpret(question, {}, {Job({0, 1}), Job({1})}).merged, ElementsAre(0, 1));
}

TEST(KindsTest, OtherNodesThatAreAtLeastAsGoodAreOfAPoolsKind) {
  const KindQuestion question = AskAbout(
      {Like(4000)}, {Registered("large", 8000), Registered("same", 8000), Registered("small", 2000)});
  EXPECT_THAT(question.kinds, SizeIs(3));
  EXPECT_EQ(question.fixed_nodes.at("large"), question.fixed_nodes.at("same"));
  const KindAnswer answer = Interpret(question, {}, {Job({0, 1, 2})});
  EXPECT_EQ(answer.merged[question.fixed_nodes.at("large")], 0);
  EXPECT_EQ(answer.merged[question.fixed_nodes.at("small")], 1);
}

TEST(KindsTest, NodesOfManySortsAreCountedAsWhatTheyCover) {
  std::vector<v1::Node> others;
  for (int i = 0; i < 100; ++i) others.push_back(Registered(absl::StrCat("n", i), 4000 + i));
  others.push_back(Registered("tiny", 1));
  const KindQuestion question = AskAbout({Like(4000)}, others);
  EXPECT_THAT(question.kinds, SizeIs(64));
  EXPECT_EQ(question.fixed_nodes.at("n99"), 0);
  EXPECT_FALSE(question.fixed_nodes.contains("tiny"));
}

TEST(KindsTest, KnowsWhereAJobIsAndHowFast) {
  const KindQuestion question = AskAbout({Like(4000)}, {Registered("other", 2000)});
  v1::JobDemand two = Job({0, 1}, "pool-0");
  two.add_node_ids("pool-0");
  const KindAnswer answer =
      Interpret(question, {{"pool-0", 0}}, {two, Job({0, 1}, "other"), Job({0, 1}), Job({0, 1}, "unknown")});
  EXPECT_EQ(answer.jobs[0].present_kind, 0);
  EXPECT_EQ(answer.jobs[0].present_speedup, 1.5) << "between the sizes that were told";
  EXPECT_EQ(answer.jobs[1].present_kind, 1);
  EXPECT_EQ(answer.jobs[2].present_kind, -1);
  EXPECT_EQ(answer.jobs[3].present_kind, -1);
}

TEST(KindsTest, WhatIsNoAnswerIsPassedOver) {
  const KindQuestion question = AskAbout({Like(4000)}, {});
  v1::JobDemand job = Job({7, -1, 0, 0});
  job.set_weight(-1);
  job.set_remaining_seconds(std::nan(""));
  job.mutable_kinds(2)->set_speedups(1, 0.5);
  const KindAnswer answer = Interpret(question, {}, {job});
  ASSERT_THAT(answer.jobs[0].demand.kinds, SizeIs(1));
  EXPECT_THAT(answer.jobs[0].demand.kinds[0].sizes, SizeIs(1));
  EXPECT_EQ(answer.jobs[0].demand.weight, 1);
  EXPECT_FALSE(answer.jobs[0].demand.remaining_seconds.has_value());
  job.mutable_kinds(2)->set_replicas_per_node(0);
  job.mutable_kinds(3)->add_replicas(9);
  EXPECT_THAT(Interpret(question, {}, {job}).jobs[0].demand.kinds, IsEmpty());
}

}  // namespace
}  // namespace adaptdl::autoscaler
