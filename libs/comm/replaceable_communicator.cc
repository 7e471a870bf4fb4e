#include "libs/comm/replaceable_communicator.h"

#include <memory>
#include <optional>
#include <utility>

namespace adaptdl::comm {

void ReplaceableCommunicator::Replace(std::unique_ptr<Communicator> next) {
  {
    MutexLock lock(&mutex_);
    present_.swap(next);
  }
  // Now the one before is destroyed: that may take a moment, and Abort() reaches the new one already.
}

int ReplaceableCommunicator::rank() const {
  MutexLock lock(&mutex_);
  return present_->rank();
}

int ReplaceableCommunicator::size() const {
  MutexLock lock(&mutex_);
  return present_->size();
}

device::Device* ReplaceableCommunicator::device() const {
  MutexLock lock(&mutex_);
  return present_->device();
}

void ReplaceableCommunicator::Abort(absl::string_view reason) {
  MutexLock lock(&mutex_);
  present_->Abort(reason);
}

void ReplaceableCommunicator::SetTimeout(absl::Duration timeout) { present().SetTimeout(timeout); }

std::optional<Standing> ReplaceableCommunicator::standing() {
  MutexLock lock(&mutex_);
  return present_->standing();
}

std::unique_ptr<Work> ReplaceableCommunicator::Start(Collective collective) {
  return StartOn(present(), std::move(collective));
}

absl::Status ReplaceableCommunicator::Run(Collective collective) {
  return RunOn(present(), std::move(collective));
}

Communicator& ReplaceableCommunicator::present() const {
  MutexLock lock(&mutex_);
  return *present_;
}

}  // namespace adaptdl::comm
