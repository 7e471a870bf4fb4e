// What submits jobs at a steady rate.

#ifndef ADAPTDL_BENCH_LOAD_SUBMITTER_H_
#define ADAPTDL_BENCH_LOAD_SUBMITTER_H_

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "bench/load/crowd.h"
#include "bench/load/latencies.h"
#include "grpcpp/grpcpp.h"
#include "libs/base/mutex.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"

namespace adaptdl::load {

// Submits jobs and remembers when, until they are launched.
class Submitter {
 public:
  explicit Submitter(Crowd* crowd) : crowd_(crowd) {
    for (int i = 0; i < 8; ++i) stubs_.push_back(v1::JobService::NewStub(crowd->connect(Caller::kUser)));
  }

  void Submit(const std::string& name, const std::string& name_space, int replicas) {
    auto call = std::make_shared<Call>();
    rpc::SetTimeout(&call->context, absl::Seconds(30));
    call->context.AddMetadata("authorization", absl::StrCat("Bearer ", crowd_->user_token));
    call->request.set_request_id(RandomHex(16));
    v1::Job* job = call->request.mutable_job();
    job->set_name(name);
    job->set_namespace_(name_space);
    job->mutable_spec()->set_min_replicas(replicas);
    job->mutable_spec()->set_max_replicas(replicas);
    job->mutable_spec()->set_preemptible(false);
    job->mutable_spec()->mutable_template_()->add_command("train");
    call->begin = absl::Now();
    {
      MutexLock lock(&mutex_);
      begins_[name] = call->begin;
    }
    stubs_[next_++ % stubs_.size()]->async()->SubmitJob(
        &call->context, &call->request, &call->response, [this, call](const grpc::Status& status) {
          answers.Add(absl::Now() - call->begin);
          if (status.ok()) return;
          ++crowd_->dropped;
          std::fprintf(stderr, "a submission failed: %s\n", status.error_message().c_str());
        });
  }

  void Launched(const std::string& name) {
    MutexLock lock(&mutex_);
    const auto it = begins_.find(name);
    if (it == begins_.end()) return;
    crowd_->launches.Add(absl::Now() - it->second);
    begins_.erase(it);
  }

  size_t waiting() {
    MutexLock lock(&mutex_);
    return begins_.size();
  }

  Latencies answers;

 private:
  struct Call {
    grpc::ClientContext context;
    v1::SubmitJobRequest request;
    v1::SubmitJobResponse response;
    absl::Time begin;
  };

  Crowd* const crowd_;
  std::vector<std::unique_ptr<v1::JobService::Stub>> stubs_;
  size_t next_ = 0;
  Mutex mutex_;
  std::map<std::string, absl::Time> begins_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_SUBMITTER_H_
