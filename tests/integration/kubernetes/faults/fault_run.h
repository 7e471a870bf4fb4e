// A job that trains on the doubles of Kubernetes while something goes wrong, in the hands of the real supervisor: the base of
// tests that say what that is. Nodes "node-0" to "node-2" have room for two replicas each; the test decides who runs where.
//
// A job that was finished has trained as if nothing had happened: each step once, with each sample once in a pass, and all
// replicas alike. When it is deleted nothing of it is left, and what others have in the cluster is as it was.
//
// ADAPTDL_FAULTS=all: all that there is to try, and not a part of it. Thread-safety: one thread at a time.

#ifndef ADAPTDL_TESTS_INTEGRATION_KUBERNETES_FAULTS_FAULT_RUN_H_
#define ADAPTDL_TESTS_INTEGRATION_KUBERNETES_FAULTS_FAULT_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"
#include "tests/integration/chaos/training_record.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {

class FaultRun : public testing::Test {
 protected:
  static constexpr absl::Duration kPatience = absl::Minutes(2);

  // `node_grace`: how long a node may be silent.
  explicit FaultRun(int supervisors = 1, absl::Duration node_grace = absl::Minutes(2));
  // Skips where no containers may run.
  void SetUp() override;

  static bool TriesAll();
  static bool Await(const std::function<bool()>& done, absl::Duration limit = kPatience);

  // `rescale`: "in-place" or "restart". Returns when it trains.
  void StartJob(const std::string& name, const std::string& rescale, const std::vector<std::string>& nodes);
  // Decides as an allocator would, as often as it takes until the job's object says so.
  void Decide(const std::string& name, const std::vector<std::string>& nodes);
  // Until it runs there, in another group than `before`, and what has left has ended.
  void AwaitGroup(const std::string& name, const std::vector<std::string>& nodes, int64_t before);
  bool HasChanged(const std::string& name, const std::vector<std::string>& nodes, int64_t before);
  // Both.
  void Rescale(const std::string& name, const std::vector<std::string>& nodes);
  int64_t GroupOf(const std::string& name);
  // The last step that it has taken, as its replicas have noted.
  int64_t StepsOf(const std::string& name);
  // Until it has gone on for some steps.
  void AwaitSteps(const std::string& name);
  // What was said above. `rollbacks`: how often all that knew the newest steps was lost, at most.
  void FinishJob(const std::string& name, int rollbacks = 0);

  // From the next one on, changes that operators make of jobs and pods are not answered, but for `after` of them; the first
  // that is not is done, or not even that (tests/kube/apiserver/halts.py). Until LetGo().
  void Halt(int after, bool done);
  // Waits for that, or until the re-scale is over, and the job has trained on so that all is told of it. "patch pods": what is
  // not answered; "": nothing.
  std::string AwaitHalt(const std::string& name, const std::vector<std::string>& nodes, int64_t before);
  void LetGo() { Control("DELETE", "halt"); }

  kube::Json JobObject(const std::string& name);
  std::vector<kube::Json> Pods(const std::string& job);
  // The name of the job's pod on that node.
  std::string PodOn(const std::string& job, const std::string& node);
  // tests/kube/apiserver/faults.py.
  kube::Json Control(const std::string& method, const std::string& what, const kube::Json& body = {});

  kube::ApiServerDouble api_;
  kube::KubeletDouble kubelet_;
  std::unique_ptr<kube::Session> session_;
  kube::Client client_;
  TestCluster cluster_;

 private:
  void MakeBystanders();
  std::map<std::string, std::string> BystanderVersions();
  absl::StatusOr<TrainingRecord> ReadRecord(const std::string& name) const;
  void CheckRecord(const std::string& name, int rollbacks);
  void ExpectNothingLeft(const std::string& name);

  std::map<std::string, std::string> bystanders_;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_KUBERNETES_FAULTS_FAULT_RUN_H_
