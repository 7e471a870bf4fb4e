// The metadata service of a cloud, for tests: answers what it is told to, to those who ask as the cloud wants it: AWS a
// token, Google and Azure a header. One server may play it for many machines, each below a path of its own.
//
//   FakeMetadata metadata;
//   metadata.Set("/node-0/latest/meta-data/instance-id", "i-0");
//   ... --instance-metadata=aws --instance-metadata-url=metadata.url() + "/node-0"
//
// What was not set is answered by 404. Thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_NOTICES_FAKE_METADATA_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_NOTICES_FAKE_METADATA_H_

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::worker {

class FakeMetadata {
 public:
  std::string url() const { return server_.url(); }

  void Set(const std::string& path, const std::string& body, int status = 200) {
    MutexLock lock(&mutex_);
    answers_[path] = {status, body};
  }
  // Takes the question and never answers.
  void Hang(const std::string& path) { Set(path, "", kHang); }
  // Tokens that were given do not count any more.
  void ForgetTokens() {
    MutexLock lock(&mutex_);
    ++token_;
  }
  // "GET /path" of all that were asked, in order.
  std::vector<std::string> Asked() {
    MutexLock lock(&mutex_);
    return asked_;
  }
  int TimesAsked(const std::string& what) {
    const std::vector<std::string> asked = Asked();
    return static_cast<int>(std::count(asked.begin(), asked.end(), what));
  }

  // AWS's notice that a spot instance ends at `time`, below `prefix`.
  void TakeAwsInstance(const std::string& prefix, absl::Time time) {
    Set(prefix + "/latest/meta-data/spot/instance-action",
        absl::StrCat(R"({"action": "terminate", "time": ")",
                     absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone()), R"("})"));
  }

 private:
  static constexpr int kHang = -1;
  struct Answer {
    int status = 404;
    std::string body;
  };

  static bool HasHeader(const ServedRequest& request, const std::string& name, const std::string& value) {
    const auto found = request.headers.find(name);
    return found != request.headers.end() && found->second == value;
  }

  Answer AnswerTo(const ServedRequest& request) {
    const std::string path = request.Path();
    MutexLock lock(&mutex_);
    asked_.push_back(absl::StrCat(request.method, " ", path));
    const std::string token = absl::StrCat("token-", token_);
    if (absl::EndsWith(path, "/latest/api/token")) {
      const bool valid =
          request.method == "PUT" && request.headers.count("x-aws-ec2-metadata-token-ttl-seconds") > 0;
      const auto set = answers_.find(path);
      if (set != answers_.end()) return set->second;
      return valid ? Answer{200, token} : Answer{400, ""};
    }
    if (absl::StrContains(path, "/latest/") && !HasHeader(request, "x-aws-ec2-metadata-token", token))
      return {401, ""};
    if (absl::StrContains(path, "/computeMetadata/") && !HasHeader(request, "metadata-flavor", "Google")) {
      return {403, ""};
    }
    const bool azure = absl::StrContains(path, "/metadata/");
    if (azure && (!HasHeader(request, "metadata", "true") || request.Argument("api-version").empty()))
      return {400, ""};
    const auto found = answers_.find(path);
    return found == answers_.end() ? Answer() : found->second;
  }

  void Serve(Exchange& exchange) {
    const Answer answer = AnswerTo(exchange.request());
    if (answer.status == kHang) {
      exchange.AwaitClosed();
    } else {
      exchange.Answer(answer.status, answer.body);
    }
  }

  Mutex mutex_;
  std::map<std::string, Answer> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  int token_ ABSL_GUARDED_BY(mutex_) = 0;
  TestServer server_{[this](Exchange& exchange) { Serve(exchange); }};
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_NOTICES_FAKE_METADATA_H_
