// One member's ncclComm_t: formed, used and ended without a call that blocks, so that a lost member, a deadline or
// an abort can end each of these. Inside libs/comm only.
//
//   Form() ──▶ Launch() ... ──▶ End()      at its ordinary end: finalised and destroyed
//      ╰──────────┴──────────────┴──▶ Abort()   at any time: ends kernels that wait for others
//
// Thread-safety: Abort() and state() from any thread, the others from one at a time.

#ifndef ADAPTDL_LIBS_COMM_NCCL_GROUP_H_
#define ADAPTDL_LIBS_COMM_NCCL_GROUP_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/comm/nccl_library.h"
#include "libs/device/device.h"

namespace adaptdl::comm {

class NcclGroup {
 public:
  // Waits so long at most; a status that is not OK ends what waits.
  using Pause = std::function<absl::Status(absl::Duration)>;

  // `device` is not owned.
  NcclGroup(NcclLibrary library, device::Device* device, Pause pause);
  // As Abort(), if it has not ended.
  ~NcclGroup();

  // Returns when all members are here.
  absl::Status Form(const nccl::UniqueId& id, int rank, int size);

  // An all-reduce or broadcast of a buffer on the device: returns when it is on `stream`.
  absl::Status Launch(const Collective& collective, device::Stream stream);

  // What has gone wrong behind the caller's back, or OK.
  absl::Status state();

  // After all that was launched is done. What takes longer than `timeout` is aborted.
  void End(absl::Duration timeout);

  void Abort();

 private:
  // Until NCCL has taken what it was given last.
  absl::Status Await(absl::string_view doing, absl::Time deadline);
  nccl::Result Enqueue(const Collective& collective, device::Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const NcclLibrary library_;
  device::Device* const device_;
  const Pause pause_;
  Mutex mutex_;
  nccl::Comm comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_NCCL_GROUP_H_
