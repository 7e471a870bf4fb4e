// A session with a server of the test, on a manual clock: pauses pass at once, and are remembered.

#ifndef ADAPTDL_TESTS_LIBS_KUBE_CLIENT_API_FIXTURE_H_
#define ADAPTDL_TESTS_LIBS_KUBE_CLIENT_API_FIXTURE_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/session.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::kube {

class ManualPauses final : public Pauses {
 public:
  explicit ManualPauses(ManualClock* clock) : clock_(*clock) {}

  bool WaitFor(absl::Duration duration, const std::stop_token& stop) const override {
    {
      MutexLock lock(&mutex_);
      taken_.push_back(duration);
    }
    clock_.Advance(duration);
    if (during_ != nullptr) during_();
    return !stop.stop_requested();
  }

  std::vector<absl::Duration> taken() const {
    MutexLock lock(&mutex_);
    return taken_;
  }
  // Called in the midst of each. Set before there are any.
  void set_during(std::function<void()> during) { during_ = std::move(during); }

 private:
  ManualClock& clock_;
  std::function<void()> during_;
  mutable Mutex mutex_;
  mutable std::vector<absl::Duration> taken_ ABSL_GUARDED_BY(mutex_);
};

// Credentials that count how often they were refused: "Bearer token-N".
class CountedCredentials final : public CredentialSource {
 public:
  absl::StatusOr<Credentials> Get(const std::stop_token& /*stop*/) override {
    return Credentials{.bearer_token = absl::StrCat("token-", refused_)};
  }
  void Refused(const Credentials& /*credentials*/) override { ++refused_; }

 private:
  int refused_ = 0;
};

class ApiTest : public ::testing::Test {
 protected:
  // Answers from now on; the server's thread calls it.
  void Serve(TestServer::Handler handler) {
    server_ = std::make_unique<TestServer>(std::move(handler));
    options_.clock = &clock_;
    options_.pauses = &pauses_;
    Connect(server_->url());
  }
  // Answers these one after the other, the last one for good.
  void ServeInTurn(std::vector<TestServer::Handler> answers) {
    calls_ = 0;
    Serve([this, answers = std::move(answers)](Exchange& exchange) {
      answers[std::min<size_t>(calls_++, answers.size() - 1)](exchange);
    });
  }
  void Connect(const std::string& url) {
    Access access = {.server = url, .credentials = std::make_unique<CountedCredentials>()};
    session_ = Session::Create(std::move(access), options_).value();
    client_ = std::make_unique<Client>(session_.get());
  }

  ManualClock clock_;
  ManualPauses pauses_{&clock_};
  SessionOptions options_;
  // How many ServeInTurn() has answered.
  std::atomic<int> calls_ = 0;
  // Ends first, so that nobody waits for the session's end.
  std::unique_ptr<Session> session_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<TestServer> server_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_TESTS_LIBS_KUBE_CLIENT_API_FIXTURE_H_
