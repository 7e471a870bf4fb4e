// Placeholders beside the double of an API server; the test is the scheduler, and the cloud.

#include "services/autoscaler/providers/kubernetes/placeholder_provider.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/kube/json/object.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"

namespace adaptdl::autoscaler {
namespace {

using kube::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kSpace[] = "default";
const kube::ChangeOptions kBy = {.field_manager = "test"};

class PlaceholderProviderTest : public ::testing::Test {
 protected:
  PlaceholderProviderTest() {
    const kube::ResourceType classes = {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false};
    Must(client_.Create(kube::Collection(classes),
                        {{"metadata", {{"name", "adaptdl-placeholder"}}}, {"value", -10}}, kBy));
    options_.placeholders = {.pool = "gpu",
                             .name_space = kSpace,
                             .node_selector = {{"pool", "gpu"}},
                             .node_resources = {{"cpu", "4"}}};
    Restart();
  }

  static Json Must(const absl::StatusOr<Json>& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(Json());
  }

  void Restart() {
    provider_ = PlaceholderProvider::Create(options_, &client_, &clock_).value();
    ASSERT_TRUE(provider_->AwaitSynced({}));
  }

  static kube::Target PodTarget(const std::string& name) {
    return kube::ObjectOf(kube::Pods(), {kSpace, name});
  }
  static kube::Target NodeTarget(const std::string& name) {
    return kube::ObjectOf(kube::Nodes(), {"", name});
  }

