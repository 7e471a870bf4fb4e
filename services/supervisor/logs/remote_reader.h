// Reads a stream of another server, as StreamReader has it. Thread-safe; keeps itself alive while the call goes on.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_REMOTE_READER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_REMOTE_READER_H_

#include <functional>
#include <memory>
#include <utility>

#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "libs/base/mutex.h"
#include "services/supervisor/logs/stream_reader.h"

namespace adaptdl::supervisor {

template <typename Response>
class RemoteReader final : public StreamReader<Response>, private grpc::ClientReadReactor<Response> {
 public:
  using State = ReaderState;
  using Call = std::function<void(grpc::ClientContext*, grpc::ClientReadReactor<Response>*)>;

  // `call` starts the call on the reactor: [=](auto* context, auto* reactor) { stub->async()->X(...); }, and is kept
  // as long as the reader is, with what it holds.
  // `notify` is called when the state has changed, with no lock held, until Abandon().
  static std::shared_ptr<RemoteReader> Start(Call call, std::function<void()> notify) {
    std::shared_ptr<RemoteReader> reader(new RemoteReader(std::move(call), std::move(notify)));
    reader->self_ = reader;
    reader->call_(&reader->context_, reader.get());
    // The call must not be done while a message waits here to be taken.
    reader->AddHold();
    reader->StartRead(&reader->incoming_);
    reader->StartCall();
    return reader;
  }

  State state() const override {
    MutexLock lock(&mutex_);
    return ready_ ? State::kReady : done_ ? State::kDone : State::kWaiting;
  }
  grpc::Status status() const override {
    MutexLock lock(&mutex_);
    return status_;
  }
  Response Take() override {
    Response message;
    {
      MutexLock lock(&mutex_);
      message.Swap(&incoming_);
      ready_ = false;
    }
    this->StartRead(&incoming_);
    return message;
  }
  void Abandon() override {
    bool drop_hold = false;
    {
      MutexLock lock(&mutex_);
      notify_ = nullptr;
      drop_hold = ready_;
      ready_ = false;
    }
    context_.TryCancel();
    if (drop_hold) this->RemoveHold();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      this->RemoveHold();
      return;
    }
    bool drop_hold = false;
    std::function<void()> notify;
    {
      MutexLock lock(&mutex_);
      notify = notify_;
      ready_ = notify != nullptr;
      drop_hold = !ready_;
    }
    if (drop_hold) this->RemoveHold();
    if (notify) notify();
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<RemoteReader> self = std::move(self_);
    std::function<void()> notify;
    {
      MutexLock lock(&mutex_);
      status_ = status;
      done_ = true;
      notify = std::exchange(notify_, nullptr);
    }
    if (notify) notify();
  }

  RemoteReader(Call call, std::function<void()> notify)
      : call_(std::move(call)), notify_(std::move(notify)) {}

  const Call call_;
  grpc::ClientContext context_;
  // Until OnDone().
  std::shared_ptr<RemoteReader> self_;
  mutable Mutex mutex_;
  std::function<void()> notify_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  Response incoming_;  // Belongs to gRPC while a read is on its way.
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_REMOTE_READER_H_
