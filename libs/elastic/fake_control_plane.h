// A control plane that a test plays.
//
// Thread-safety: thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_FAKE_CONTROL_PLANE_H_
#define ADAPTDL_LIBS_ELASTIC_FAKE_CONTROL_PLANE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libs/base/mutex.h"
#include "libs/elastic/control_plane.h"

namespace adaptdl::elastic {

class FakeControlPlane final : public ControlPlane {
 public:
  explicit FakeControlPlane(GroupMembership membership) : membership_(std::move(membership)) {}

  // For the test.
  ControlObserver* observer() {
    MutexLock lock(&mutex_);
    return observer_;
  }
  std::optional<Progress> progress() {
    MutexLock lock(&mutex_);
    return progress_;
  }
  // Blocks until the next hints come, and takes them.
  Hints AwaitHints() {
    MutexLock lock(&mutex_);
    while (hints_.empty()) changed_.Wait(&mutex_);
    Hints first = hints_.front();
    hints_.erase(hints_.begin());
    return first;
  }

  absl::StatusOr<GroupMembership> JoinGroup(const std::string&) override { return membership_; }
  void Cancel() override {}
  void Start(ControlObserver* observer) override {
    MutexLock lock(&mutex_);
    observer_ = observer;
  }
  void UpdateProgress(const Progress& progress) override {
    MutexLock lock(&mutex_);
    progress_ = progress;
  }
  absl::Status ReportHints(const Hints& hints) override {
    MutexLock lock(&mutex_);
    hints_.push_back(hints);
    changed_.SignalAll();
    return absl::OkStatus();
  }
  void Shutdown() override {
    MutexLock lock(&mutex_);
    observer_ = nullptr;
  }

 private:
  const GroupMembership membership_;
  Mutex mutex_;
  CondVar changed_;
  ControlObserver* observer_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::optional<Progress> progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<Hints> hints_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_FAKE_CONTROL_PLANE_H_
