#include "cli/health_check.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/wrappers.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::cli {
namespace {

// On the wire HealthCheckRequest{string service = 1} and HealthCheckResponse{ServingStatus status = 1} are
// these well-known messages; health.proto itself comes with no Debian package.
using HealthStub = grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value>;

std::string NameOf(int status) {
  constexpr const char* kNames[] = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
  return status >= 0 && status < 4 ? kNames[status] : absl::StrCat("status ", status);
}

}  // namespace

absl::StatusOr<std::string> CheckHealth(const std::string& address, const rpc::ClientSecurity& security,
                                        const std::string& service, absl::Duration timeout) {
  HealthStub stub(rpc::CreateChannel(address, security));
  grpc::ClientContext context;
  rpc::SetTimeout(&context, timeout);
  google::protobuf::StringValue request;
  request.set_value(service);
  google::protobuf::Int32Value response;
  grpc::Status status;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return NameOf(response.value());
}

}  // namespace adaptdl::cli
