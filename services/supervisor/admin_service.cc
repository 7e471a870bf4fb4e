#include "services/supervisor/admin_service.h"

#include <memory>

#include "services/supervisor/backup_stream.h"

namespace adaptdl::supervisor {

grpc::ServerWriteReactor<v1::BackupResponse>* AdminServiceImpl::Backup(
    grpc::CallbackServerContext* /*context*/, const v1::BackupRequest* /*request*/) {
  auto stream = std::make_shared<BackupStream>(store_);
  stream->Begin(stream);
  streams_->Add(stream);
  return stream.get();
}

}  // namespace adaptdl::supervisor
