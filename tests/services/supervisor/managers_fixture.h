// The managers alone, on a memory store and a clock that stands still, without gRPC and threads.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_MANAGERS_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_MANAGERS_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "services/supervisor/cluster.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/group_commit.h"
#include "services/supervisor/state/invariants.h"
#include "services/supervisor/store/memory_job_store.h"

namespace adaptdl::supervisor {

// Writes commands down.
class RecordingLauncher final : public ReplicaLauncher {
 public:
  void Launch(const std::string& node_id, const v1::LaunchReplica& launch) override {
    launches.emplace_back(node_id, launch);
  }
  void Stop(const std::string& node_id, const v1::StopReplica& stop) override {
    stops.emplace_back(node_id, stop);
  }
  void Acknowledge(const std::string& /*node_id*/, const std::string& replica_id) override {
    acknowledged.push_back(replica_id);
  }
  void DeleteJobFiles(const std::string& node_id, const v1::DeleteJobFiles& files) override {
    deletions.emplace_back(node_id, files);
  }
  bool Connected(const std::string& /*node_id*/) const override { return true; }
  void EndSession(const std::string& node_id, int64_t /*current*/, const absl::Status& /*why*/) override {
    ended_sessions.push_back(node_id);
  }

  std::vector<std::pair<std::string, v1::LaunchReplica>> launches;
  std::vector<std::pair<std::string, v1::StopReplica>> stops;
  std::vector<std::string> acknowledged;
  std::vector<std::pair<std::string, v1::DeleteJobFiles>> deletions;
  std::vector<std::string> ended_sessions;
};

class ManagersTest : public testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    const CoreParts core{&store_, &hub_, &durability_, &invariants_, &clock_, nullptr};
    auto cluster =
        Cluster::Create(options_, {core, &launcher_, &sessions_, [this](int bytes) {
                                     return std::string(2 * bytes, static_cast<char>('a' + ++ids_ % 26));
                                   }});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  void Advance(absl::Duration duration) {
    clock_.Advance(duration);
    cluster_->Step();
  }
  std::string NextRequest() { return absl::StrCat("request-", ++requests_); }

  absl::Status AddNode(const std::string& id, int64_t cpu_millis = 4000) {
    v1::RegisterNodeRequest request;
    request.set_request_id(NextRequest());
    request.mutable_node()->set_node_id(id);
    request.mutable_node()->set_worker_address("127.0.0.1:1");
    request.mutable_node()->set_replica_host("127.0.0.1");
    request.mutable_node()->mutable_capacity()->set_cpu_millis(cpu_millis);
    return cluster_->nodes()->RegisterNode(request, "").status();
  }
  absl::StatusOr<v1::Job> Submit(const std::string& name, const std::string& request_id = "") {
    v1::SubmitJobRequest request;
    request.set_request_id(request_id.empty() ? NextRequest() : request_id);
    request.mutable_job()->set_name(name);
    request.mutable_job()->mutable_spec()->set_max_replicas(8);
    request.mutable_job()->mutable_spec()->mutable_template_()->add_command("train");
    const auto response = cluster_->jobs()->SubmitJob(std::move(request), "");
    if (!response.ok()) return response.status();
    return response->job();
  }
  absl::Status Allocate(const v1::Job& job, const std::vector<std::string>& nodes) {
    v1::ApplyAllocationsRequest request;
    request.set_request_id(NextRequest());
    request.set_snapshot_version(cluster_->scheduling()->View().version);
    v1::JobAllocation* allocation = request.add_allocations();
    allocation->set_namespace_(job.namespace_());
    allocation->set_name(job.name());
    allocation->set_job_uid(job.uid());
    for (const std::string& node : nodes) allocation->add_node_ids(node);
    return cluster_->scheduling()->ApplyAllocations(request, "").status();
  }
  absl::Status Report(const v1::LaunchReplica& launch, const std::string& node, v1::ReplicaState state,
                      int exit_code = 0) {
    v1::ReplicaReport report;
    report.set_job_uid(launch.job_uid());
    report.mutable_replica()->set_replica_id(launch.replica_id());
    report.mutable_replica()->set_state(state);
    report.mutable_replica()->set_exit_code(exit_code);
    return cluster_->nodes()->ObserveReplica(node, report);
  }
  v1::Job Get(const std::string& name) {
    return cluster_->jobs()->GetJob("default", name).value_or(v1::Job());
  }

  ClusterOptions options_;
  ManualClock clock_;
  MemoryJobStore store_;
  RecordingLauncher launcher_;
  ReplicaSessions sessions_;
  Invariants invariants_;
  ChangeHub hub_;
  GroupCommit durability_{nullptr, [](const absl::Status&) {}};
  int ids_ = 0;
  int requests_ = 0;
  std::unique_ptr<Cluster> cluster_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_MANAGERS_FIXTURE_H_
