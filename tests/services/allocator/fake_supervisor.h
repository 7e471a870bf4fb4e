// A supervisor's SchedulingService on a real port, with a cluster that a test edits. Thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_ALLOCATOR_FAKE_SUPERVISOR_H_
#define ADAPTDL_TESTS_SERVICES_ALLOCATOR_FAKE_SUPERVISOR_H_

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "libs/base/mutex.h"

namespace adaptdl::allocator {

class FakeSupervisor final : public v1::SchedulingService::Service {
 public:
  FakeSupervisor() {
    cluster_.set_version(1);
    Listen("127.0.0.1:0");
  }
  ~FakeSupervisor() override { Close(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Changes the cluster; the version grows unless only hints changed.
  void Edit(const std::function<void(v1::ClusterSnapshot*)>& edit, bool grow = true) {
    MutexLock lock(&mutex_);
    edit(&cluster_);
    if (grow) cluster_.set_version(cluster_.version() + 1);
    ++edits_;
    changed_.SignalAll();
  }

  // Whether the cluster comes to be so within a generous time.
  bool WaitUntil(const std::function<bool(const v1::ClusterSnapshot&)>& reached) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    MutexLock lock(&mutex_);
    while (!reached(cluster_)) {
      if (absl::Now() > end) return false;
      changed_.WaitFor(&mutex_, absl::Milliseconds(200));
    }
    return true;
  }

  bool WaitForApplies(int count) {
    return WaitUntil([&](const v1::ClusterSnapshot&)
                         ABSL_NO_THREAD_SAFETY_ANALYSIS { return applies_ >= count; });
  }

  v1::ClusterSnapshot cluster() {
    MutexLock lock(&mutex_);
    return cluster_;
  }

  // Before the next so many ApplyAllocations are looked at, the cluster changes: they conflict.
  void ConflictNext(int times) {
    MutexLock lock(&mutex_);
    conflicts_ = times;
  }
  // Allocations of this job are refused.
  void Refuse(const std::string& uid) {
    MutexLock lock(&mutex_);
    refused_.insert(uid);
  }
  int applies() {
    MutexLock lock(&mutex_);
    return applies_;
  }
  int conflicts_seen() {
    MutexLock lock(&mutex_);
    return conflicts_seen_;
  }

  // From now on `holder` has the lease; empty: whoever asks. Before that it knows no leases.
  void LeaseTo(const std::string& holder, int64_t term) {
    MutexLock lock(&mutex_);
    holder_ = holder;
    lease_term_ = term;
  }

  // A crash and a restart on the same port.
  void Close() {
    {
      MutexLock lock(&mutex_);
      closing_ = true;
      changed_.SignalAll();
    }
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_ = nullptr;
  }
  void Reopen() {
    {
      MutexLock lock(&mutex_);
      closing_ = false;
    }
    Listen(address());
  }

  grpc::Status WatchCluster(grpc::ServerContext* context, const v1::WatchClusterRequest*,
                            grpc::ServerWriter<v1::WatchClusterResponse>* writer) override {
    int sent = -1;
    for (;;) {
      v1::WatchClusterResponse response;
      {
        MutexLock lock(&mutex_);
        while (!closing_ && sent == edits_ && !context->IsCancelled()) {
          changed_.WaitFor(&mutex_, absl::Milliseconds(50));
        }
        if (closing_ || context->IsCancelled()) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "over");
        sent = edits_;
        *response.mutable_snapshot() = cluster_;
      }
      if (!writer->Write(response)) return grpc::Status::CANCELLED;
    }
  }

  grpc::Status AcquireLease(grpc::ServerContext*, const v1::AcquireLeaseRequest* request,
                            v1::AcquireLeaseResponse* response) override {
    MutexLock lock(&mutex_);
    if (lease_term_ == 0) return {grpc::StatusCode::UNIMPLEMENTED, "an older version"};
    response->set_granted(holder_.empty() || holder_ == request->holder());
    response->set_lease_term(response->granted() ? lease_term_ : 0);
    response->set_holder(response->granted() ? request->holder() : holder_);
    response->mutable_duration()->set_nanos(30'000'000);
    return grpc::Status::OK;
  }

  grpc::Status ApplyAllocations(grpc::ServerContext*, const v1::ApplyAllocationsRequest* request,
                                v1::ApplyAllocationsResponse* response) override {
    MutexLock lock(&mutex_);
    if (request->lease_term() != lease_term_) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "another one decides"};
    }
    ++applies_;
    if (conflicts_ > 0) {
      --conflicts_;
      cluster_.set_version(cluster_.version() + 1);
      ++edits_;
      changed_.SignalAll();
    }
    if (request->request_id().empty()) return {grpc::StatusCode::INVALID_ARGUMENT, "no request_id"};
    if (request->snapshot_version() != cluster_.version()) {
      ++conflicts_seen_;
      return {grpc::StatusCode::ABORTED, "the cluster changed"};
    }
    for (const v1::JobAllocation& allocation : request->allocations()) {
      if (refused_.count(allocation.job_uid()) > 0) return {grpc::StatusCode::INVALID_ARGUMENT, "refused"};
    }
    for (const v1::JobAllocation& allocation : request->allocations()) {
      for (v1::Job& job : *cluster_.mutable_jobs()) {
        if (job.uid() != allocation.job_uid()) continue;
        *job.mutable_status()->mutable_desired_allocation() = allocation.node_ids();
        job.mutable_status()->set_allocation_reason(allocation.reason());
        *job.mutable_status()->mutable_allocation_explanation() = allocation.explanation();
      }
    }
    cluster_.set_version(cluster_.version() + 1);
    ++edits_;
    response->set_snapshot_version(cluster_.version());
    changed_.SignalAll();
    return grpc::Status::OK;
  }

 private:
  void Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  Mutex mutex_;
  CondVar changed_;
  v1::ClusterSnapshot cluster_ ABSL_GUARDED_BY(mutex_);
  int edits_ ABSL_GUARDED_BY(mutex_) = 0;
  int applies_ ABSL_GUARDED_BY(mutex_) = 0;
  int conflicts_ ABSL_GUARDED_BY(mutex_) = 0;
  int conflicts_seen_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> refused_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string holder_ ABSL_GUARDED_BY(mutex_);
  int64_t lease_term_ ABSL_GUARDED_BY(mutex_) = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_TESTS_SERVICES_ALLOCATOR_FAKE_SUPERVISOR_H_
