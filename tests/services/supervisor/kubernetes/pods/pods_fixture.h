// Pods as replicas, in a double of an API server: the launcher and the watch, a sink that does what NodeManager does
// with what it hears, and hands to play the kubelet with.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_PODS_PODS_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_PODS_PODS_FIXTURE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/reflector.h"
#include "libs/kubejobs/pod.h"
#include "services/supervisor/kubernetes/pods/pod_launcher.h"
#include "services/supervisor/kubernetes/pods/pod_watch.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"

namespace adaptdl::supervisor {

using kube::Json;

// All pods, as they are, and a way to wait for what becomes of one.
class SeenPods final : public kube::ObjectSink {
 public:
  void Put(Json object) override {
    MutexLock lock(&mutex_);
    const std::string name = kube::KeyOf(object).name;
    pods_[name] = std::move(object);
    changed_.SignalAll();
  }
  void Remove(Json object) override {
    MutexLock lock(&mutex_);
    pods_.erase(kube::KeyOf(object).name);
    changed_.SignalAll();
  }
  void Listed(const std::set<kube::ObjectKey>& present) override {
    MutexLock lock(&mutex_);
    std::erase_if(pods_, [&](const auto& pod) { return present.count(kube::KeyOf(pod.second)) == 0; });
    changed_.SignalAll();
  }

  // The pod, when it is as it should be. Null: it is not there.
  Json Await(const std::string& name, const std::function<bool(const Json& pod)>& is_good) {
    MutexLock lock(&mutex_);
    while (true) {
      const auto found = pods_.find(name);
      const Json pod = found == pods_.end() ? Json() : found->second;
      if (is_good(pod)) return pod;
      changed_.Wait(&mutex_);
    }
  }
  void AwaitSize(size_t size) {
    MutexLock lock(&mutex_);
    while (pods_.size() != size) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Json> pods_ ABSL_GUARDED_BY(mutex_);
};

inline bool IsThere(const Json& pod) { return !pod.is_null(); }
inline bool IsAbsent(const Json& pod) { return pod.is_null(); }

// Remembers what it is told.
class RecordingSink final : public ReplicaSink {
 public:
  using Listener = std::function<void(const std::string& node, const v1::ReplicaReport&)>;

  absl::Status ObserveReplica(const std::string& node_id, const v1::ReplicaReport& report) override {
    Listener listener;
    {
      MutexLock lock(&mutex_);
      ++calls_;
      changed_.SignalAll();
      if (!answer_.ok()) return answer_;
      Note(node_id, report);
      listener = listener_;
    }
    if (listener != nullptr) listener(node_id, report);
    return absl::OkStatus();
  }
  absl::Status ReconcileNode(const v1::NodeHello& hello) override {
    Listener listener;
    {
      MutexLock lock(&mutex_);
      ++calls_;
      changed_.SignalAll();
      if (!answer_.ok()) return answer_;
      if (nodes_.count(hello.node_id()) == 0) return absl::NotFoundError("the node is not registered");
      hellos_[hello.node_id()].push_back(hello);
      for (const v1::ReplicaReport& report : hello.replicas()) Note(hello.node_id(), report);
      listener = listener_;
    }
    if (listener == nullptr) return absl::OkStatus();
    for (const v1::ReplicaReport& report : hello.replicas()) listener(hello.node_id(), report);
    return absl::OkStatus();
  }

  void Register(const std::string& node) {
    MutexLock lock(&mutex_);
    nodes_.insert(node);
  }
  // Called after each report, with no lock held.
  void Listen(Listener listener) {
    MutexLock lock(&mutex_);
    listener_ = std::move(listener);
  }
  // What all calls are answered from now on.
  void Answer(const absl::Status& status) {
    MutexLock lock(&mutex_);
    answer_ = status;
  }
  // Waits until it was called so often, from its beginning on.
  void AwaitCalls(int calls) {
    MutexLock lock(&mutex_);
    while (calls_ < calls) changed_.Wait(&mutex_);
  }
  int calls() {
    MutexLock lock(&mutex_);
    return calls_;
  }
  // The first report of the replica in this state, which may have been before.
  v1::ReplicaReport Await(const std::string& replica, v1::ReplicaState state) {
    MutexLock lock(&mutex_);
    while (true) {
      for (const auto& report : reports_[replica]) {
        if (report.replica().state() == state) return report;
      }
      changed_.Wait(&mutex_);
    }
  }
  // The newest hello of a node, when there were so many.
  v1::NodeHello AwaitHello(const std::string& node, size_t count) {
    MutexLock lock(&mutex_);
    while (hellos_[node].size() < count) changed_.Wait(&mutex_);
    return hellos_[node].back();
  }
  size_t hellos(const std::string& node) {
    MutexLock lock(&mutex_);
    return hellos_[node].size();
  }
  std::vector<v1::ReplicaReport> ReportsOf(const std::string& replica) {
    MutexLock lock(&mutex_);
    return reports_[replica];
  }

