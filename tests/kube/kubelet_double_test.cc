// What happens to nodes in the double of kubelets, and with them to their pods. How pods are run is the conformance suite's, and so is the
// same on clusters.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/reflector.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"

namespace adaptdl::kube {
namespace {

using ::testing::HasSubstr;

const ResourceType kPods = {"", "v1", "pods", "Pod"};
const ResourceType kNodes = {"", "v1", "nodes", "Node", false};
const ResourceType kClaims = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
const ChangeOptions kBy = {.field_manager = "test"};

// Follows a collection, and waits for what is to be seen.
class Followed {
 public:
  Followed(const Client& client, const ResourceType& type)
      : cache_({.parse = [](const Json& json) { return json; }}) {
    cache_.AddHandler([this](const Cache<Json>::Change& change) {
      MutexLock lock(&mutex_);
      if (change.after == nullptr) objects_.erase(change.key.name);
      if (change.after != nullptr) objects_[change.key.name] = *change.after;
      changed_.SignalAll();
    });
    reflector_ = std::make_unique<Reflector>(&client, Collection(type), ReflectorOptions{}, &cache_);
  }
  ~Followed() { reflector_.reset(); }

  Json Await(const std::string& name, const std::function<bool(const Json&)>& is_so) {
    MutexLock lock(&mutex_);
    while (!objects_.contains(name) || !is_so(objects_[name])) changed_.Wait(&mutex_);
    return objects_[name];
  }
  void AwaitGone(const std::string& name) {
    MutexLock lock(&mutex_);
    while (objects_.contains(name)) changed_.Wait(&mutex_);
  }
  void AwaitCount(size_t count, const std::function<bool(const Json&)>& is_so) {
    MutexLock lock(&mutex_);
    while (Count(is_so) != count) changed_.Wait(&mutex_);
  }

 private:
  size_t Count(const std::function<bool(const Json&)>& is_so) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t count = 0;
    for (const auto& [name, object] : objects_) count += is_so(object) ? 1 : 0;
    return count;
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Json> objects_ ABSL_GUARDED_BY(mutex_);
  Cache<Json> cache_;
  std::unique_ptr<Reflector> reflector_;
};

std::function<bool(const Json&)> HasPhase(const std::string& phase) {
  return [phase](const Json& pod) { return TextAt(pod, {"status", "phase"}) == phase; };
}

bool IsDeleted(const Json& object) { return !TextAt(object, {"metadata", "deletionTimestamp"}).empty(); }

// "Status/reason" of a condition; "" without it.
std::string ConditionOf(const Json& object, const std::string& type) {
  for (const Json& condition : At(object, {"status", "conditions"})) {
    if (TextAt(condition, {"type"}) == type) {
      return absl::StrCat(TextAt(condition, {"status"}), "/", TextAt(condition, {"reason"}));
    }
  }
  return "";
}

Json TerminatedOf(const Json& pod) {
  return pod.at("status").at("containerStatuses").at(0).at("state").at("terminated");
}

class KubeletDoubleTest : public ::testing::Test {
 protected:
  explicit KubeletDoubleTest(const KubeletOptions& options = OneNode()) : kubelet_(server_.url(), options) {}

  void SetUp() override {
    if (!kubelet_.runs()) GTEST_SKIP() << "no containers may run here: be root with CAP_SYS_ADMIN";
  }

