// Spot machines: again and again a node is given notice by its cloud, and is killed at the time that this said. The job
// leaves it before, while it trains: no step is lost, no sample is seen twice, and nothing is started again.

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/messages/proto_time.h"
#include "tests/integration/chaos/training_record.h"
#include "tests/integration/test_cluster.h"
#include "tests/integration/training_data.h"
#include "tests/services/worker/notices/fake_metadata.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;
using ::testing::Not;

constexpr char kJob[] = "spot";
constexpr int kNodes = 3;
constexpr absl::Duration kPatience = absl::Minutes(3);
// One epoch reaches 90 %.
constexpr double kAccuracy = 93.0;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

std::string PrefixOf(int index) { return absl::StrCat("/node-", index); }
std::string NodeOf(int index) { return absl::StrCat("node-", index); }

// Whether a text names the node, and not only one whose name begins so.
bool Names(const std::string& text, const std::string& node) {
  for (size_t at = text.find(node); at != std::string::npos; at = text.find(node, at + 1)) {
    const size_t end = at + node.size();
    if (end == text.size() || !absl::ascii_isdigit(text[end])) return true;
  }
  return false;
}

class SpotTest : public testing::Test {
 protected:
  SpotTest() { std::filesystem::create_directories(record_folder_); }

  TestClusterOptions Options() {
    TestClusterOptions options;
    options.workers = kNodes;
    options.worker_flags = [this](int index) -> std::vector<std::string> {
      const std::string below = PrefixOf(index) + "/latest/meta-data/";
      metadata_.Set(below + "instance-id", absl::StrCat("i-", index));
      metadata_.Set(below + "local-ipv4", "127.0.0.1");
      return {"--preemptible", "--instance-metadata=aws",
              absl::StrCat("--instance-metadata-url=", metadata_.url(), PrefixOf(index))};
    };
    return options;
  }

  void Submit() {
    std::vector<std::string> command = {absl::StrCat(ADAPTDL_BINARY_DIR, "/tests/digits_job"), record_folder_,
                                        "--batch-size", "64"};
    for (const std::string& argument : TrainingData()) command.push_back(argument);
    v1::Job job = cluster_.CommandJob(kJob, command);
    job.mutable_spec()->set_rescale(v1::RESCALE_MODE_IN_PLACE);
    // On a busy machine it may measure that one replica alone is faster, and would rightly keep to that.
    job.mutable_spec()->set_min_replicas(2);
    job.mutable_spec()->set_max_replicas(kNodes);
    job.mutable_spec()->set_max_restarts(0);
    const auto submitted = cluster_.Submit(job);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
  }

  // The job once it trains, at `steps` or further, on two nodes or more.
  v1::Job Training(int64_t steps) {
    const auto job = cluster_.WaitForJob(
        kJob,
        [&](const v1::Job& seen) {
          return StepsReached(steps)(seen) && seen.status().allocation_size() >= 2;
        },
        kPatience);
    EXPECT_TRUE(job.ok()) << job.status() << "\n" << cluster_.Logs(kJob);
    return job.ok() ? *job : v1::Job();
  }

  // A node of the job is taken back.
  void TakeNode(const v1::Job& job, int round) {
    const auto& nodes = job.status().allocation();
    // Also that of rank 0, which the others come to.
    const std::string node = nodes[round % nodes.size()];
    const int index = std::atoi(node.c_str() + node.rfind('-') + 1);
    const absl::Time given = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
    const absl::Time deadline = given + absl::Seconds(window_);
    metadata_.TakeAwsInstance(PrefixOf(index), deadline);
    const auto empty = cluster_.WaitForNode(
        node,
        [](const v1::Node& seen) {
          return seen.status().phase() == v1::NODE_PHASE_DRAINING && seen.status().replicas() == 0;
        },
        kPatience);
    ASSERT_TRUE(empty.ok()) << empty.status() << "\n" << cluster_.Logs(kJob);
    EXPECT_EQ(messages::ToTime(empty->status().preemption_time()), deadline);
    EXPECT_EQ(empty->instance_id(), absl::StrCat("i-", index));
    ASSERT_NO_FATAL_FAILURE(ExpectLeftInTime(node, given, deadline));
    // Until then it is there, and does nothing.
    for (absl::Duration left = deadline - absl::Now(); left > absl::ZeroDuration();
         left = deadline - absl::Now()) {
      poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    }
    KillNode(index);
    cluster_.StartWorker(next_);
    const auto comes = cluster_.WaitForNode(
        NodeOf(next_), [](const v1::Node& seen) { return seen.status().phase() == v1::NODE_PHASE_READY; },
        kPatience);
    ASSERT_TRUE(comes.ok()) << comes.status();
    ++next_;
  }