 private:
  void Note(const std::string& node_id, const v1::ReplicaReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    EXPECT_EQ(report.replica().node_id(), node_id);
    reports_[report.replica().replica_id()].push_back(report);
  }

  Mutex mutex_;
  CondVar changed_;
  Listener listener_ ABSL_GUARDED_BY(mutex_);
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> nodes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<v1::ReplicaReport>> reports_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<v1::NodeHello>> hellos_ ABSL_GUARDED_BY(mutex_);
};

class PodsTest : public ::testing::Test {
 protected:
  static constexpr char kNode[] = "node-1";
  static constexpr char kCrd[] = R"({"metadata": {"name": "adaptdljobs.adaptdl.petuum.com"}, "spec": {
    "group": "adaptdl.petuum.com", "scope": "Namespaced", "names": {"plural": "adaptdljobs", "kind": "AdaptDLJob"},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
      {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})";

  PodsTest() {
    const kube::ResourceType crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};
    EXPECT_TRUE(client_.Create(kube::Collection(crds), *kube::ParseJson(kCrd), {}).ok());
    job_ = MakeJob("mnist");
    seen_reflector_ =
        std::make_unique<kube::Reflector>(&client_, kube::Collection(kube::Pods()), FastReflector(), &seen_);
    sink_.Register(kNode);
  }
  ~PodsTest() override {
    if (watch_ != nullptr) watch_->Stop();
    launcher_.reset();
    watch_.reset();
    seen_reflector_.reset();
  }

  static kube::ReflectorOptions FastReflector() {
    return {.first_pause = absl::Milliseconds(1), .longest_pause = absl::Milliseconds(50)};
  }
  void StartWatch(NodePodsOptions node_pods = {}) {
    watch_ = std::make_unique<PodWatch>(&client_, &clock_, &sink_,
                                        PodWatchOptions{.is_foreign = is_foreign_,
                                                        .node_pods = node_pods,
                                                        .reflector = FastReflector(),
                                                        .retries = fast_,
                                                        .report = Print});
    watch_->Start();
  }
  void StartLauncher(KeepPods keep = KeepPods::kFailed, int threads = 4) {
    PodLauncherParts parts = {
        .client = &client_,
        .clock = &clock_,
        .watch = watch_.get(),
        .sink = &sink_,
        .claims = &claims_,
        .output = output_,
        .make_pod = [this](const std::string& node, const v1::LaunchReplica& launch,
                           const std::string& claim) { return MakePod(node, launch, claim); }};
    launcher_ = std::make_unique<PodLauncher>(
        parts, PodLauncherOptions{.keep = keep, .threads = threads, .retries = fast_, .report = Print});
  }
  void StartBoth(KeepPods keep = KeepPods::kFailed) {
    StartWatch();
    StartLauncher(keep);
  }
  // What NodeManager does with replicas that it did not know to have ended.
  void AcknowledgeEnds() {
    sink_.Listen([this](const std::string& node, const v1::ReplicaReport& report) {
      const v1::ReplicaState state = report.replica().state();
      if (state != v1::REPLICA_STATE_EXITED && state != v1::REPLICA_STATE_LOST) return;
      launcher_->Acknowledge(node, report.replica().replica_id());
    });
  }

