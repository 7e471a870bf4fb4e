#include "services/supervisor/pools/node_pool_service.h"

#include <string>

#include "absl/status/statusor.h"
#include "services/supervisor/calls/unary.h"

namespace adaptdl::supervisor {
namespace {

constexpr char kGetCosts[] = "/adaptdl.v1.NodePoolService/GetCosts";

}  // namespace

grpc::ServerUnaryReactor* NodePoolServiceImpl::ReportNodePools(grpc::CallbackServerContext* context,
                                                               const v1::ReportNodePoolsRequest* request,
                                                               v1::ReportNodePoolsResponse* response) {
  return Answer(
      lanes_, context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return pools_->Report(*request, caller);
      },
      response);
}

grpc::ServerUnaryReactor* NodePoolServiceImpl::GetNodePools(grpc::CallbackServerContext* context,
                                                            const v1::GetNodePoolsRequest* request,
                                                            v1::GetNodePoolsResponse* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  if (const absl::Status status = admission_->Call(caller); !status.ok()) return Answer(context, status);
  return AnswerRead(
      lanes_, caller, context, [this, request] { return pools_->Get(*request); }, response);
}

grpc::ServerUnaryReactor* NodePoolServiceImpl::GetCosts(grpc::CallbackServerContext* context,
                                                        const v1::GetCostsRequest* request,
                                                        v1::GetCostsResponse* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  if (const absl::Status status = admission_->Call(caller); !status.ok()) return Answer(context, status);
  const auto read = [this, request,
                     credentials =
                         security::CredentialsOf(*context)]() -> absl::StatusOr<v1::GetCostsResponse> {
    const absl::Status allowed = guard_->CheckNamespace(credentials, kGetCosts, request->namespace_());
    if (!allowed.ok()) return allowed;
    return costs_->GetCosts(*request);
  };
  return AnswerRead(lanes_, caller, context, read, response);
}

}  // namespace adaptdl::supervisor
