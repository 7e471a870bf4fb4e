// A server of the test as a service of Amazon, on a manual clock: pauses pass at once, and are remembered.

#ifndef ADAPTDL_TESTS_LIBS_AWS_AWS_FIXTURE_H_
#define ADAPTDL_TESTS_LIBS_AWS_AWS_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/aws/query_api.h"
#include "libs/base/manual_clock.h"
#include "libs/base/mutex.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::aws {

class ManualPauses final : public Pauses {
 public:
  explicit ManualPauses(ManualClock* clock) : clock_(*clock) {}

  bool WaitFor(absl::Duration duration, const std::stop_token& stop) const override {
    {
      MutexLock lock(&mutex_);
      taken_.push_back(duration);
    }
    clock_.Advance(duration);
    return !stop.stop_requested();
  }

  std::vector<absl::Duration> taken() const {
    MutexLock lock(&mutex_);
    return taken_;
  }

 private:
  ManualClock& clock_;
  mutable Mutex mutex_;
  mutable std::vector<absl::Duration> taken_ ABSL_GUARDED_BY(mutex_);
};

// Credentials that count how often they were refused: "AKID0", "AKID1", ...
class CountedCredentials final : public CredentialSource {
 public:
  absl::StatusOr<Credentials> Get(const std::stop_token& /*stop*/) override {
    return Credentials{.access_key_id = absl::StrCat("AKID", refused_), .secret_access_key = "secret"};
  }
  void Refused(const Credentials& /*credentials*/) override { ++refused_; }
  int refused() const { return refused_; }

 private:
  int refused_ = 0;
};

class AwsTest : public ::testing::Test {
 protected:
  // Answers these one after the other, the last one for good; the server's thread calls them.
  void ServeInTurn(std::vector<TestServer::Handler> answers) {
    server_ = std::make_unique<TestServer>([this, answers = std::move(answers)](Exchange& exchange) {
      size_t turn = 0;
      {
        MutexLock lock(&mutex_);
        turn = requests_.size();
        requests_.push_back(exchange.request());
      }
      answers[std::min(turn, answers.size() - 1)](exchange);
    });
  }
  std::vector<ServedRequest> requests() {
    MutexLock lock(&mutex_);
    return requests_;
  }

  static TestServer::Handler Answers(int status, std::string body, std::vector<std::string> headers = {}) {
    return [=](Exchange& exchange) { exchange.Answer(status, body, headers); };
  }
  static TestServer::Handler Cuts() {
    return [](Exchange& exchange) { exchange.Cut(); };
  }
  static TestServer::Handler Fails(int status, const std::string& code) {
    return Answers(status, absl::StrCat("<Response><Errors><Error><Code>", code,
                                        "</Code><Message>so it is</Message></Error></Errors></Response>"));
  }

  World MakeWorld() {
    return {&http_, &credentials_, &clock_, &pauses_, [] { return 1.0; }};
  }

  ManualClock clock_;
  ManualPauses pauses_{&clock_};
  CountedCredentials credentials_;
  HttpClient http_;
  std::unique_ptr<TestServer> server_;

 private:
  Mutex mutex_;
  std::vector<ServedRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::aws

#endif  // ADAPTDL_TESTS_LIBS_AWS_AWS_FIXTURE_H_
