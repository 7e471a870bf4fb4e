#include "services/worker/code/code_source.h"

#include <memory>

#include "adaptdl/v1/code_service.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::worker {

absl::Status RemoteCodeSource::Read(const ArchiveName& archive, int64_t offset, absl::Duration timeout,
                                    const Take& take) {
  const rpc::Endpoint supervisor = supervisors_->current();
  rpc::AwaitConnection(supervisor.channel.get());
  const absl::Status status = ReadFrom(supervisor, archive, offset, timeout, take);
  if (rpc::IsEndpointFailure(status)) supervisors_->GoOn(supervisor);
  return status;
}

absl::Status RemoteCodeSource::ReadFrom(const rpc::Endpoint& supervisor, const ArchiveName& archive,
                                        int64_t offset, absl::Duration timeout, const Take& take) {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, timeout);
  if (!Enter(&context)) return absl::CancelledError("the worker ends");
  v1::DownloadCodeRequest request;
  request.set_namespace_(archive.name_space);
  request.set_digest(archive.digest);
  request.set_offset(offset);
  const auto stream = v1::CodeService::NewStub(supervisor.channel)->DownloadCode(&context, request);
  absl::Status refused;
  v1::DownloadCodeResponse piece;
  while (refused.ok() && stream->Read(&piece)) refused = take(piece.data());
  if (!refused.ok()) context.TryCancel();
  while (!refused.ok() && stream->Read(&piece)) {
  }
  const grpc::Status status = stream->Finish();
  Leave(&context);
  return refused.ok() ? rpc::FromGrpcStatus(status) : refused;
}

bool RemoteCodeSource::Enter(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (!ended_) calls_.insert(context);
  return !ended_;
}

void RemoteCodeSource::Leave(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  calls_.erase(context);
}

void RemoteCodeSource::Shutdown() {
  MutexLock lock(&mutex_);
  ended_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

}  // namespace adaptdl::worker
