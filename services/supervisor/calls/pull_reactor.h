// A server stream that produces its next message only when the transport can take it. So a slow reader costs
// one message of memory, whatever happens meanwhile, and sees the newest state when it is ready. What it is
// shown is durable: a message, or an end, waits for all that was committed when it was made.
//
// Thread-safety: Poke() and End() may be called by any thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_PULL_REACTOR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_PULL_REACTOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/server_callback.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/executor.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/state/group_commit.h"

namespace adaptdl::supervisor {

enum class Pull {
  // The message is to be sent.
  kMessage,
  // There is nothing to send before the next Poke().
  kWait,
  // The stream ends with the status.
  kEnd,
};

template <typename Response>
class PullReactor : public grpc::ServerWriteReactor<Response>, public EndableStream {
 public:
  // `executor` produces the messages, in the name of `caller` (empty: the cluster's own). Both outlive the
  // stream.
  PullReactor(Executor* executor, GroupCommit* durability, std::string caller = "")
      : executor_(executor), durability_(durability), caller_(std::move(caller)) {}

  // Starts the stream, which keeps itself alive through `self` until gRPC is done with it.
  void Begin(std::shared_ptr<PullReactor> self) {
    self_ = std::move(self);
    Poke();
  }

  // What is asked before anything is sent, on the executor: an error ends the stream with that, whatever else
  // would have. Before all else: Poke() and End() may send.
  void Require(std::function<absl::Status()> allowed) { allowed_ = std::move(allowed); }

  // Kept until the stream is over: its place among the caller's streams.
  void Hold(std::shared_ptr<void> place) { place_ = std::move(place); }

  // Something may have come to send.
  void Poke() {
    {
      MutexLock lock(&mutex_);
      poked_ = true;
      if (busy_ || finished_) return;
      busy_ = true;
    }
    executor_->Post(caller_, [this] { Run(); });
  }

  // Ends the stream after the message that is on its way.
  void End(const grpc::Status& status) override {
    {
      MutexLock lock(&mutex_);
      if (!ending_) end_status_ = status;
      ending_ = true;
    }
    Poke();
  }

  // A reader that comes back finds the message that was on its way, and then this.
  void CheckReader(absl::Time now, absl::Duration patience) override {
    {
      MutexLock lock(&mutex_);
      if (!writing_ || ending_) return;
      if (!waits_since_.has_value()) waits_since_ = now;
      if (now - *waits_since_ < patience) return;
    }
    End(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                     absl::StrCat("nothing was read for ", absl::FormatDuration(patience),
                                  ": read faster, or open the stream when you want to read it")));
  }

  void OnWriteDone(bool ok) final {
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      ending_ = ending_ || !ok;
    }
    // A large message is not kept until the next one comes.
    message_ = Response();
    executor_->Post(caller_, [this] { Run(); });
  }
  void OnCancel() final { End(grpc::Status::CANCELLED); }
  void OnDone() final {
    OnEnd();
    place_.reset();
    // The last reference may be this one.
    const std::shared_ptr<PullReactor> self = std::move(self_);
  }

 protected:
  // Whether nothing is sent any more.
  bool ending() {
    MutexLock lock(&mutex_);
    return ending_;
  }

  // The next message, if there is one. Called by one thread at a time, with no lock held.
  virtual Pull Next(Response* message, grpc::Status* end) = 0;
  // For Next(): has it called again at `time` (steady), unless that is arranged already.
  void PokeAt(absl::Time time) {
    if (armed_.exchange(true)) return;
    // A new one each time: the last one's function may still be on its way out. An alarm keeps its function
    // also after it has rung: one that held the stream would keep it for ever.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(rpc::DeadlineAfter(time - SteadyNow()), [stream = weak_from_this(), this](bool /*due*/) {
      const auto alive = stream.lock();
      if (alive == nullptr) return;
      armed_ = false;
      Poke();
    });
  }
  // The stream is over: let go of what it used.
  virtual void OnEnd() {}

 private:
  // Called by whoever made busy_ true, or after a write: there is one at a time.
  void Run() {
    if (allowed_ != nullptr) Admit();
    while (true) {
      grpc::Status status;
      Pull pull = Pull::kEnd;
      {
        MutexLock lock(&mutex_);
        poked_ = false;
        status = end_status_;
        if (!ending_) pull = Pull::kWait;
      }
      if (pull == Pull::kWait) {
        message_.Clear();
        pull = GuardedNext(&status);
      }
      if (pull == Pull::kMessage) {
        // Until OnWriteDone() nobody else runs this.
        durability_->WhenDurable([this] { Write(); });
        return;
      }
      bool sent_away = false;
      {
        MutexLock lock(&mutex_);
        if (pull == Pull::kWait && (poked_ || ending_)) continue;
        busy_ = false;
        if (pull == Pull::kWait) return;
        finished_ = true;
        sent_away = ending_;
      }
      if (sent_away) {
        this->Finish(status);
      } else {
        durability_->WhenDurable([this, status] { this->Finish(status); });
      }
      return;
    }
  }

  void Admit() {
    const absl::Status status =
        executor_->invariants()->Guard(Response::descriptor()->name(), std::exchange(allowed_, nullptr));
    if (status.ok()) return;
    MutexLock lock(&mutex_);
    end_status_ = rpc::ToGrpcStatus(status);
    ending_ = true;
  }

  void Write() {
    {
      MutexLock lock(&mutex_);
      writing_ = true;
      waits_since_.reset();
    }
    this->StartWrite(&message_);
  }

  Pull GuardedNext(grpc::Status* end) {
    Pull pull = Pull::kEnd;
    const absl::Status status = executor_->invariants()->Guard(Response::descriptor()->name(), [&] {
      pull = Next(&message_, end);
      return absl::OkStatus();
    });
    if (!status.ok()) *end = rpc::ToGrpcStatus(status);
    return pull;
  }

  Executor* const executor_;
  GroupCommit* const durability_;
  const std::string caller_;
  Mutex mutex_;
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether somebody runs Run(), or a message is on its way.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether a message is on its way, and since when it was seen to be.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Time> waits_since_ ABSL_GUARDED_BY(mutex_);
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status()> allowed_;  // Belongs to Run().
  Response message_;                       // Belongs to Run(), and to gRPC during a write.
  // Of PokeAt(): used by Next() only, and whether it is set.
  std::unique_ptr<grpc::Alarm> alarm_;
  std::atomic<bool> armed_ = false;
  std::shared_ptr<PullReactor> self_;
  std::shared_ptr<void> place_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_PULL_REACTOR_H_
