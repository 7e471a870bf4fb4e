// Connects to the next group on a thread of its own, while the present one goes on: what that takes, such as
// the forming of a NCCL communicator, is in no pause.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_GROUP_CONNECTOR_H_
#define ADAPTDL_LIBS_ELASTIC_GROUP_CONNECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/control/control_plane.h"

namespace adaptdl::elastic {

class Connector {
 public:
  using Connected = absl::StatusOr<std::unique_ptr<comm::Communicator>>;
  // Blocks until all members of the group are connected, or somebody ends it.
  using Connect = std::function<Connected(const GroupMembership& group)>;

  explicit Connector(Connect connect) : connect_(std::move(connect)) {}
  // What is under way has been ended: waits for that.
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  // Starts to connect to this group, unless that was begun with a group as new. What came of an older one that
  // nobody has taken is dropped.
  void Begin(const GroupMembership& group);

  // Whether nothing is under way.
  bool idle() const;
  // Whether Take() would not wait: it is connected, or cannot be.
  bool IsDone(int64_t group) const;

  // Waits for what comes of it, after Begin() if that was not called yet; once. ABORTED: another group, which
  // is newer, was begun.
  Connected Take(const GroupMembership& group);

 private:
  void Run();
  bool IsOver(int64_t group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Connect connect_;
  mutable Mutex mutex_;
  CondVar changed_;
  // The newest one that was begun.
  GroupMembership wanted_ ABSL_GUARDED_BY(mutex_);
  // The newest one that the thread is through with, and what came of it.
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Connected> connected_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GROUP_CONNECTOR_H_