  static KubeletOptions OneNode() { return {.nodes = R"([{"name": "a"}])", .images = R"({"host": {}})"}; }
  std::unique_ptr<Session> MakeSession() {
    Access access = {.server = server_.url(), .credentials = std::make_unique<NoCredentials>()};
    return Session::Create(std::move(access), {.burst = 100'000}).value();
  }
  static Json PodThat(const std::string& name, const std::string& script) {
    const Json container = {{"name", "c"}, {"image", "host"}, {"command", {"sh", "-c", script}}};
    return {{"metadata", {{"name", name}}},
            {"spec",
             {{"restartPolicy", "Never"},
              {"terminationGracePeriodSeconds", 1},
              {"containers", Json::array({container})}}}};
  }
  void Make(const Json& pod) {
    const auto made = client_.Create(Collection(kPods, "default"), pod, kBy);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void Start(const std::string& name, const std::string& script = "sleep 1000") {
    Make(PodThat(name, script));
    pods_.Await(name, HasPhase("Running"));
  }

  ApiServerDouble server_;
  KubeletDouble kubelet_;
  const std::unique_ptr<Session> session_ = MakeSession();
  const Client client_{session_.get()};
  Followed pods_{client_, kPods};
  Followed nodes_{client_, kNodes};
};

// Where a node that says nothing, or is not there, is given up soon.
class ImpatientTest : public KubeletDoubleTest {
 protected:
  ImpatientTest() : KubeletDoubleTest(Impatient()) {}
  static KubeletOptions Impatient() {
    KubeletOptions options = OneNode();
    options.node_grace_seconds = 2;
    options.eviction_seconds = 0.2;
    return options;
  }
};

TEST_F(ImpatientTest, ASilentNodeLosesItsPodsWhenItIsHeardOfAgain) {
  Start("p");
  kubelet_.Silence("a");
  const Json node = nodes_.Await(
      "a", [](const Json& node) { return ConditionOf(node, "Ready") == "Unknown/NodeStatusUnknown"; });
  const Json pod = pods_.Await("p", IsDeleted);
  EXPECT_EQ(ConditionOf(pod, "DisruptionTarget"), "True/DeletionByTaintManager");
  EXPECT_EQ(ConditionOf(pod, "Ready"), "False/NodeNotReady");
  EXPECT_EQ(TextAt(pod, {"status", "phase"}), "Running");
  kubelet_.Wake("a");
  pods_.AwaitGone("p");
  nodes_.Await("a", [](const Json& node) {
    return ConditionOf(node, "Ready") == "True/KubeletReady" && node.at("spec").at("taints").empty();
  });
}

TEST_F(ImpatientTest, APodMayStayOnASilentNode) {
  Json pod = PodThat("p", "sleep 1000");
  pod["spec"]["tolerations"] = Json::array(
      {{{"key", "node.kubernetes.io/unreachable"}, {"operator", "Exists"}, {"effect", "NoExecute"}}});
  Make(pod);
  pods_.Await("p", HasPhase("Running"));
  Start("q");
  kubelet_.Silence("a");
  pods_.Await("q", IsDeleted);
  kubelet_.Wake("a");
  pods_.AwaitGone("q");
  EXPECT_FALSE(IsDeleted(client_.Get(ObjectOf(kPods, {"default", "p"})).value()));
}

TEST_F(KubeletDoubleTest, ACrashIsSeenWhenTheMachineIsBack) {
  Start("p");
  kubelet_.Crash("a");
  kubelet_.Wake("a");
  const Json ended = TerminatedOf(pods_.Await("p", HasPhase("Failed")));
  EXPECT_EQ(IntegerAt(ended, {"exitCode"}), 137);
  EXPECT_EQ(TextAt(ended, {"reason"}), "ContainerStatusUnknown");
}

TEST_F(ImpatientTest, WithANodeItsPodsGoAndAnotherNodeHasRoom) {
  Start("p");
  kubelet_.RemoveNode("a");
  nodes_.AwaitGone("a");
  pods_.AwaitGone("p");
  Make(PodThat("q", "sleep 1000"));
  pods_.Await("q", [](const Json& pod) { return ConditionOf(pod, "PodScheduled") == "False/Unschedulable"; });
  kubelet_.AddNode(R"({"name": "b", "allocatable": {"cpu": "1"}})");
  EXPECT_EQ(TextAt(pods_.Await("q", HasPhase("Running")), {"spec", "nodeName"}), "b");
}

TEST_F(KubeletDoubleTest, ANodeThatIsCordonedTakesNoMorePods) {
  kubelet_.Cordon("a");
  nodes_.Await("a", [](const Json& node) { return BoolAt(node, {"spec", "unschedulable"}); });
  // The scheduler hears of pods and of nodes by watches of its own: a pod may come to it before the cordon does.
  const auto is_refused = [](const Json& pod) {
    return ConditionOf(pod, "PodScheduled") == "False/Unschedulable";
  };
  std::string refused;
  for (int i = 0; refused.empty() && i < 100; ++i) {
    const std::string name = absl::StrCat("p-", i);
    Make(PodThat(name, "sleep 1000"));
    const Json pod =
        pods_.Await(name, [&](const Json& one) { return is_refused(one) || HasPhase("Running")(one); });
    if (is_refused(pod)) refused = name;
  }
  ASSERT_NE(refused, "") << "the scheduler never heard of the cordon";
  kubelet_.Uncordon("a");
  pods_.Await(refused, HasPhase("Running"));
}

TEST_F(KubeletDoubleTest, TheKernelKillsForMemory) {
  Start("p");
  kubelet_.KillForMemory("default", "p");
  EXPECT_EQ(TextAt(TerminatedOf(pods_.Await("p", HasPhase("Failed"))), {"reason"}), "OOMKilled");
}

TEST_F(KubeletDoubleTest, AnEvictedPodGoes) {
  Start("p");
  kubelet_.Evict("default", "p");
  pods_.AwaitGone("p");
}

TEST_F(KubeletDoubleTest, WhatItCanNotDoItRefuses) {
  Json pod = PodThat("p", "true");
  pod["spec"]["restartPolicy"] = "Always";
  Make(pod);
  const Json refused = pods_.Await("p", HasPhase("Failed"));
  EXPECT_EQ(TextAt(refused, {"status", "reason"}), "NotInThisDouble");
  EXPECT_THAT(TextAt(refused, {"status", "message"}), HasSubstr("restartPolicy"));
}

TEST_F(KubeletDoubleTest, OnlySharedClaimsAreForManyNodes) {
  Followed claims(client_, kClaims);
  const auto make = [&](const std::string& name, const std::string& storage_class) {
    const Json claim = {{"metadata", {{"name", name}}},
                        {"spec", {{"accessModes", {"ReadWriteMany"}}, {"storageClassName", storage_class}}}};
    EXPECT_TRUE(client_.Create(Collection(kClaims, "default"), claim, kBy).ok());
  };
  make("alone", "standard");
  make("with-others", "shared");
  claims.Await("with-others", HasPhase("Bound"));
  EXPECT_NE(TextAt(client_.Get(ObjectOf(kClaims, {"default", "alone"})).value(), {"status", "phase"}),
            "Bound");
}

// Whether a process runs that has this among its arguments.
bool Runs(absl::string_view argument) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (absl::StrContains(line, argument)) return true;
  }
  return false;
}

TEST_F(KubeletDoubleTest, NothingOutlivesItAndItsSuccessorSaysSo) {
  const std::string seconds = absl::StrCat("100000.", getpid());
  Start("p", "exec sleep " + seconds);
  kubelet_.Kill();
  while (Runs(seconds)) std::this_thread::yield();
  KubeletDouble successor(server_.url(), OneNode());
  EXPECT_EQ(TextAt(TerminatedOf(pods_.Await("p", HasPhase("Failed"))), {"reason"}), "ContainerStatusUnknown");
}

class HollowTest : public KubeletDoubleTest {
 protected:
  HollowTest() : KubeletDoubleTest(Hollow()) {}
  static KubeletOptions Hollow() {
    return {.nodes = R"([{"name": "a", "allocatable": {"pods": "1000", "cpu": "1"}}])", .hollow = true};
  }
};

TEST_F(HollowTest, ManyPodsAreRunning) {
  for (int i = 0; i < 200; ++i) Make(PodThat(absl::StrCat("p", i), "false"));
  pods_.AwaitCount(200, HasPhase("Running"));
  EXPECT_TRUE(client_.Delete(ObjectOf(kPods, {"default", "p7"}), {}).ok());
  pods_.AwaitGone("p7");
}

}  // namespace
}  // namespace adaptdl::kube
