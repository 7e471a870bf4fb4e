#include "services/supervisor/kubernetes/pods/pod_orders.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "services/supervisor/kubernetes/pods/launch_error.h"

namespace adaptdl::supervisor {
namespace {

v1::LaunchReplica LaunchOf(const std::string& id) {
  v1::LaunchReplica launch;
  launch.set_replica_id(id);
  return launch;
}

v1::StopReplica StopOf(const std::string& id, const std::string& reason = "") {
  v1::StopReplica stop;
  stop.set_replica_id(id);
  stop.set_reason(reason);
  return stop;
}

TEST(PodOrdersTest, OrdersOfOnePodAreTakenAtOnce) {
  PodOrders orders;
  orders.Launch("n", LaunchOf("a"));
  orders.Stop("n", StopOf("a"));
  orders.Acknowledge("n", "a");
  orders.Launch("n", LaunchOf("b"));
  EXPECT_EQ(orders.size(), 2);
  const PodOrder order = orders.Take("a");
  EXPECT_TRUE(order.launch.has_value() && order.stop.has_value() && order.acknowledged);
  EXPECT_EQ(order.node_id, "n");
  EXPECT_TRUE(orders.Take("a").IsEmpty());
}

TEST(PodOrdersTest, WhatIsGivenBackYieldsToWhatIsNewer) {
  PodOrders orders;
  orders.Launch("n", LaunchOf("a"));
  orders.Stop("n", StopOf("a", "old"));
  PodOrder order = orders.Take("a");
  orders.Stop("n", StopOf("a", "new"));
  orders.GiveBack("a", std::move(order));
  order = orders.Take("a");
  EXPECT_TRUE(order.launch.has_value());
  EXPECT_EQ(order.stop->reason(), "new");
}

TEST(PodOrdersTest, NothingIsLeftOfWhatIsDone) {
  PodOrders orders;
  orders.Launch("n", LaunchOf("a"));
  PodOrder order = orders.Take("a");
  order.launch.reset();
  orders.GiveBack("a", std::move(order));
  EXPECT_EQ(orders.size(), 0);
}

TEST(LaunchErrorTest, WhoseFaultItIs) {
  EXPECT_EQ(CauseOfRefusal(absl::InvalidArgumentError("no such field")), v1::END_CAUSE_JOB);
  EXPECT_EQ(CauseOfRefusal(absl::PermissionDeniedError("denied by a webhook")), v1::END_CAUSE_JOB);
  EXPECT_EQ(CauseOfRefusal(
                absl::PermissionDeniedError("pods \"a\" is forbidden: exceeded quota: q, requested: pods=1")),
            v1::END_CAUSE_NODE);
  EXPECT_EQ(CauseOfRefusal(absl::NotFoundError("namespaces \"a\" not found")), v1::END_CAUSE_JOB);
  for (const absl::Status& status :
       {absl::UnavailableError(""), absl::InternalError(""), absl::AbortedError(""),
        absl::ResourceExhaustedError(""), absl::DeadlineExceededError(""), absl::UnauthenticatedError(""),
        absl::CancelledError("")}) {
    EXPECT_EQ(CauseOfRefusal(status), std::nullopt) << status;
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
