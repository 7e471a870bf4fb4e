#include "libs/comm/nccl_communicator.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/rendezvous_store.h"
#include "libs/comm/torch_compat.h"

namespace adaptdl::comm {
namespace {

at::ScalarType ScalarType(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return at::kFloat;
    case DataType::kFloat64:
      return at::kDouble;
    case DataType::kInt64:
      return at::kLong;
    case DataType::kUint8:
      return at::kByte;
  }
  return at::kByte;
}

// The first failure, shared by the communicator and its works.
struct Outcome {
  Mutex mutex;
  absl::Status status ABSL_GUARDED_BY(mutex);

  absl::Status Get() {
    MutexLock lock(&mutex);
    return status;
  }
  absl::Status Fail(const absl::Status& failure) {
    MutexLock lock(&mutex);
    if (status.ok()) status = failure;
    return status;
  }
};

absl::Status FailureStatus(absl::string_view doing, absl::string_view error) {
  const std::string text = absl::StrCat(doing, ": ", error.substr(0, error.find('\n')));
  const std::string lower = absl::AsciiStrToLower(error);
  if (absl::StrContains(lower, "timed out") || absl::StrContains(lower, "timeout")) {
    return absl::DeadlineExceededError(text);
  }
  return absl::UnavailableError(text);
}

class NcclWork final : public Work {
 public:
  NcclWork(std::shared_ptr<Outcome> outcome, const char* what, c10::intrusive_ptr<c10d::Work> work,
           at::Tensor on_device, Buffer buffer)
      : outcome_(std::move(outcome)),
        what_(what),
        work_(std::move(work)),
        on_device_(std::move(on_device)),
        buffer_(buffer) {}

  absl::Status Wait() override {
    if (absl::Status status = outcome_->Get(); !status.ok()) return status;
    try {
      work_->wait();
      // A copy to main memory waits for the stream, and so for the collective.
      if (buffer_.cuda_device < 0 && buffer_.bytes() > 0) {
        const at::Tensor on_host = on_device_.cpu();
        std::memcpy(buffer_.data, on_host.data_ptr(), static_cast<size_t>(buffer_.bytes()));
      }
    } catch (const std::exception& error) {
      return outcome_->Fail(FailureStatus(what_, error.what()));
    }
    return outcome_->Get();
  }

 private:
  const std::shared_ptr<Outcome> outcome_;
  const char* const what_;
  const c10::intrusive_ptr<c10d::Work> work_;
  const at::Tensor on_device_;
  const Buffer buffer_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(c10::intrusive_ptr<c10d::ProcessGroupNCCL> group, int cuda_device)
      : rank_(group->getRank()),
        size_(group->getSize()),
        cuda_device_(cuda_device),
        group_(std::move(group)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Work> AllReduceAsync(Buffer buffer) override {
    return Begin("all-reduce", buffer, [this](std::vector<at::Tensor>& tensors) {
      return group_->allreduce(tensors, c10d::AllreduceOptions());
    });
  }

  absl::Status Broadcast(Buffer buffer, int root) override {
    return Begin("broadcast", buffer,
                 [this, root](std::vector<at::Tensor>& tensors) {
                   c10d::BroadcastOptions options;
                   options.rootRank = root;
                   return group_->broadcast(tensors, options);
                 })
        ->Wait();
  }

  absl::Status Barrier() override {
    int64_t nothing = 0;
    return AllReduce({&nothing, 1, DataType::kInt64});
  }

  void Abort(absl::string_view reason) override {
    (void)outcome_->Fail(absl::AbortedError(reason));
    group_->abort();
  }

 private:
  at::Tensor OnDevice(const Buffer& buffer) const {
    const auto type = at::TensorOptions().dtype(ScalarType(buffer.type));
    const int device = buffer.cuda_device >= 0 ? buffer.cuda_device : cuda_device_;
    const at::Device cuda(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    if (buffer.cuda_device >= 0) return at::from_blob(buffer.data, {buffer.count}, type.device(cuda));
    return at::from_blob(buffer.data, {buffer.count}, type).to(cuda);
  }

  template <typename Start>
  std::unique_ptr<Work> Begin(const char* what, const Buffer& buffer, Start start) {
    at::Tensor on_device;
    c10::intrusive_ptr<c10d::Work> work;
    if (outcome_->Get().ok()) {
      try {
        on_device = OnDevice(buffer);
        std::vector<at::Tensor> tensors{on_device};
        work = start(tensors);
      } catch (const std::exception& error) {
        (void)outcome_->Fail(FailureStatus(what, error.what()));
      }
    }
    return std::make_unique<NcclWork>(outcome_, what, std::move(work), std::move(on_device), buffer);
  }

  const int rank_;
  const int size_;
  const int cuda_device_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
  const c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options, int cuda_device) {
  try {
    auto settings = c10d::ProcessGroupNCCL::Options::create();
    settings->timeout = absl::ToChronoMilliseconds(options.timeout);
    auto store = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("nccl/", options.group),
                                                        rendezvous.store().store);
    auto group =
        c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.size, std::move(settings));
    return std::make_unique<NcclCommunicator>(std::move(group), cuda_device);
  } catch (const std::exception& error) {
    return FailureStatus("connecting to the peers", error.what());
  }
}

}  // namespace adaptdl::comm
