// HistoryService as a test tells it: before it says anything, that of a supervisor that has none. Thread-safe.

#ifndef ADAPTDL_TESTS_CLI_FAKE_HISTORY_SERVICE_H_
#define ADAPTDL_TESTS_CLI_FAKE_HISTORY_SERVICE_H_

#include <cstdlib>
#include <optional>
#include <string>

#include "adaptdl/v1/history_service.grpc.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::cli {

class FakeHistoryService final : public v1::HistoryService::Service {
 public:
  void SetHistory(const v1::GetJobHistoryResponse& history) {
    MutexLock lock(&mutex_);
    history_ = history;
  }
  void SetTimelines(const v1::ListTimelinesResponse& timelines) {
    MutexLock lock(&mutex_);
    timelines_ = timelines;
  }
  v1::GetJobHistoryRequest last_request() const {
    MutexLock lock(&mutex_);
    return request_;
  }

  grpc::Status GetJobHistory(grpc::ServerContext*, const v1::GetJobHistoryRequest* request,
                             v1::GetJobHistoryResponse* response) override {
    MutexLock lock(&mutex_);
    request_ = *request;
    if (!history_.has_value()) return {grpc::StatusCode::UNIMPLEMENTED, ""};
    *response = *history_;
    return grpc::Status::OK;
  }
  // One per page, so that pages are followed.
  grpc::Status ListTimelines(grpc::ServerContext*, const v1::ListTimelinesRequest* request,
                             v1::ListTimelinesResponse* response) override {
    MutexLock lock(&mutex_);
    if (!timelines_.has_value()) return {grpc::StatusCode::UNIMPLEMENTED, ""};
    const int page = std::atoi(request->page_token().c_str());
    if (page < timelines_->timelines_size()) *response->add_timelines() = timelines_->timelines(page);
    if (page + 1 < timelines_->timelines_size()) response->set_next_page_token(std::to_string(page + 1));
    return grpc::Status::OK;
  }

 private:
  mutable Mutex mutex_;
  std::optional<v1::GetJobHistoryResponse> history_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::ListTimelinesResponse> timelines_ ABSL_GUARDED_BY(mutex_);
  v1::GetJobHistoryRequest request_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_FAKE_HISTORY_SERVICE_H_
