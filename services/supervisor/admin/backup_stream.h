// One Backup call: has the store copied, and sends the copy piece by piece. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_ADMIN_BACKUP_STREAM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_ADMIN_BACKUP_STREAM_H_

#include <cstdint>
#include <fstream>

#include "adaptdl/v1/admin_service.pb.h"
#include "services/supervisor/calls/pull_reactor.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

class BackupStream final : public PullReactor<v1::BackupResponse> {
 public:
  // None is owned.
  BackupStream(JobStore* store, Executor* executor, GroupCommit* durability)
      : PullReactor(executor, durability), store_(store) {}

 protected:
  Pull Next(v1::BackupResponse* message, grpc::Status* end) override;

 private:
  absl::Status CopyStore();

  JobStore* const store_;
  // The copy, whose name is gone already.
  std::ifstream copy_;
  int64_t size_ = -1;
  int64_t sent_ = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_ADMIN_BACKUP_STREAM_H_
