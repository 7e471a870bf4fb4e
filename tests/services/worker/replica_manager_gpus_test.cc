// What the node offers of its GPUs, while replicas hold some and some break.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/worker/replica_manager.h"
#include "tests/services/worker/fake_shims.h"
#include "tests/services/worker/lanes.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReplicaManagerGpusTest : public testing::Test {
 protected:
  void SetUp() override { Restart({"0", "1"}); }

  // As a worker that is started again, perhaps a newer one.
  void Restart(std::vector<std::string> devices, DeviceTable::Names other_names = {}) {
    manager_.reset();
    auto manager = ReplicaManager::Create(
        {.state_dir = folder_.path(),
         .node = {.node_id = "node-a", .replica_host = "10.0.0.1", .supervisor_address = "super:7100"},
         .devices = std::move(devices),
         .other_device_names = std::move(other_names)},
        *JobStorage::Create(folder_ / "storage", {.user = "self"}), &clock_, &shims_, &lanes_);
    ASSERT_TRUE(manager.ok()) << manager.status();
    manager_ = *std::move(manager);
    manager_->SetSink([this](const v1::ReplicaReport& report) {
      order_.push_back(v1::ReplicaState_Name(report.replica().state()).substr(14));
      message_ = report.replica().message();
    });
    manager_->SetOfferSink([this](const GpuOffer& offer) {
      order_.push_back(absl::StrCat("offer ", offer.count));
      problems_ = offer.problems;
    });
  }

  void Launch(const std::string& id, int gpus) {
    v1::LaunchReplica launch;
    launch.set_namespace_("default");
    launch.set_job("mnist");
    launch.set_job_uid("0123456789abcdef");
    launch.set_replica_id(id);
    launch.set_num_replicas(1);
    launch.mutable_template_()->add_command("true");
    launch.mutable_template_()->mutable_resources()->set_gpus(gpus);
    manager_->Launch(launch);
  }
  std::string Visible(const std::string& id) {
    const std::string text = ReadFile(folder_ / ("replicas/" + id + "/launch.json"));
    const size_t begin = text.find("\"CUDA_VISIBLE_DEVICES=");
    return begin == std::string::npos ? "" : text.substr(begin + 22, text.find('"', begin + 1) - begin - 22);
  }
  std::vector<std::string> TakeOrder() { return std::exchange(order_, {}); }

  TempFolder folder_;
  ManualClock clock_;
  ManualLanes lanes_;
  FakeShims shims_;
  std::vector<std::string> order_;
  std::string message_;
  std::vector<std::string> problems_;
  std::unique_ptr<ReplicaManager> manager_;
};

TEST_F(ReplicaManagerGpusTest, AFreeGpuThatBreaksIsOfferedNoMore) {
  manager_->SetUnfitGpus({"0"}, {"0: lost"});
  EXPECT_THAT(TakeOrder(), ElementsAre("offer 1"));
  EXPECT_THAT(problems_, ElementsAre("0: lost"));
  manager_->SetUnfitGpus({"0"}, {"0: lost"});
  EXPECT_THAT(TakeOrder(), IsEmpty()) << "that is no news";
  Launch("a", 1);
  EXPECT_EQ(Visible("a"), "1");
  Launch("b", 1);
  EXPECT_THAT(message_, HasSubstr("0 are free, and 1 do not work"));
  EXPECT_EQ(manager_->Stats().gpus_offered, 1);
  EXPECT_EQ(manager_->Stats().gpus_unfit, 1);
  TakeOrder();
  manager_->SetUnfitGpus({}, {});
  EXPECT_THAT(TakeOrder(), ElementsAre("offer 2"));
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(ReplicaManagerGpusTest, AGpuThatAReplicaHoldsIsItsOwnUntilItEnds) {
  Launch("a", 1);
  shims_.SayRunning("a");
  TakeOrder();
  manager_->SetUnfitGpus({"0"}, {"0: lost"});
  EXPECT_THAT(TakeOrder(), ElementsAre("offer 2"));
  EXPECT_THAT(problems_, ElementsAre("0: lost"));
  EXPECT_THAT(shims_.stops, IsEmpty());
  shims_.SayExited("a", {.exit_code = 0, .start_time = clock_.Now(), .end_time = clock_.Now()});
  // Whoever hears of the end knows already that nobody can come in its place.
  EXPECT_THAT(TakeOrder(), ElementsAre("offer 1", "EXITED"));
  EXPECT_THAT(problems_, ElementsAre("0: lost"));
}

TEST_F(ReplicaManagerGpusTest, ReplicasOfAnOlderWorkerKeepTheirGpusUnderNewNames) {
  Launch("a", 1);
  ASSERT_EQ(Visible("a"), "0");
  Restart({"GPU-a", "GPU-b"}, {{"0", {"GPU-a"}}, {"1", {"GPU-b"}}});
  Launch("b", 1);
  EXPECT_EQ(Visible("b"), "GPU-b");
  Restart({"GPU-a", "GPU-b"}, {{"0", {"GPU-a"}}, {"1", {"GPU-b"}}});
  Launch("c", 1);
  EXPECT_THAT(message_, HasSubstr("only 0 are free"));
  shims_.SayExited("a", {.exit_code = 0, .start_time = clock_.Now(), .end_time = clock_.Now()});
  Launch("d", 1);
  EXPECT_EQ(Visible("d"), "GPU-a");
}

}  // namespace
}  // namespace adaptdl::worker