  void AddNode(const std::string& name) {
    const Json labels = {{"pool", "gpu"}, {"kubernetes.io/hostname", "host-" + name}};
    Must(client_.Create(kube::Collection(kube::Nodes()), {{"metadata", {{"name", name}, {"labels", labels}}}},
                        kBy));
    AwaitListed(name, true);
  }
  void RemoveNode(const std::string& name) {
    EXPECT_TRUE(client_.Delete(NodeTarget(name), {}).ok());
    AwaitListed(name, false);
  }
  void Bind(const std::string& pod, const std::string& node) {
    const Json binding = {{"apiVersion", "v1"},
                          {"kind", "Binding"},
                          {"metadata", {{"name", pod}}},
                          {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
    const auto bound = session_->Call(
        {.method = "POST", .target = PodTarget(pod).Sub("binding"), .body = kube::Dump(binding)});
    ASSERT_TRUE(bound.ok()) << bound.status();
  }

  // "id state", ...
  std::vector<std::string> Nodes() {
    const auto listed = provider_->ListNodes();
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::vector<std::string> nodes;
    const char* const states[] = {"requested", "alive", "arrived", "released", "stopping", "dead"};
    for (const ProvidedNode& node : *listed)
      nodes.push_back(absl::StrCat(node.node_id, " ", states[static_cast<int>(node.state)]));
    return nodes;
  }
  std::vector<Json> Pods() { return client_.ListAll(kube::Collection(kube::Pods(), kSpace)).value(); }
  std::string Create() {
    const auto created = provider_->CreateNodes(1, {});
    EXPECT_TRUE(created.status.ok()) << created.status;
    return created.node_ids.empty() ? "" : created.node_ids[0];
  }
  void Keep(const std::vector<KeptNode>& nodes) {
    const absl::Status status = provider_->KeepNodes(nodes);
    EXPECT_TRUE(status.ok()) << status;
  }

  kube::ApiServerDouble api_;
  std::unique_ptr<kube::Session> session_ =
      kube::Session::Create({.server = api_.url(), .credentials = std::make_unique<kube::NoCredentials>()})
          .value();
  kube::Client client_{session_.get()};
  ManualClock clock_;
  PlaceholderProviderOptions options_;
  std::unique_ptr<PlaceholderProvider> provider_;

 private:
  // The provider's copy follows the server.
  void AwaitListed(const std::string& name, bool listed) {
    while (true) {
      const auto nodes = provider_->ListNodes().value();
      const bool is_there = std::any_of(nodes.begin(), nodes.end(),
                                        [&](const ProvidedNode& node) { return node.node_id == name; });
      if (is_there == listed) return;
    }
  }
};

TEST_F(PlaceholderProviderTest, ANodeIsRequestedArrivesAndIsHeld) {
  EXPECT_THAT(Nodes(), IsEmpty());
  const std::string id = Create();
  EXPECT_THAT(Nodes(), ElementsAre(id + " requested"));
  AddNode("n");
  EXPECT_THAT(Nodes(), ElementsAre(id + " requested", "n arrived"));
  Bind(id, "n");
  EXPECT_THAT(Nodes(), ElementsAre("n alive"));
  EXPECT_EQ(kube::IntegerAt(Pods().at(0), {"spec", "priority"}), -10);
}

TEST_F(PlaceholderProviderTest, OneThatIsTerminatedIsLetGoUntilItIsHeldAgain) {
  Bind(Create(), "n");
  AddNode("n");
  EXPECT_THAT(Nodes(), ElementsAre("n alive"));
  ASSERT_TRUE(provider_->TerminateNode("n").ok());
  EXPECT_THAT(Nodes(), ElementsAre("n released"));
  EXPECT_THAT(Pods(), IsEmpty());
  EXPECT_TRUE(provider_->TerminateNode("n").ok());
  Bind(Create(), "n");
  EXPECT_THAT(Nodes(), ElementsAre("n alive"))
      << "asked for another, the scheduler took the one that was there";
  EXPECT_TRUE(provider_->TerminateNode("unknown").ok());
}

// It would be of no use there, and be taken away at once.
TEST_F(PlaceholderProviderTest, NoNewOneTakesANodeThatMustNotBe) {
  AddNode("drained");
  AddNode("n");
  ASSERT_TRUE(provider_->CreateNodes(1, {"drained", "elsewhere"}).status.ok());
  const Json pod = Pods().at(0);
  const Json& terms =
      kube::At(pod, {"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"});
  EXPECT_EQ(terms, (Json{{"nodeSelectorTerms",
                          {{{"matchExpressions",
                             {{{"key", "kubernetes.io/hostname"},
                               {"operator", "NotIn"},
                               {"values", {"host-drained"}}}}}}}}}));
}

TEST_F(PlaceholderProviderTest, ARequestIsWithdrawn) {
  ASSERT_TRUE(provider_->TerminateNode(Create()).ok());
  EXPECT_THAT(Nodes(), IsEmpty());
  EXPECT_THAT(Pods(), IsEmpty());
}

TEST_F(PlaceholderProviderTest, HoldsWhatIsEmptyForAWhileAndOnce) {
  AddNode("n");
  Keep({{"n", true}});
  EXPECT_THAT(Pods(), IsEmpty()) << "a job may only have begun to start again";
  clock_.Advance(options_.hold_after);
  Keep({{"n", false}});
  EXPECT_THAT(Pods(), IsEmpty()) << "so it did";
  Keep({{"n", true}});
  clock_.Advance(options_.hold_after);
  Keep({{"n", true}});
  ASSERT_THAT(Pods(), SizeIs(1));
  EXPECT_EQ(ReadPlaceholder(Pods()[0]).host_name, "host-n");
  EXPECT_THAT(Nodes(), ElementsAre("n alive"));
  Keep({{"n", true}});
  EXPECT_THAT(Pods(), SizeIs(1));
}

TEST_F(PlaceholderProviderTest, WhatWaitsAnywayHoldsWhatHasArrived) {
  Create();
  AddNode("n");
  Keep({{"n", true}});
  clock_.Advance(options_.hold_after);
  Keep({{"n", true}});
  EXPECT_THAT(Pods(), SizeIs(1));
}

TEST_F(PlaceholderProviderTest, NothingIsHeldOnANodeThatIsBusyOrLeaving) {
  AddNode("n");
  const Json taint = {{"key", "ToBeDeletedByClusterAutoscaler"}, {"effect", "NoSchedule"}};
  Must(client_.MergePatch(NodeTarget("n"), {{"spec", {{"taints", {taint}}}}}, kBy));
  while (Nodes() != std::vector<std::string>{"n stopping"}) {
  }
  Keep({{"n", true}});
  clock_.Advance(options_.hold_after);
  Keep({{"n", true}});
  EXPECT_THAT(Pods(), IsEmpty());
}

TEST_F(PlaceholderProviderTest, PlaceholdersThatHoldNothingAnyMoreGo) {
  AddNode("n");
  Keep({{"n", true}});
  clock_.Advance(options_.hold_after);
  Keep({{"n", true}});
  const std::string ended = Create();
  Must(client_.MergePatch(PodTarget(ended).Sub("status"), {{"status", {{"phase", "Failed"}}}}, kBy));
  RemoveNode("n");
  EXPECT_THAT(Nodes(), IsEmpty());
  Keep({});
  EXPECT_THAT(Pods(), IsEmpty()) << "one for a node that is gone, and one that has ended";
}

TEST_F(PlaceholderProviderTest, AnotherProviderGoesOnWithWhatItFinds) {
  AddNode("n");
  Bind(Create(), "n");
  const std::string waits = Create();
  Restart();
  EXPECT_THAT(Nodes(), ElementsAre(waits + " requested", "n alive"));
}

TEST_F(PlaceholderProviderTest, SaysWhyANodeDoesNotCome) {
  const std::string id = Create();
  const Json no_room = {
      {"type", "PodScheduled"}, {"status", "False"}, {"message", "0/3 nodes are available"}};
  Must(client_.MergePatch(PodTarget(id).Sub("status"), {{"status", {{"conditions", {no_room}}}}}, kBy));
  const absl::Time created = ReadPlaceholder(Pods().at(0)).created;
  clock_.Advance(created - clock_.Now() + absl::Minutes(9));
  EXPECT_EQ(provider_->ListNodes()->at(0).hindrance, "");
  clock_.Advance(absl::Minutes(3));
  EXPECT_EQ(provider_->ListNodes()->at(0).hindrance, "waits for a node for 12m: 0/3 nodes are available");
}

TEST_F(PlaceholderProviderTest, OtherPoolsAreNoneOfItsBusiness) {
  Create();
  options_.placeholders.pool = "other";
  options_.placeholders.node_selector = {{"pool", "other"}};
  AddNode("n");
  Restart();
  EXPECT_THAT(Nodes(), IsEmpty());
}

TEST_F(PlaceholderProviderTest, WithoutTheApiServerThereIsAnError) {
  api_.Stop();
  kube::Access access = {.server = api_.url(), .credentials = std::make_unique<kube::NoCredentials>()};
  const auto session = kube::Session::Create(std::move(access), {.patience = absl::ZeroDuration()}).value();
  const kube::Client client(session.get());
  const auto provider = PlaceholderProvider::Create(options_, &client, &clock_).value();
  EXPECT_TRUE(absl::IsUnavailable(provider->ListNodes().status()));
  EXPECT_FALSE(provider->CreateNodes(1, {}).status.ok());
}

}  // namespace
}  // namespace adaptdl::autoscaler
