// A control plane that a test plays.
//
// Thread-safety: thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_FAKE_CONTROL_PLANE_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_FAKE_CONTROL_PLANE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libs/base/mutex.h"
#include "libs/elastic/control/control_plane.h"

namespace adaptdl::elastic {

class FakeControlPlane final : public ControlPlane {
 public:
  // `plans_groups`: the test calls OnPlan() when a group is broken.
  explicit FakeControlPlane(GroupMembership membership, bool plans_groups = false)
      : membership_(std::move(membership)), plans_groups_(plans_groups) {}

  // For the test.
  ControlObserver* observer() {
    MutexLock lock(&mutex_);
    return observer_;
  }
  std::optional<Progress> progress() {
    MutexLock lock(&mutex_);
    return progress_;
  }
  // Called with each group that is reported as broken. Set before the replica starts.
  std::function<void(int64_t group)> on_broken = nullptr;

  // Hands the plan to the replica, now or as soon as it can be told.
  void Plan(const GroupPlan& plan) {
    {
      MutexLock lock(&mutex_);
      plan_ = plan;
    }
    Tell([&](ControlObserver* observer) { observer->OnPlan(plan); });
  }
  // Tells the replica, which has begun, to stop.
  void Stop(const std::string& reason) {
    Tell([&](ControlObserver* observer) { observer->OnStopCommand(reason); });
  }
  // Groups that were entered, and reported as broken, in this order.
  std::vector<int64_t> entered() {
    MutexLock lock(&mutex_);
    return entered_;
  }
  // Steps of the checkpoints that were reported, and what became of them.
  std::vector<std::pair<int64_t, absl::Status>> checkpoints() {
    MutexLock lock(&mutex_);
    return checkpoints_;
  }
  std::vector<RescaleTimes> rescales() {
    MutexLock lock(&mutex_);
    return rescales_;
  }
  // Blocks until group number `group` or a newer one is reported as broken.
  void AwaitBroken(int64_t group) {
    MutexLock lock(&mutex_);
    while (broken_.empty() || broken_.back() < group) changed_.Wait(&mutex_);
  }
  // Blocks until the next hints come, and takes them.
  Hints AwaitHints() {
    MutexLock lock(&mutex_);
    while (hints_.empty()) changed_.Wait(&mutex_);
    Hints first = hints_.front();
    hints_.erase(hints_.begin());
    return first;
  }

  // Where the replica can be reached, as it says.
  std::string address() {
    MutexLock lock(&mutex_);
    return address_;
  }

  // The newest group.
  absl::StatusOr<GroupMembership> JoinGroup(const std::string& address) override {
    MutexLock lock(&mutex_);
    address_ = address;
    if (!plan_) return membership_;
    if (plan_->leaves()) return absl::AbortedError("not wanted");
    return plan_->next;
  }
  void Cancel() override {}
  void Start(ControlObserver* observer) override {
    std::optional<GroupPlan> plan;
    {
      MutexLock lock(&mutex_);
      observer_ = observer;
      plan = plan_;
    }
    if (plan) Tell([&](ControlObserver* told) { told->OnPlan(*plan); });
  }
  bool plans_groups() const override { return plans_groups_; }
  void EnterGroup(const GroupMembership& group) override {
    MutexLock lock(&mutex_);
    entered_.push_back(group.group);
    changed_.SignalAll();
  }
  void ReportBroken(int64_t group, const std::string&) override {
    {
      MutexLock lock(&mutex_);
      broken_.push_back(group);
      changed_.SignalAll();
    }
    if (on_broken) on_broken(group);
  }
  void ReportRescale(const RescaleTimes& times) override {
    MutexLock lock(&mutex_);
    rescales_.push_back(times);
  }
  void ReportCheckpoint(int64_t step, const absl::Status& status) override {
    MutexLock lock(&mutex_);
    checkpoints_.emplace_back(step, status);
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
    while (telling_ > 0) changed_.Wait(&mutex_);
  }

 private:
  void Tell(const std::function<void(ControlObserver*)>& what) {
    ControlObserver* observer = nullptr;
    {
      MutexLock lock(&mutex_);
      if (observer_ == nullptr) return;
      observer = observer_;
      ++telling_;
    }
    what(observer);
    MutexLock lock(&mutex_);
    --telling_;
    changed_.SignalAll();
  }

  const GroupMembership membership_;
  const bool plans_groups_;
  Mutex mutex_;
  CondVar changed_;
  ControlObserver* observer_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Calls of the observer that have not returned: none outlives Shutdown().
  int telling_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  std::optional<GroupPlan> plan_ ABSL_GUARDED_BY(mutex_);
  std::optional<Progress> progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<Hints> hints_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> entered_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> broken_ ABSL_GUARDED_BY(mutex_);
  std::vector<RescaleTimes> rescales_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int64_t, absl::Status>> checkpoints_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_FAKE_CONTROL_PLANE_H_
