// What the two live streams share: read, gather, pass on, end. Thread-safe.

#ifndef ADAPTDL_LIBS_DASHBOARD_LIVE_REACTOR_H_
#define ADAPTDL_LIBS_DASHBOARD_LIVE_REACTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "libs/base/mutex.h"
#include "libs/dashboard/job_json.h"
#include "libs/dashboard/job_stream.h"
#include "libs/httpd/http_server.h"
#include "libs/rpc/status.h"

namespace adaptdl::dashboard {

// Responses are taken by Take(), and what has gathered is taken by Gathered(), as an event. Both with the mutex held.
template <typename Response>
class LiveReactor : public LiveStream, public grpc::ClientReadReactor<Response> {
 public:
  LiveReactor(std::unique_ptr<httpd::HttpStream> stream, std::function<void()> done)
      : stream_(std::move(stream)), done_(std::move(done)) {}

  // Before the call is made.
  void SetBearer(const std::string& bearer) {
    if (!bearer.empty()) context_.AddMetadata("authorization", absl::StrCat("Bearer ", bearer));
  }
  // The call was made. `self` lives until it has ended.
  void Begin(std::shared_ptr<LiveReactor> self) {
    self_ = std::move(self);
    this->StartRead(&response_);
    this->StartCall();
  }

  void Flush() override {
    MutexLock lock(&mutex_);
    Pass();
  }
  void Cancel() override { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      MutexLock lock(&mutex_);
      if (Take(response_)) Pass();
    }
    response_.Clear();
    this->StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    {
      MutexLock lock(&mutex_);
      Pass();
      const absl::Status error = rpc::FromGrpcStatus(status);
      Tell("end", ToText({{"code", absl::StatusCodeToString(error.code())},
                          {"message", std::string(error.message())}}));
      stream_ = nullptr;
    }
    const std::function<void()> done = std::move(done_);
    const std::shared_ptr<LiveReactor> self = std::move(self_);
    done();
  }

  grpc::ClientContext* context() { return &context_; }

 protected:
  // Whether to pass on at once.
  virtual bool Take(const Response& response) = 0;
  // Empty: there is nothing to say.
  virtual std::pair<std::string, std::string> Gathered() = 0;

 private:
  void Pass() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [event, data] = Gathered();
    Tell(event, data);
  }
  void Tell(const std::string& event, const std::string& data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stream_ == nullptr) return;
    // A comment finds out whether the browser is still there.
    const bool there =
        stream_->Write(event.empty() ? ":\n\n" : absl::StrCat("event: ", event, "\ndata: ", data, "\n\n"));
    if (!there) context_.TryCancel();
  }

  grpc::ClientContext context_;
  Response response_;
  std::shared_ptr<LiveReactor> self_;
  Mutex mutex_;
  std::unique_ptr<httpd::HttpStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> done_;
};

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_LIVE_REACTOR_H_
