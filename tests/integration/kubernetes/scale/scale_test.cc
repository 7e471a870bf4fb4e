// A new leader takes over what its predecessor has left, and has nothing to write: not when it begins, and not while replicas
// beat and tell what was known of them; what they tell anew it writes once. How long it takes with a thousand jobs:
// bench/kubernetes_bench.cc.

#include "tests/integration/kubernetes/scale/scale_run.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::integration {
namespace {

using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr absl::Duration kPatience = absl::Minutes(2);

TEST(KubernetesScaleTest, WritesOnlyWhatIsNew) {
  ScaleRun run(
      {.jobs = 50, .heartbeat_period = absl::Milliseconds(500), .hints_period = absl::Milliseconds(500)});
  ASSERT_TRUE(run.Prepare().ok());
  const auto before = run.Versions();
  ASSERT_EQ(before.size(), 50 + 250);
  ASSERT_TRUE(run.StartSupervisor().ok());
  absl::Status status = run.AwaitTakenOver(kPatience);
  ASSERT_TRUE(status.ok()) << status;
  status = run.StartReplicas(kPatience);
  ASSERT_TRUE(status.ok()) << status;
  for (int i = 0; i < 3; ++i) {
    status = run.AwaitHints(kPatience);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_THAT(ScaleRun::Changes(run.Calls()), IsEmpty());
  EXPECT_EQ(run.Versions(), before);

  run.ChangeHints(5);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run.AwaitHints(kPatience).ok());
  EXPECT_THAT(ScaleRun::Changes(run.Calls()), UnorderedElementsAre(Pair("patch adaptdljobs/status", 5)));
}

}  // namespace
}  // namespace adaptdl::integration
