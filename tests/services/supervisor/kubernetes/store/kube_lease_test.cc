#include "services/supervisor/kubernetes/store/kube_lease.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/services/supervisor/kubernetes/store/store_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;

class KubeLeaseTest : public KubeStoreTest {
 protected:
  KubeLeaseTest() : election_(&client_, {.lease = {"default", "supervisor"}, .identity = "a"}) {
    EXPECT_TRUE(election_.TryAcquire().value_or(false));
  }

  kube::LeaderElection election_;
  std::vector<std::string> given_up_;
  KubeLease lease_of_a_{&election_, [this](const std::string& why) { given_up_.push_back(why); }};
};

TEST_F(KubeLeaseTest, IsTheElections) {
  EXPECT_TRUE(lease_of_a_.Valid());
  EXPECT_TRUE(lease_of_a_.AwaitValid(absl::ZeroDuration()).ok());
  EXPECT_GT(lease_of_a_.term(), 0);
  EXPECT_EQ(lease_of_a_.term(), election_.term());
  lease_of_a_.GiveUp("so");
  EXPECT_THAT(given_up_, ElementsAre("so"));
}

TEST_F(KubeLeaseTest, ItsTermIsLargerThanAnyThatStandsInAStatus) {
  const int64_t term = lease_of_a_.term();
  EXPECT_TRUE(lease_of_a_.RaiseAbove(term - 1).ok());
  EXPECT_EQ(lease_of_a_.term(), term);
  AddJob("a");
  Patch(TargetOf("a").Sub("status"), {{"status", {{"term", term + 1000}}}});
  Load();
  EXPECT_TRUE(lease_of_a_.RaiseAbove(store_->LargestTerm()).ok());
  EXPECT_EQ(lease_of_a_.term(), term + 1001);
}

}  // namespace
}  // namespace adaptdl::supervisor
