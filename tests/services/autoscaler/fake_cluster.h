// A supervisor and an allocator as far as the autoscaler sees them, served by a real gRPC server on a free
// port.

#ifndef ADAPTDL_TESTS_SERVICES_AUTOSCALER_FAKE_CLUSTER_H_
#define ADAPTDL_TESTS_SERVICES_AUTOSCALER_FAKE_CLUSTER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "adaptdl/v1/capacity_service.grpc.pb.h"
#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "libs/base/mutex.h"

namespace adaptdl::autoscaler {

// Thread-safe.
class FakeCluster {
 public:
  FakeCluster() : supervisor_(this), allocator_(this), pools_(this) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&supervisor_);
    builder.RegisterService(&allocator_);
    builder.RegisterService(&pools_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  const std::string& address() const { return address_; }

  void SetNode(const std::string& id, v1::NodePhase phase, int replicas = 0,
               const std::string& pool = "local") {
    MutexLock lock(&mutex_);
    v1::Node& node = nodes_[id];
    node.set_node_id(id);
    node.mutable_status()->set_phase(phase);
    node.mutable_status()->set_replicas(replicas);
    if (!pool.empty()) (*node.mutable_labels())["adaptdl.petuum.com/pool"] = pool;
  }
  // So many jobs, each of which takes a whole node of any kind and has no use for another.
  void SetDesired(int nodes, const std::set<std::string>& idle = {}) {
    MutexLock lock(&mutex_);
    desired_ = nodes;
    idle_ = idle;
  }
  // What the autoscaler reported last, and all events so far.
  v1::ReportNodePoolsRequest report() const {
    MutexLock lock(&mutex_);
    return report_;
  }
  std::vector<v1::PoolEvent> events() const {
    MutexLock lock(&mutex_);
    return events_;
  }
  void SetSupervisorAway(bool away) {
    MutexLock lock(&mutex_);
    supervisor_away_ = away;
  }
  void SetAllocatorAway(bool away) {
    MutexLock lock(&mutex_);
    allocator_away_ = away;
  }
  std::map<std::string, v1::Node> nodes() const {
    MutexLock lock(&mutex_);
    return nodes_;
  }
  // What DrainNode was called with: node -> reason.
  std::map<std::string, std::string> drained() const {
    MutexLock lock(&mutex_);
    return drained_;
  }
  bool every_change_had_a_request_id() const {
    MutexLock lock(&mutex_);
    return request_ids_;
  }

 private:
  static grpc::Status Away() { return {grpc::StatusCode::UNAVAILABLE, "away"}; }

  class Supervisor final : public v1::NodeService::Service {
   public:
    explicit Supervisor(FakeCluster* cluster) : cluster_(cluster) {}

    // Pages of two, so that paging is exercised.
    grpc::Status ListNodes(grpc::ServerContext* context, const v1::ListNodesRequest* request,
                           v1::ListNodesResponse* response) override {
      MutexLock lock(&cluster_->mutex_);
      if (cluster_->supervisor_away_) return Away();
      if (context->deadline() == std::chrono::system_clock::time_point::max())
        return {grpc::StatusCode::INTERNAL, "no deadline"};
      auto node = cluster_->nodes_.upper_bound(request->page_token());
      for (int i = 0; i < 2 && node != cluster_->nodes_.end(); ++i, ++node)
        *response->add_nodes() = node->second;
      if (node != cluster_->nodes_.end()) response->set_next_page_token(response->nodes(1).node_id());
      return grpc::Status::OK;
    }

    grpc::Status DrainNode(grpc::ServerContext*, const v1::DrainNodeRequest* request,
                           v1::DrainNodeResponse*) override {
      MutexLock lock(&cluster_->mutex_);
      if (cluster_->supervisor_away_) return Away();
      cluster_->request_ids_ &= !request->request_id().empty();
      const auto node = cluster_->nodes_.find(request->node_id());
      if (node == cluster_->nodes_.end()) return {grpc::StatusCode::NOT_FOUND, "no such node"};
      node->second.mutable_status()->set_phase(v1::NODE_PHASE_DRAINING);
      cluster_->drained_[request->node_id()] = request->reason();
      return grpc::Status::OK;
    }

    grpc::Status RemoveNode(grpc::ServerContext*, const v1::RemoveNodeRequest* request,
                            v1::RemoveNodeResponse*) override {
      MutexLock lock(&cluster_->mutex_);
      if (cluster_->supervisor_away_) return Away();
      cluster_->request_ids_ &= !request->request_id().empty();
      if (cluster_->nodes_.erase(request->node_id()) == 0)
        return {grpc::StatusCode::NOT_FOUND, "no such node"};
      return grpc::Status::OK;
    }

   private:
    FakeCluster* const cluster_;
  };

  class Allocator final : public v1::CapacityService::Service {
   public:
    explicit Allocator(FakeCluster* cluster) : cluster_(cluster) {}

    grpc::Status ListJobDemands(grpc::ServerContext*, const v1::ListJobDemandsRequest* request,
                                v1::ListJobDemandsResponse* response) override {
      MutexLock lock(&cluster_->mutex_);
      if (cluster_->allocator_away_) return Away();
      for (const std::string& id : cluster_->idle_) response->add_idle_node_ids(id);
      auto node = cluster_->nodes_.begin();
      for (int j = 0; j < cluster_->desired_; ++j) {
        v1::JobDemand* job = response->add_jobs();
        job->set_name(absl::StrCat("job-", j));
        job->set_weight(1);
        while (node != cluster_->nodes_.end() && (node->second.status().phase() != v1::NODE_PHASE_READY ||
                                                  cluster_->idle_.contains(node->first)))
          ++node;
        if (node != cluster_->nodes_.end()) job->add_node_ids((node++)->first);
        for (int kind = 0; kind < request->kinds_size(); ++kind) {
          v1::KindSpeedups* speedups = job->add_kinds();
          speedups->set_kind(kind);
          speedups->set_replicas_per_node(1);
          speedups->add_replicas(1);
          speedups->add_speedups(1);
        }
      }
      return grpc::Status::OK;
    }

   private:
    FakeCluster* const cluster_;
  };

  class Pools final : public v1::NodePoolService::Service {
   public:
    explicit Pools(FakeCluster* cluster) : cluster_(cluster) {}

    grpc::Status ReportNodePools(grpc::ServerContext*, const v1::ReportNodePoolsRequest* request,
                                 v1::ReportNodePoolsResponse*) override {
      MutexLock lock(&cluster_->mutex_);
      if (cluster_->supervisor_away_) return Away();
      cluster_->report_ = *request;
      cluster_->events_.insert(cluster_->events_.end(), request->events().begin(), request->events().end());
      return grpc::Status::OK;
    }

   private:
    FakeCluster* const cluster_;
  };

  mutable Mutex mutex_;
  std::map<std::string, v1::Node> nodes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> drained_ ABSL_GUARDED_BY(mutex_);
  v1::ReportNodePoolsRequest report_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PoolEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> idle_ ABSL_GUARDED_BY(mutex_);
  int desired_ ABSL_GUARDED_BY(mutex_) = 0;
  bool supervisor_away_ ABSL_GUARDED_BY(mutex_) = false;
  bool allocator_away_ ABSL_GUARDED_BY(mutex_) = false;
  bool request_ids_ ABSL_GUARDED_BY(mutex_) = true;
  Supervisor supervisor_;
  Allocator allocator_;
  Pools pools_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_TESTS_SERVICES_AUTOSCALER_FAKE_CLUSTER_H_
