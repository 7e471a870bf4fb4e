// A double of what makes and removes the nodes of a cluster, as cluster-autoscaler and Karpenter do: a node for each pod
// of the pool that finds no room, and none for longer that nothing runs on. It says that it takes a node away before it
// does, and looks once more.
//
// Owns a thread, which ends with it. made() is thread-safe. The kubelets outlive it.

#ifndef ADAPTDL_TESTS_INTEGRATION_KUBERNETES_CLOUD_H_
#define ADAPTDL_TESTS_INTEGRATION_KUBERNETES_CLOUD_H_

#include <atomic>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {

struct CloudOptions {
  // The label of its nodes.
  std::string label = "pool";
  std::string value = "train";
  // Of each.
  kube::Json allocatable = {{"cpu", "1"}, {"memory", "4Gi"}, {"pods", "10"}};
  // How long nothing runs on a node until it goes.
  absl::Duration unneeded = absl::Seconds(15);
};

class Cloud {
 public:
  Cloud(const CloudOptions& options, kube::KubeletDouble* kubelet, const kube::Client* client)
      : options_(options), kubelet_(*kubelet), client_(*client), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            Look();
            absl::SleepFor(absl::Milliseconds(100));  // its own period, as it has one in a cluster
          }
        }) {}

  // Nodes that it has ever made, and those that are there.
  int made() const { return made_; }
  int there() const { return there_; }

 private:
  void Look() {
    const auto pods = client_.ListAll(kube::Collection(kube::Pods()));
    if (!pods.ok()) return;
    std::set<std::string> used;
    for (const kube::Json& pod : *pods) {
      const std::string phase = kube::TextAt(pod, {"status", "phase"});
      if (phase != "Succeeded" && phase != "Failed") used.insert(kube::TextAt(pod, {"spec", "nodeName"}));
      if (WaitsForNode(pod) && served_.insert(kube::UidOf(pod)).second) AddNode();
    }
    const absl::Time now = absl::Now();
    for (auto node = empty_since_.begin(); node != empty_since_.end();) {
      if (used.contains(node->first)) node->second = now;
      const absl::Duration empty = now - node->second;
      if (empty < options_.unneeded) {
        if (leaving_.erase(node->first) > 0) Taint(node->first, kube::Json::array());
        ++node;
      } else if (leaving_.insert(node->first).second) {
        Taint(node->first, {{{"key", "ToBeDeletedByClusterAutoscaler"}, {"effect", "NoSchedule"}}});
        ++node;
      } else {
        kubelet_.RemoveNode(node->first);
        node = empty_since_.erase(node);
      }
    }
    there_ = static_cast<int>(empty_since_.size());
  }

  bool WaitsForNode(const kube::Json& pod) const {
    const kube::Json& selector = kube::At(pod, {"spec", "nodeSelector"});
    // A node that is made has a name of its own: one by that name will not help.
    if (!kube::TextAt(selector, {kubejobs::kHostNameLabel}).empty()) return false;
    if (kube::TextAt(selector, {options_.label}) != options_.value) return false;
    const kube::Json& conditions = kube::At(pod, {"status", "conditions"});
    return kube::TextAt(pod, {"spec", "nodeName"}).empty() && conditions.is_array() &&
           std::any_of(conditions.begin(), conditions.end(), [](const kube::Json& condition) {
             return kube::TextAt(condition, {"reason"}) == "Unschedulable";
           });
  }

  void AddNode() {
    const std::string name = absl::StrCat("cloud-", made_++);
    kubelet_.AddNode(kube::Dump({{"name", name},
                                 {"labels", {{options_.label, options_.value}}},
                                 {"allocatable", options_.allocatable}}));
    empty_since_[name] = absl::Now();
  }

  void Taint(const std::string& node, const kube::Json& taints) {
    const auto tainted = client_.MergePatch(kube::ObjectOf(kube::Nodes(), {"", node}),
                                            {{"spec", {{"taints", taints}}}}, {.field_manager = "cloud"});
    EXPECT_TRUE(tainted.ok()) << tainted.status();
  }

  const CloudOptions options_;
  kube::KubeletDouble& kubelet_;
  const kube::Client& client_;
  // Pods for which a node was made.
  std::set<std::string> served_;
  // Of each node: since when nothing runs on it.
  std::map<std::string, absl::Time> empty_since_;
  std::set<std::string> leaving_;
  std::atomic<int> made_ = 0;
  std::atomic<int> there_ = 0;
  std::jthread thread_;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_KUBERNETES_CLOUD_H_
