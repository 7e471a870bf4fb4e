// A user who watches the jobs of one namespace. Thread-safe; lives to the end of the process.

#ifndef ADAPTDL_BENCH_LOAD_WATCHER_H_
#define ADAPTDL_BENCH_LOAD_WATCHER_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "bench/load/crowd.h"
#include "grpcpp/support/client_callback.h"

namespace adaptdl::load {

class Watcher final : public grpc::ClientReadReactor<v1::WatchJobsResponse> {
 public:
  Watcher(Crowd* crowd, const std::string& name_space)
      : crowd_(crowd), stub_(v1::JobService::NewStub(crowd->connect(Caller::kUser))) {
    if (!crowd->user_token.empty()) {
      context_.AddMetadata("authorization", absl::StrCat("Bearer ", crowd->user_token));
    }
    request_.set_namespace_(name_space);
    request_.set_batch(true);
    stub_->async()->WatchJobs(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++crowd_->watched_messages;
    crowd_->watched_jobs += 1 + response_.more_size();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    if (crowd_->ending) return;
    ++crowd_->dropped;
    std::fprintf(stderr, "a watcher's stream ended: %s\n", status.error_message().c_str());
  }

 private:
  Crowd* const crowd_;
  const std::unique_ptr<v1::JobService::Stub> stub_;
  grpc::ClientContext context_;
  v1::WatchJobsRequest request_;
  v1::WatchJobsResponse response_;
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_WATCHER_H_
