// What the autoscaler asks of the supervisor and of the allocator. Every call has a deadline.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_CLUSTER_CLIENT_H_
#define ADAPTDL_SERVICES_AUTOSCALER_CLUSTER_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/capacity_service.grpc.pb.h"
#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "libs/rpc/endpoints.h"

namespace adaptdl::autoscaler {

class ClusterClient {
 public:
  // With several supervisors or allocators, a call that one does not answer is made again to the next, each
  // once.
  ClusterClient(std::unique_ptr<rpc::Endpoints> supervisors, std::unique_ptr<rpc::Endpoints> allocators,
                absl::Duration timeout)
      : supervisors_(std::move(supervisors)), allocators_(std::move(allocators)), timeout_(timeout) {}

  // All nodes, through all pages.
  absl::StatusOr<std::vector<v1::Node>> ListNodes() const;
  // What each job could make of nodes of these kinds, through all pages.
  absl::StatusOr<v1::ListJobDemandsResponse> ListJobDemands(const std::vector<v1::Node>& kinds) const;
  absl::Status ReportNodePools(const v1::ReportNodePoolsRequest& request) const;
  absl::Status DrainNode(const std::string& node_id, const std::string& reason) const;
  // OK for a node that is unknown.
  absl::Status RemoveNode(const std::string& node_id) const;

 private:
  const std::unique_ptr<rpc::Endpoints> supervisors_;
  const std::unique_ptr<rpc::Endpoints> allocators_;
  // Of each call.
  const absl::Duration timeout_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_CLUSTER_CLIENT_H_
