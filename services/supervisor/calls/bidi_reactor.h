// A stream in both directions: messages are dealt with one at a time and in order, while those that come
// meanwhile wait, and answers leave when the transport can take them. Ends once, after the message that is
// being dealt with; whoever is sent away for what he said is so for good: when that is durable.
//
// Thread-safety: Write() and End() may be called by any thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_BIDI_REACTOR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_BIDI_REACTOR_H_

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/server_callback.h"
#include "libs/base/mutex.h"
#include "libs/rpc/status.h"
#include "libs/service/strangers.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

template <typename Request, typename Response>
class BidiReactor : public grpc::ServerBidiReactor<Request, Response>, public EndableStream {
 public:
  // `name`: of the call, where something breaks that cannot. All outlive the stream.
  BidiReactor(const char* name, const Core* core, const Lanes* lanes, service::Strangers* strangers)
      : name_(name), core_(core), lanes_(lanes), strangers_(strangers) {}

  // Starts the stream, which keeps itself alive until gRPC is done with it. Until its first message it is one
  // of the strangers of `host`.
  void Begin(const std::string& host) {
    self_ = shared_from_this();
    EnterAsStranger(strangers_, host, this);
    this->StartRead(&incoming_);
  }

  // After the message that is being dealt with.
  void End(const grpc::Status& status) override {
    {
      MutexLock lock(&mutex_);
      EndSoon(status);
    }
    Write();
  }

  void OnReadDone(bool ok) final {
    // From now on it is known who speaks, or the stream ends.
    if (!std::exchange(heard_, true)) strangers_->Leave(static_cast<EndableStream*>(this));
    if (!ok) return EndOfMessages();
    bool begin = false;
    {
      MutexLock lock(&mutex_);
      Guarded([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        Arrived({std::move(incoming_), core_->Now()});
      });
      incoming_.Clear();
      begin = !handling_ && TakeNext();
      ReadOn();
    }
    if (begin) HandleMessages();
    Write();
  }

  void OnWriteDone(bool ok) final {
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) EndSoon(grpc::Status::CANCELLED);
    }
    Write();
  }

  void OnCancel() final { End(grpc::Status::CANCELLED); }

  void OnDone() final {
    strangers_->Leave(static_cast<EndableStream*>(this));
    OnEnd();
    // The last reference may be this one.
    const std::shared_ptr<EndableStream> self = std::move(self_);
  }

 protected:
  struct Message {
    Request request;
    // Steady.
    absl::Time arrived;
  };

  // A message has come: it waits for its turn. Others may deal with it here, or have it take the place of one
  // that waits.
  virtual void Arrived(Message message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    waiting_.push_back(std::move(message));
  }
  // Whether more messages may come. If not, the stream is not read from until one was dealt with.
  virtual bool has_room() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return true; }

  // Whether the message is for the state, which may wait for its disk: then the executor deals with it.
  virtual bool NeedsState(const Request& request) const = 0;
  // Deals with a message. After an error the stream ends. Called by one thread at a time, with no lock held.
  virtual absl::Status Handle(const Message& message) = 0;
  // A message was dealt with.
  virtual void Handled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}

  // Whether there is something to send, which `*response` then is.
  virtual bool NextResponse(Response* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Nothing will be sent any more.
  virtual void DropResponses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}
  // The stream is over: let go of what it used.
  virtual void OnEnd() {}

  // Something may have come to send.
  void Write() {
    MutexLock lock(&mutex_);
    if (writing_ || finished_) return;
    bool found = false;
    if (!ending_) {
      Guarded([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { found = NextResponse(&outgoing_); });
    }
    if (found) {
      writing_ = true;
      this->StartWrite(&outgoing_);
    } else if (ending_ && !handling_) {  // If it is, Proceed() comes back here.
      finished_ = true;
      this->Finish(end_status_);
    }
  }

  // The stream ends with the next Write().
  void EndSoon(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ending_) return;
    ending_ = true;
    end_status_ = status;
    DropResponses();
  }
  bool ending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; }
  // Whether a message is being dealt with.
  bool handling() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return handling_; }

  Mutex mutex_;
  // Messages that wait for their turn. Mostly none: a list holds no memory then, of which a deque has half a KiB.
  std::list<Message> waiting_ ABSL_GUARDED_BY(mutex_);

 private:
  // Nobody sends any more. What was sent before is dealt with first.
  void EndOfMessages() {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
      reading_ = false;
      if (!handling_) EndSoon(grpc::Status::OK);
    }
    Write();
  }

  // Unless there is enough to do. No stream is read from after its end.
  void ReadOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reading_ = !ending_ && !closed_ && has_room();
    if (reading_) this->StartRead(&incoming_);
  }

  // Whether there is a message to deal with, which message_ then is.
  bool TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ending_) waiting_.clear();
    handling_ = !waiting_.empty();
    if (!handling_) return false;
    message_ = std::move(waiting_.front());
    waiting_.pop_front();
    return true;
  }

  // By whoever has made handling_ true: until there is none left, or one of them is for the executor.
  void HandleMessages() {
    do {
      if (NeedsState(message_.request)) {
        lanes_->changes->Post([this, self = shared_from_this()] {
          const absl::Status status = GuardedHandle();
          const auto proceed = [this, self, status] {
            if (Proceed(status)) HandleMessages();
          };
          status.ok() ? proceed() : lanes_->durability->WhenDurable(proceed);
        });
        return;
      }
    } while (Proceed(GuardedHandle()));
  }

  absl::Status GuardedHandle() {
    const absl::Status status = lanes_->invariants()->Guard(name_, [this] { return Handle(message_); });
    return core_->UnavailableUnlessLeading(status);
  }

  // What throws costs the stream, and not the program.
  template <typename Body>
  void Guarded(const Body& body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Status status = lanes_->invariants()->Guard(name_, [&] {
      body();
      return absl::OkStatus();
    });
    if (!status.ok()) EndSoon(rpc::ToGrpcStatus(status));
  }

  // The message was dealt with. Whether there is another one.
  bool Proceed(const absl::Status& status) {
    bool more = false;
    {
      MutexLock lock(&mutex_);
      Handled();
      if (!status.ok()) EndSoon(rpc::ToGrpcStatus(status));
      more = TakeNext();
      if (closed_ && !more) EndSoon(grpc::Status::OK);
      if (!reading_) ReadOn();
    }
    Write();
    return more;
  }

  const char* const name_;
  const Core* const core_;
  const Lanes* const lanes_;
  service::Strangers* const strangers_;
  std::shared_ptr<EndableStream> self_;
  // Whether anything has been read; what is being read, dealt with, and sent.
  bool heard_ = false;
  Request incoming_;
  Message message_;
  Response outgoing_;

  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  // Whether somebody works on message_.
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether there are no further messages.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_BIDI_REACTOR_H_