  Json MakeJob(const std::string& name) {
    const kube::ResourceType jobs = {"adaptdl.petuum.com", "v1", "adaptdljobs", "AdaptDLJob"};
    const Json containers = Json::array({{{"name", "main"}, {"image", "x"}}});
    const Json job = {{"metadata", {{"name", name}}},
                      {"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}};
    return client_.Create(kube::Collection(jobs, "default"), job, {}).value();
  }
  v1::LaunchReplica LaunchOf(const std::string& replica, int rank = 0) const {
    v1::LaunchReplica launch;
    launch.set_namespace_("default");
    launch.set_job(kube::KeyOf(job_).name);
    launch.set_job_uid(kube::UidOf(job_));
    launch.set_replica_id(replica);
    launch.set_group(1);
    launch.set_rank(rank);
    return launch;
  }
  static v1::StopReplica StopOf(const std::string& replica) {
    v1::StopReplica stop;
    stop.set_replica_id(replica);
    stop.mutable_grace_period()->set_seconds(20);
    return stop;
  }
  Json MakePod(const std::string& node, const v1::LaunchReplica& launch,
               const std::string& claim = "") const {
    const Json of_node = {{"metadata", {{"name", node}, {"labels", {{"kubernetes.io/hostname", node}}}}}};
    return kubejobs::MakePod(job_, launch, of_node, {.supervisor_address = "supervisor:7300", .claim = claim})
        .value();
  }
  // Makes it as somebody else.
  Json Create(const std::string& node, const std::string& replica) {
    return client_.Create(kube::Collection(kube::Pods(), "default"), MakePod(node, LaunchOf(replica)), {})
        .value();
  }

  static kube::Target PodOf(const std::string& name) {
    return kube::ObjectOf(kube::Pods(), {"default", name});
  }
  absl::Status Bind(const std::string& name, const std::string& node) {
    const Json binding = {{"apiVersion", "v1"},
                          {"kind", "Binding"},
                          {"metadata", {{"name", name}}},
                          {"target", {{"kind", "Node"}, {"name", node}}}};
    return client_.Create(PodOf(name).Sub("binding"), binding, {}).status();
  }
  absl::Status SetStatus(const std::string& name, const Json& status) {
    return client_.MergePatch(PodOf(name).Sub("status"), {{"status", status}}, {}).status();
  }
  // It is bound, and its container runs.
  void Run(const std::string& name) {
    EXPECT_TRUE(Bind(name, kNode).ok());
    const Json running = {{"name", "main"}, {"state", {{"running", Json::object()}}}};
    EXPECT_TRUE(SetStatus(name, {{"phase", "Running"}, {"containerStatuses", Json::array({running})}}).ok());
  }
  void End(const std::string& name, int exit_code) {
    EndContainer(name, exit_code, exit_code == 0 ? "Succeeded" : "Failed");
  }
  void EndContainer(const std::string& name, int exit_code, const std::string& phase) {
    const Json terminated = {{"name", "main"}, {"state", {{"terminated", {{"exitCode", exit_code}}}}}};
    EXPECT_TRUE(SetStatus(name, {{"phase", phase}, {"containerStatuses", Json::array({terminated})}}).ok());
  }
  // As the kubelet does when it was asked to stop the pod, and has.
  void Terminate(const std::string& name) {
    End(name, 143);
    EXPECT_TRUE(client_.Delete(PodOf(name), {.grace_period = absl::ZeroDuration()}).ok());
  }
  // From now on, nobody hears of pods.
  void Deafen() {
    Control("POST", "faults",
            {{{"verb", "watch"}, {"resource", "pods"}, {"status", 500}, {"times", 1000000}},
             {{"verb", "list"}, {"resource", "pods"}, {"status", 500}, {"times", 1000000}}});
    Control("POST", "cut");
  }
  // tests/kube/apiserver/faults.py.
  Json Control(const std::string& method, const std::string& what, const Json& body = Json()) {
    HttpClient http;
    const auto answer = http.Send({.method = method,
                                   .url = server_.url() + "/-/" + what,
                                   .body = body.is_null() ? "" : kube::Dump(body)});
    EXPECT_TRUE(answer.ok() && answer->status == 200) << answer.status();
    return kube::ParseJson(answer->body).value();
  }
  std::unique_ptr<kube::Session> MakeSession() {
    kube::Access access = {.server = server_.url(), .credentials = std::make_unique<kube::NoCredentials>()};
    return kube::Session::Create(std::move(access), {.burst = 100'000,
                                                     .first_pause = absl::Milliseconds(1),
                                                     .longest_pause = absl::Milliseconds(50)})
        .value();
  }

  static void Print(const std::string& what, const absl::Status& status) {
    GTEST_LOG_(INFO) << what << ": " << status;
  }

  // Of the watch.
  std::function<bool(const Pod&)> is_foreign_ = nullptr;
  const kube::WorkQueueOptions fast_ = {.first_pause = absl::Milliseconds(1),
                                        .longest_pause = absl::Milliseconds(50)};
  kube::ApiServerDouble server_;
  const std::unique_ptr<kube::Session> session_ = MakeSession();
  const kube::Client client_{session_.get()};
  const RealClock clock_;
  OutputKeeper* output_ = nullptr;
  Json job_;
  SeenPods seen_;
  std::unique_ptr<kube::Reflector> seen_reflector_;
  RecordingSink sink_;
  CheckpointClaims claims_{&client_, &clock_, {}};
  std::unique_ptr<PodWatch> watch_;
  std::unique_ptr<PodLauncher> launcher_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_PODS_PODS_FIXTURE_H_
