#include "services/worker/leaving.h"

#include "libs/messages/proto_time.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

v1::PreemptionNotice ToProto(const Notice& notice) {
  v1::PreemptionNotice message;
  message.set_reason(notice.reason);
  message.set_likely_only(notice.likely_only);
  if (notice.deadline != absl::InfiniteFuture())
    *message.mutable_deadline() = messages::ToProto(notice.deadline);
  return message;
}

}  // namespace

void Leaving::OnNotice(const Notice& notice) {
  if (!notice.likely_only) {
    Announce(notice);
    return;
  }
  MutexLock lock(&mutex_);
  if (deadline_ == absl::InfiniteFuture()) link_->AnnouncePreemption(ToProto(notice));
}

bool Leaving::announced() const {
  MutexLock lock(&mutex_);
  return deadline_ != absl::InfiniteFuture();
}

absl::Time Leaving::Announce(const Notice& notice) {
  const absl::Time deadline = clock_->Both().ToSteady(notice.deadline);
  MutexLock lock(&mutex_);
  if (deadline >= deadline_) return deadline_;
  deadline_ = deadline;
  replicas_->Retire(deadline, "the node goes away");
  link_->AnnouncePreemption(ToProto(notice));
  return deadline_;
}

void Leaving::Drain(absl::Duration limit) {
  const absl::Time deadline =
      Announce({.deadline = clock_->Now() + limit, .reason = "the worker was told to end"});
  log::Info("draining: waiting for the supervisor to move the replicas, and to know of their ends");
  // The end of each replica and its acknowledgement come through other threads; looking now and then will
  // do here.
  while (!replicas_->Inventory().empty() && clock_->Steady() < deadline) {
    replicas_->StopLeftovers();
    clock_->SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace adaptdl::worker
