#include "libs/elastic/control/grpc/supervisor_link.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

GrpcControlPlaneOptions Options(const std::string& addresses) {
  GrpcControlPlaneOptions options;
  options.supervisor_address = addresses;
  options.job_namespace = "default";
  options.job = "job";
  options.replica_id = "replica";
  options.token = "secret";
  return options;
}

TEST(SupervisorLinkTest, AFormerLeaderDoesNotCount) {
  SupervisorLink link(Options("127.0.0.1:1"));
  EXPECT_TRUE(link.IsCurrent(3));
  EXPECT_TRUE(link.IsCurrent(3));
  EXPECT_FALSE(link.IsCurrent(2));
  EXPECT_TRUE(link.IsCurrent(0)) << "a version without terms";
  EXPECT_TRUE(link.IsCurrent(4));
  EXPECT_FALSE(link.IsCurrent(3));
}

TEST(SupervisorLinkTest, SaysWhoCalls) {
  SupervisorLink link(Options("127.0.0.1:1"));
  grpc::ClientContext context;
  v1::ReplicaIdentity identity;
  link.Identify({.group = 7}, &context, &identity);
  EXPECT_EQ(identity.namespace_(), "default");
  EXPECT_EQ(identity.job(), "job");
  EXPECT_EQ(identity.replica_id(), "replica");
  EXPECT_EQ(identity.group(), 7);
}

TEST(SupervisorLinkTest, AnotherSupervisorIsThereSoon) {
  EXPECT_FALSE(SupervisorLink(Options("127.0.0.1:1")).several());
  SupervisorLink two(Options("127.0.0.1:1,127.0.0.1:2"));
  EXPECT_TRUE(two.several());
  EXPECT_LT(two.longest_pause(), SupervisorLink(Options("127.0.0.1:1")).longest_pause());
}

TEST(SupervisorLinkTest, OnlyARefusalIsFinal) {
  EXPECT_TRUE(SupervisorLink::IsFinal(absl::AbortedError("")));
  EXPECT_TRUE(SupervisorLink::IsFinal(absl::NotFoundError("")));
  EXPECT_TRUE(SupervisorLink::IsFinal(absl::UnauthenticatedError("")));
  EXPECT_FALSE(SupervisorLink::IsFinal(absl::UnavailableError("")));
  EXPECT_FALSE(SupervisorLink::IsFinal(absl::DeadlineExceededError("")));
  EXPECT_FALSE(SupervisorLink::IsFinal(absl::OkStatus()));
}

TEST(JitteredBackoffTest, DoublesUpToTheLongestAndStartsAgain) {
  JitteredBackoff backoff(absl::Seconds(1));
  for (const int milliseconds : {200, 400, 800, 1000, 1000}) {
    const absl::Duration pause = backoff.Next();
    EXPECT_GE(pause, absl::Milliseconds(milliseconds) / 2);
    EXPECT_LE(pause, absl::Milliseconds(milliseconds));
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(200));
}

}  // namespace
}  // namespace adaptdl::elastic
