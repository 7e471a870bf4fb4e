#include "libs/comm/gloo_communicator.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/rendezvous_store.h"
#include "libs/comm/torch_compat.h"

namespace adaptdl::comm {
namespace {

// Gloo reports every failure as a std::exception; only its text tells them apart.
absl::Status FailureStatus(absl::string_view doing, absl::string_view error) {
  const std::string text = absl::StrCat(doing, ": ", error.substr(0, error.find('\n')));
  const std::string lower = absl::AsciiStrToLower(error);
  if (absl::StrContains(lower, "timed out") || absl::StrContains(lower, "timeout")) {
    return absl::DeadlineExceededError(text);
  }
  return absl::UnavailableError(text);
}

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

// Gloo works on a copy: after an abort its threads may still write into the memory that they were given.
at::Tensor Stage(const Buffer& buffer) {
  at::Tensor staged = at::empty({buffer.count}, at::TensorOptions().dtype(ScalarType(buffer.type)));
  std::memcpy(staged.data_ptr(), buffer.data, static_cast<size_t>(buffer.bytes()));
  return staged;
}

// What the communicator, its works and Gloo's threads share.
class Outcome {
 public:
  // The failure that ended the communicator, or OK.
  absl::Status status() {
    MutexLock lock(&mutex_);
    return status_;
  }

  // Records the first failure only.
  void Fail(const absl::Status& status) {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
    changed_.SignalAll();
  }

  // Blocks until `*done` or a failure.
  absl::Status AwaitDone(const bool* done) {
    MutexLock lock(&mutex_);
    while (!*done && status_.ok()) changed_.Wait(&mutex_);
    return *done ? absl::OkStatus() : status_;
  }

  void SetDone(bool* done) {
    MutexLock lock(&mutex_);
    *done = true;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

class GlooWork final : public Work {
 public:
  // `work` may be null when the collective could not be started.
  GlooWork(std::shared_ptr<Outcome> outcome, const char* what, c10::intrusive_ptr<c10d::Work> work,
           at::Tensor staged, Buffer buffer)
      : outcome_(std::move(outcome)),
        done_(std::make_shared<bool>(false)),
        staged_(std::move(staged)),
        buffer_(buffer) {
    if (!work) return;
    // The callback owns what it touches: it may run after this object is gone.
    work->getFuture()->addCallback([outcome = outcome_, done = done_, what](c10::ivalue::Future& future) {
      if (future.hasError()) {
        outcome->Fail(FailureStatus(what, future.tryRetrieveErrorMessage()));
      } else {
        outcome->SetDone(done.get());
      }
    });
  }

  absl::Status Wait() override {
    if (absl::Status status = outcome_->AwaitDone(done_.get()); !status.ok()) return status;
    if (buffer_.bytes() > 0)
      std::memcpy(buffer_.data, staged_.data_ptr(), static_cast<size_t>(buffer_.bytes()));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Outcome> outcome_;
  const std::shared_ptr<bool> done_;
  const at::Tensor staged_;
  const Buffer buffer_;
};

class GlooCommunicator final : public Communicator {
 public:
  explicit GlooCommunicator(c10::intrusive_ptr<compat::ClosableGloo> group)
      : rank_(group->getRank()), size_(group->getSize()), group_(std::move(group)) {}

  ~GlooCommunicator() override {
    if (outcome_->status().ok()) return;
    // Collectives may still be stuck until their timeout, and the group's destructor waits for them.
    group_->CloseConnections();
    std::thread([group = std::move(group_)]() mutable { group.reset(); }).detach();
  }

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
    outcome_->Fail(absl::AbortedError(reason));
    group_->CloseConnections();
  }

 private:
  template <typename Start>
  std::unique_ptr<Work> Begin(const char* what, const Buffer& buffer, Start start) {
    at::Tensor staged;
    c10::intrusive_ptr<c10d::Work> work;
    if (buffer.cuda_device >= 0) {
      outcome_->Fail(absl::InvalidArgumentError("Gloo takes data in main memory only"));
    } else if (outcome_->status().ok()) {
      staged = Stage(buffer);
      std::vector<at::Tensor> tensors{staged};
      try {
        work = start(tensors);
      } catch (const std::exception& error) {
        outcome_->Fail(FailureStatus(what, error.what()));
      }
    }
    return std::make_unique<GlooWork>(outcome_, what, std::move(work), std::move(staged), buffer);
  }

  const int rank_;
  const int size_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
  c10::intrusive_ptr<compat::ClosableGloo> group_;
};

std::shared_ptr<gloo::transport::Device> ListenOn(const std::string& host) {
  if (host.empty()) return c10d::ProcessGroupGloo::createDefaultDevice();
  return c10d::ProcessGroupGloo::createDeviceForHostname(host);
}

}  // namespace

TcpRendezvous::TcpRendezvous(std::unique_ptr<Store> store, std::string address)
    : store_(std::move(store)), address_(std::move(address)) {}

TcpRendezvous::~TcpRendezvous() = default;

absl::StatusOr<std::unique_ptr<TcpRendezvous>> TcpRendezvous::Host(const std::string& host, int port) {
  try {
    auto store = std::make_unique<Store>();
    // Its own client goes over the loopback: the advertised host may not be reachable from here.
    store->store = compat::MakeTcpStore("127.0.0.1", static_cast<uint16_t>(port), /*is_server=*/true,
                                        std::chrono::minutes(1));
    const std::string address = absl::StrCat(host, ":", compat::PortOf(*store->store));
    return std::unique_ptr<TcpRendezvous>(new TcpRendezvous(std::move(store), address));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot listen on port ", port, ": ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<TcpRendezvous>> TcpRendezvous::Join(const std::string& address,
                                                                   absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rendezvous address \"", address, "\" is not of the form host:port"));
  }
  try {
    auto store = std::make_unique<Store>();
    store->store = compat::MakeTcpStore(address.substr(0, colon), static_cast<uint16_t>(port),
                                        /*is_server=*/false, absl::ToChronoMilliseconds(timeout));
    return std::unique_ptr<TcpRendezvous>(new TcpRendezvous(std::move(store), address));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot reach the rendezvous at ", address, ": ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectGloo(const TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options) {
  try {
    auto settings = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(options.timeout));
    settings->devices.push_back(ListenOn(options.host));
    settings->threads = 2;
    auto store = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("group/", options.group),
                                                        rendezvous.store().store);
    auto group =
        c10::make_intrusive<compat::ClosableGloo>(store, options.rank, options.size, std::move(settings));
    return std::make_unique<GlooCommunicator>(std::move(group));
  } catch (const std::exception& error) {
    return FailureStatus("connecting to the peers", error.what());
  }
}

}  // namespace adaptdl::comm
