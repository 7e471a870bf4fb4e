#include "services/autoscaler/cluster_client.h"

#include <string>
#include <vector>

#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::autoscaler {

absl::StatusOr<std::vector<v1::Node>> ClusterClient::ListNodes() const {
  std::vector<v1::Node> nodes;
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, timeout_);
    v1::ListNodesResponse response;
    const grpc::Status status = supervisor_->ListNodes(&context, request, &response);
    if (!status.ok()) return rpc::FromGrpcStatus(status);
    nodes.insert(nodes.end(), response.nodes().begin(), response.nodes().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return nodes;
}

absl::StatusOr<v1::GetDesiredCapacityResponse> ClusterClient::GetDesiredCapacity() const {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, timeout_);
  v1::GetDesiredCapacityResponse response;
  const grpc::Status status = allocator_->GetDesiredCapacity(&context, {}, &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return response;
}

absl::Status ClusterClient::DrainNode(const std::string& node_id, const std::string& reason) const {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, timeout_);
  v1::DrainNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(node_id);
  request.set_reason(reason);
  v1::DrainNodeResponse response;
  return rpc::FromGrpcStatus(supervisor_->DrainNode(&context, request, &response));
}

absl::Status ClusterClient::RemoveNode(const std::string& node_id) const {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, timeout_);
  v1::RemoveNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(node_id);
  v1::RemoveNodeResponse response;
  const absl::Status status = rpc::FromGrpcStatus(supervisor_->RemoveNode(&context, request, &response));
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace adaptdl::autoscaler
