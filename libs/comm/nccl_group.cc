#include "libs/comm/nccl_group.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/device/data_type.h"

namespace adaptdl::comm {
namespace {

// NCCL takes a collective within microseconds, and members within a second.
constexpr int kQuickPolls = 100;
constexpr absl::Duration kNcclPoll = absl::Microseconds(200);

nccl::DataType NcclType(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kFloat32:
      return nccl::DataType::kFloat32;
    case DataType::kFloat64:
      return nccl::DataType::kFloat64;
    case DataType::kInt64:
      // "Or" is the maximum of unsigned numbers: it is non-zero where any of them is.
      return op == ReduceOp::kOr ? nccl::DataType::kUint64 : nccl::DataType::kInt64;
    case DataType::kUint8:
      return nccl::DataType::kUint8;
    case DataType::kFloat16:
      return nccl::DataType::kFloat16;
    case DataType::kBFloat16:
      return nccl::DataType::kBfloat16;
  }
  return nccl::DataType::kUint8;
}

absl::Status EndedStatus() { return absl::AbortedError("NCCL's group has ended"); }

}  // namespace

NcclGroup::NcclGroup(NcclLibrary library, device::Device* device, Pause pause)
    : library_(std::move(library)), device_(device), pause_(std::move(pause)) {}

NcclGroup::~NcclGroup() { Abort(); }

absl::Status NcclGroup::Form(const nccl::UniqueId& id, int rank, int size) {
  const std::unique_ptr<device::Scope> current = device_->MakeCurrent();
  nccl::Config config;
  config.blocking = 0;
  {
    MutexLock lock(&mutex_);
    if (ended_) return EndedStatus();
    const nccl::Result result = library_.comm_init_rank_config(&comm_, size, id, rank, &config);
    if (absl::Status status = library_.StatusOf(result, "forming the group"); !status.ok()) return status;
  }
  return Await("forming the group", absl::InfiniteFuture());
}

absl::Status NcclGroup::Launch(const Collective& collective, device::Stream stream) {
  const std::unique_ptr<device::Scope> current = device_->MakeCurrent();
  {
    MutexLock lock(&mutex_);
    if (ended_) return EndedStatus();
    const nccl::Result result = Enqueue(collective, stream);
    if (absl::Status status = library_.StatusOf(result, "starting a collective"); !status.ok()) return status;
    if (result == nccl::Result::kSuccess) return absl::OkStatus();
  }
  return Await("starting a collective", absl::InfiniteFuture());
}

nccl::Result NcclGroup::Enqueue(const Collective& collective, device::Stream stream) {
  const Buffer& buffer = collective.buffer;
  const nccl::DataType type = NcclType(buffer.type, collective.op);
  const auto count = static_cast<size_t>(buffer.count);
  if (collective.kind == Collective::Kind::kBroadcast) {
    return library_.broadcast(buffer.data, buffer.data, count, type, collective.root, comm_, stream);
  }
  const nccl::Op op = collective.op == ReduceOp::kSum ? nccl::Op::kSum : nccl::Op::kMax;
  return library_.all_reduce(buffer.data, buffer.data, count, type, op, comm_, stream);
}

absl::Status NcclGroup::Await(absl::string_view doing, absl::Time deadline) {
  for (int polls = 0;; ++polls) {
    {
      MutexLock lock(&mutex_);
      if (ended_) return EndedStatus();
      nccl::Result state = nccl::Result::kInProgress;
      const nccl::Result asked = library_.comm_get_async_error(comm_, &state);
      if (absl::Status status = library_.StatusOf(asked, doing); !status.ok()) return status;
      if (state != nccl::Result::kInProgress) return library_.StatusOf(state, doing);
    }
    if (SteadyNow() >= deadline) return absl::DeadlineExceededError(absl::StrCat("NCCL, ", doing));
    if (polls < kQuickPolls) std::this_thread::yield();
    absl::Status status = pause_(polls < kQuickPolls ? absl::ZeroDuration() : kNcclPoll);
    if (!status.ok()) return status;
  }
}

absl::Status NcclGroup::state() {
  MutexLock lock(&mutex_);
  if (ended_) return absl::OkStatus();
  nccl::Result state = nccl::Result::kSuccess;
  const nccl::Result asked = library_.comm_get_async_error(comm_, &state);
  return library_.StatusOf(asked == nccl::Result::kSuccess ? state : asked, "exchanging");
}

void NcclGroup::End(absl::Duration timeout) {
  const std::unique_ptr<device::Scope> current = device_->MakeCurrent();
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    if (ended_) return;
    status = library_.StatusOf(library_.comm_finalize(comm_), "finalising");
  }
  if (status.ok()) status = Await("finalising", SteadyNow() + timeout);
  if (!status.ok()) return Abort();
  MutexLock lock(&mutex_);
  if (std::exchange(ended_, true)) return;
  (void)library_.comm_destroy(std::exchange(comm_, nullptr));
}

void NcclGroup::Abort() {
  const std::unique_ptr<device::Scope> current = device_->MakeCurrent();
  MutexLock lock(&mutex_);
  ended_ = true;
  if (comm_ != nullptr) (void)library_.comm_abort(std::exchange(comm_, nullptr));
}

}  // namespace adaptdl::comm