  // By the times of events: that the node goes, and that the group went on without it.
  void ExpectLeftInTime(const std::string& node, absl::Time given, absl::Time deadline) {
    absl::Time told = absl::InfinitePast();
    absl::Time left = absl::InfinitePast();
    for (const v1::Event& event : cluster_.Events(kJob)) {
      const absl::Time time = messages::ToTime(event.time());
      if (event.reason() == "NodePreempted" && event.node_id() == node) told = time;
      const bool without = event.reason() == "GroupStarted" && !Names(event.message(), node);
      if (without && told != absl::InfinitePast() && left < told) left = time;
    }
    ASSERT_NE(told, absl::InfinitePast());
    ASSERT_GE(left, told) << "the group went on without it";
    EXPECT_LT(left, deadline);
    slowest_ = std::max(slowest_, left - told);
    std::cout << node << " was told of " << absl::FormatDuration(told - given)
              << " after its cloud knew, and was left " << absl::FormatDuration(left - told) << " later, "
              << absl::FormatDuration(deadline - left) << " before its end" << std::endl;
  }

  // As a machine that is switched off.
  void KillNode(int index) {
    cluster_.worker(index).Kill();
    KillProcessesMatching(absl::StrCat(cluster_.folder(), PrefixOf(index), "/"));
  }

  void Finish() {
    std::ofstream(record_folder_ + "/finish").close();
    const auto finished = cluster_.WaitForJob(kJob, Finished, kPatience);
    ASSERT_TRUE(finished.ok()) << finished.status() << "\n" << cluster_.Logs(kJob);
    EXPECT_EQ(finished->status().phase(), v1::JOB_PHASE_SUCCEEDED) << finished->status().ShortDebugString();
    EXPECT_EQ(finished->status().restarts(), 0);
    EXPECT_EQ(finished->status().failures(), 0);
    for (const std::string bad : {"ReplicaFailed", "ReplicaLost", "GroupStopped", "NodeLost", "Recovering"}) {
      EXPECT_THAT(cluster_.EventReasons(kJob), Not(Contains(bad)));
    }
    EXPECT_GE(cluster_.TestAccuracy(kJob), kAccuracy) << cluster_.Logs(kJob);
    ASSERT_NO_FATAL_FAILURE(ExpectNothingLost(finished->status().progress().optimizer_steps()));
  }

  void ExpectNothingLost(int64_t reported) {
    const auto record = ReadTrainingRecord(record_folder_);
    ASSERT_TRUE(record.ok()) << record.status();
    const absl::Status alike = AllAlike(*record);
    EXPECT_TRUE(alike.ok()) << alike;
    EXPECT_EQ(Rollbacks(*record), 0);
    const auto steps = StepsThatCount(*record);
    ASSERT_TRUE(steps.ok()) << steps.status();
    EXPECT_EQ(static_cast<int64_t>(steps->size()), reported);
    int64_t last = 0;
    for (const auto& [step, samples] : *steps) {
      for (const int64_t sample : samples) last = std::max(last, sample);
    }
    const absl::Status once = EachSampleOncePerPass(*steps, static_cast<size_t>(last) + 1, /*whole=*/true);
    EXPECT_TRUE(once.ok()) << once;
    std::cout << steps->size() << " steps, none lost; slowest to be left: " << absl::FormatDuration(slowest_)
              << std::endl;
  }

  // Below a node's path each, before its worker is started.
  worker::FakeMetadata metadata_;
  TestCluster cluster_{Options()};
  const std::string record_folder_ = cluster_.folder() + "/record";
  // Seconds from a notice to the node's end. AWS gives 120, the others 30.
  const int window_ = FromEnvironment("ADAPTDL_SPOT_WINDOW", 20);
  const int notices_ = FromEnvironment("ADAPTDL_SPOT_NOTICES", 3);
  int next_ = kNodes;
  absl::Duration slowest_ = absl::ZeroDuration();
};

TEST_F(SpotTest, TrainsOnWhileItsNodesAreTakenAwayOneAfterTheOther) {
  const absl::Status started = cluster_.Start();
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_NO_FATAL_FAILURE(Submit());
  int64_t steps = 20;
  for (int round = 0; round < notices_; ++round) {
    const v1::Job job = Training(steps);
    ASSERT_GE(job.status().allocation_size(), 2);
    ASSERT_NO_FATAL_FAILURE(TakeNode(job, round));
    steps = job.status().progress().optimizer_steps() + 20;
  }
  Training(steps);
  ASSERT_NO_FATAL_FAILURE(Finish());
}

}  // namespace
}  // namespace adaptdl::integration
