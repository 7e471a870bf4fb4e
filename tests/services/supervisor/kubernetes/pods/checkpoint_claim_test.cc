#include "services/supervisor/kubernetes/pods/checkpoint_claim.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "libs/base/manual_clock.h"
#include "tests/services/supervisor/kubernetes/pods/pods_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const kube::ResourceType kClaims = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
const kube::ResourceType kClasses = {"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};

class CheckpointClaimTest : public PodsTest {
 protected:
  CheckpointClaimOptions Options(const std::string& storage_class = "shared") {
    return {.storage_class = storage_class,
            .size = "5Gi",
            .tell = [this](const std::string& uid, const std::string& why) {
              EXPECT_EQ(uid, kube::UidOf(job_));
              told_.push_back(why);
            }};
  }
  kube::Target ClaimOfJob() const {
    return kube::ObjectOf(kClaims, {"default", ClaimNameOf(kube::UidOf(job_))});
  }
  void MakeClass(const std::string& mode) {
    const Json made = {
        {"metadata", {{"name", "shared"}}}, {"provisioner", "example.com/x"}, {"volumeBindingMode", mode}};
    ASSERT_TRUE(client_.Create(kube::Collection(kClasses), made, {}).ok());
  }
  // What the cluster's controller of volumes says.
  void SetPhase(const std::string& phase) {
    ASSERT_TRUE(client_.MergePatch(ClaimOfJob().Sub("status"), {{"status", {{"phase", phase}}}}, {}).ok());
  }

  ManualClock manual_;
  std::vector<std::string> told_;
};

TEST_F(CheckpointClaimTest, AJobHasOneClaimWhichItOwns) {
  CheckpointClaims claims(&client_, &manual_, Options());
  EXPECT_EQ(*claims.Ensure(LaunchOf("a"), {}), ClaimNameOf(kube::UidOf(job_)));
  EXPECT_EQ(*claims.Ensure(LaunchOf("b", 1), {}), ClaimNameOf(kube::UidOf(job_)));
  EXPECT_EQ(Control("GET", "calls")["create persistentvolumeclaims"], 1);
  const Json claim = *client_.Get(ClaimOfJob());
  EXPECT_EQ(kube::At(claim, {"spec", "accessModes"}), Json::array({"ReadWriteMany"}));
  EXPECT_EQ(kube::TextAt(claim, {"spec", "storageClassName"}), "shared");
  EXPECT_EQ(kube::TextAt(claim, {"spec", "resources", "requests", "storage"}), "5Gi");
  EXPECT_EQ(kube::ControllerOf(claim).uid, kube::UidOf(job_));
  // Another leader finds it.
  CheckpointClaims next(&client_, &manual_, Options());
  EXPECT_EQ(*next.Ensure(LaunchOf("a"), {}), ClaimNameOf(kube::UidOf(job_)));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(CheckpointClaimTest, AJobWithAPlaceOfItsOwnGetsNone) {
  CheckpointClaims claims(&client_, &manual_, Options());
  v1::LaunchReplica launch = LaunchOf("a");
  launch.mutable_template_()->add_env()->set_name("ADAPTDL_CHECKPOINT_PATH");
  EXPECT_EQ(*claims.Ensure(launch, {}), "");
  EXPECT_EQ(client_.Get(ClaimOfJob()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointClaimTest, WithoutAStorageClassThatIsTold) {
  CheckpointClaims claims(&client_, &manual_, Options(""));
  EXPECT_EQ(*claims.Ensure(LaunchOf("a"), {}), "");
  EXPECT_EQ(*claims.Ensure(LaunchOf("b", 1), {}), "");
  EXPECT_THAT(told_, ElementsAre(HasSubstr("no storage class")));
  EXPECT_TRUE(claims.Check({}).ok());
}

TEST_F(CheckpointClaimTest, AClaimThatCanNotBeMadeIsAnError) {
  CheckpointClaims claims(&client_, &manual_, Options());
  v1::LaunchReplica launch = LaunchOf("a");
  launch.set_namespace_("nowhere");
  EXPECT_EQ(claims.Ensure(launch, {}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointClaimTest, AClaimThatWaitsTooLongIsToldUntilItIsBound) {
  MakeClass("Immediate");
  CheckpointClaims claims(&client_, &manual_, Options());
  ASSERT_TRUE(claims.Ensure(LaunchOf("a"), {}).ok());
  SetPhase("Pending");
  ASSERT_TRUE(claims.Check({}).ok());
  manual_.Advance(absl::Seconds(119));
  ASSERT_TRUE(claims.Check({}).ok());
  EXPECT_THAT(told_, IsEmpty());
  manual_.Advance(absl::Seconds(1));
  ASSERT_TRUE(claims.Check({}).ok());
  ASSERT_TRUE(claims.Check({}).ok());
  EXPECT_THAT(told_, ElementsAre(HasSubstr("waits for a volume")));
  SetPhase("Bound");
  ASSERT_TRUE(claims.Check({}).ok());
  EXPECT_THAT(told_, SizeIs(2));
  EXPECT_EQ(told_.back(), "");
}

TEST_F(CheckpointClaimTest, AClaimThatWaitsForItsPodIsNoProblem) {
  MakeClass("WaitForFirstConsumer");
  CheckpointClaims claims(&client_, &manual_, Options());
  ASSERT_TRUE(claims.Ensure(LaunchOf("a"), {}).ok());
  SetPhase("Pending");
  ASSERT_TRUE(claims.Check({}).ok());
  manual_.Advance(absl::Hours(1));
  ASSERT_TRUE(claims.Check({}).ok());
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(CheckpointClaimTest, AClaimThatWasDeletedIsMadeAgain) {
  MakeClass("Immediate");
  CheckpointClaims claims(&client_, &manual_, Options());
  ASSERT_TRUE(claims.Ensure(LaunchOf("a"), {}).ok());
  ASSERT_TRUE(client_.Delete(ClaimOfJob(), {}).ok());
  ASSERT_TRUE(claims.Check({}).ok());
  ASSERT_TRUE(claims.Ensure(LaunchOf("b"), {}).ok());
  EXPECT_TRUE(client_.Get(ClaimOfJob()).ok());
}

}  // namespace
}  // namespace adaptdl::supervisor
