#include "services/autoscaler/cluster_client.h"

#include <functional>
#include <string>
#include <vector>

#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::autoscaler {
namespace {

// Makes `call` at the endpoint in use, then at the others until one answers.
template <typename Service>
absl::Status CallAny(rpc::Endpoints* endpoints, absl::Duration timeout,
                     const std::function<grpc::Status(typename Service::Stub*, grpc::ClientContext*)>& call) {
  absl::Status status;
  for (size_t tries = 0; tries < endpoints->size(); ++tries) {
    const rpc::Endpoint endpoint = endpoints->current();
    rpc::AwaitConnection(endpoint.channel.get());
    grpc::ClientContext context;
    rpc::SetTimeout(&context, timeout);
    status = rpc::FromGrpcStatus(call(Service::NewStub(endpoint.channel).get(), &context));
    if (!rpc::IsEndpointFailure(status)) break;
    endpoints->GoOn(endpoint);
  }
  return status;
}

}  // namespace

absl::StatusOr<std::vector<v1::Node>> ClusterClient::ListNodes() const {
  std::vector<v1::Node> nodes;
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  do {
    v1::ListNodesResponse response;
    const absl::Status status = CallAny<v1::NodeService>(
        supervisors_.get(), timeout_,
        [&](auto* stub, auto* context) { return stub->ListNodes(context, request, &response); });
    if (!status.ok()) return status;
    nodes.insert(nodes.end(), response.nodes().begin(), response.nodes().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return nodes;
}

absl::StatusOr<v1::ListJobDemandsResponse> ClusterClient::ListJobDemands(
    const std::vector<v1::Node>& kinds) const {
  v1::ListJobDemandsRequest request;
  for (const v1::Node& kind : kinds) *request.add_kinds() = kind;
  v1::ListJobDemandsResponse all;
  do {
    v1::ListJobDemandsResponse page;
    const absl::Status status = CallAny<v1::CapacityService>(
        allocators_.get(), timeout_,
        [&](auto* stub, auto* context) { return stub->ListJobDemands(context, request, &page); });
    // A decision that was replaced between two pages is asked for again with the next look at the pools.
    if (!status.ok()) return status;
    request.set_page_token(page.next_page_token());
    page.clear_next_page_token();
    all.MergeFrom(page);
  } while (!request.page_token().empty());
  return all;
}

absl::Status ClusterClient::ReportNodePools(const v1::ReportNodePoolsRequest& request) const {
  v1::ReportNodePoolsResponse response;
  return CallAny<v1::NodePoolService>(supervisors_.get(), timeout_, [&](auto* stub, auto* context) {
    return stub->ReportNodePools(context, request, &response);
  });
}

absl::Status ClusterClient::DrainNode(const std::string& node_id, const std::string& reason) const {
  v1::DrainNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(node_id);
  request.set_reason(reason);
  v1::DrainNodeResponse response;
  return CallAny<v1::NodeService>(supervisors_.get(), timeout_, [&](auto* stub, auto* context) {
    return stub->DrainNode(context, request, &response);
  });
}

absl::Status ClusterClient::RemoveNode(const std::string& node_id) const {
  v1::RemoveNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(node_id);
  v1::RemoveNodeResponse response;
  const absl::Status status = CallAny<v1::NodeService>(
      supervisors_.get(), timeout_,
      [&](auto* stub, auto* context) { return stub->RemoveNode(context, request, &response); });
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace adaptdl::autoscaler
