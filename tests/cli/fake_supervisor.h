// A supervisor that knows what a test tells it, on a free port. Thread-safe.

#ifndef ADAPTDL_TESTS_CLI_FAKE_SUPERVISOR_H_
#define ADAPTDL_TESTS_CLI_FAKE_SUPERVISOR_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "adaptdl/v1/quota_service.grpc.pb.h"
#include "grpcpp/server.h"
#include "libs/base/mutex.h"
#include "tests/cli/fake_code_service.h"
#include "tests/cli/fake_history_service.h"

namespace adaptdl::cli {

class FakeSupervisor final : public v1::JobService::Service,
                             public v1::NodeService::Service,
                             public v1::NodePoolService::Service,
                             public v1::QuotaService::Service {
 public:
  FakeSupervisor();
  ~FakeSupervisor() override;

  const std::string& address() const { return address_; }

  void AddJob(const v1::Job& job);
  void AddEvent(const v1::Event& event);
  void AddNode(const v1::Node& node);
  // What GetNodePools and GetCosts answer.
  void SetPools(const v1::GetNodePoolsResponse& pools);
  void SetCosts(const v1::GetCostsResponse& costs);
  // What StreamLogs and ReadFiles send.
  void AddLogs(const v1::StreamLogsResponse& response);
  void AddChunk(const v1::FileChunk& chunk);
  // The next `count` unary calls are answered UNAVAILABLE after they have been noted.
  void FailNext(int count);
  // The archives that were uploaded.
  FakeCodeService& code() { return code_; }
  FakeHistoryService& history() { return history_; }

  // The next StreamLogs ends with UNAVAILABLE after all has been sent.
  void BreakNextLogs();

  // What SubmitJob says that the job waits for. The next StreamLogs then ends the job, once somebody watches it.
  void LetJobsWaitUntilWatched(const std::string& why);

  // Submissions and cancellations received, repeated ones too.
  std::vector<v1::SubmitJobRequest> submissions() const;
  std::vector<v1::UpdateJobRequest> updates() const;
  std::vector<v1::CancelJobRequest> cancellations() const;
  v1::StreamLogsRequest last_logs_request() const;
  v1::ReadFilesRequest last_files_request() const;
  v1::GetCostsRequest last_costs_request() const;

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::SubmitJobResponse*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobResponse*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse*) override;
  grpc::Status WatchJobs(grpc::ServerContext*, const v1::WatchJobsRequest*,
                         grpc::ServerWriter<v1::WatchJobsResponse>*) override;
  // The job is cancelled at once.
  grpc::Status UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest*, v1::UpdateJobResponse*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::CancelJobResponse*) override;
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest*, v1::DeleteJobResponse*) override;
  grpc::Status StreamLogs(grpc::ServerContext*, const v1::StreamLogsRequest*,
                          grpc::ServerWriter<v1::StreamLogsResponse>*) override;
  // Two events per page, so that pages are followed.
  grpc::Status ListEvents(grpc::ServerContext*, const v1::ListEventsRequest*,
                          v1::ListEventsResponse*) override;
  grpc::Status ReadFiles(grpc::ServerContext*, const v1::ReadFilesRequest*,
                         grpc::ServerWriter<v1::ReadFilesResponse>*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*, v1::ListNodesResponse*) override;
  grpc::Status DrainNode(grpc::ServerContext*, const v1::DrainNodeRequest*, v1::DrainNodeResponse*) override;
  grpc::Status RemoveNode(grpc::ServerContext*, const v1::RemoveNodeRequest*,
                          v1::RemoveNodeResponse*) override;

  grpc::Status GetNodePools(grpc::ServerContext*, const v1::GetNodePoolsRequest*,
                            v1::GetNodePoolsResponse*) override;
  grpc::Status GetCosts(grpc::ServerContext*, const v1::GetCostsRequest*, v1::GetCostsResponse*) override;

  grpc::Status SetQuota(grpc::ServerContext*, const v1::SetQuotaRequest*, v1::SetQuotaResponse*) override;
  grpc::Status ListQuotas(grpc::ServerContext*, const v1::ListQuotasRequest*,
                          v1::ListQuotasResponse*) override;
  grpc::Status RemoveQuota(grpc::ServerContext*, const v1::RemoveQuotaRequest*,
                           v1::RemoveQuotaResponse*) override;

 private:
  // UNAVAILABLE if the test asked for it.
  grpc::Status Injected() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::Job* Find(const std::string& name_space, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  FakeCodeService code_;
  FakeHistoryService history_;
  mutable Mutex mutex_;
  std::vector<v1::Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Event> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Node> nodes_ ABSL_GUARDED_BY(mutex_);
  v1::GetNodePoolsResponse pools_ ABSL_GUARDED_BY(mutex_);
  v1::GetCostsResponse costs_ ABSL_GUARDED_BY(mutex_);
  v1::GetCostsRequest costs_request_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::NamespaceQuota> quotas_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::StreamLogsResponse> logs_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::FileChunk> chunks_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SubmitJobRequest> submissions_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::UpdateJobRequest> updates_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::CancelJobRequest> cancellations_ ABSL_GUARDED_BY(mutex_);
  v1::StreamLogsRequest logs_request_ ABSL_GUARDED_BY(mutex_);
  v1::ReadFilesRequest files_request_ ABSL_GUARDED_BY(mutex_);
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
  bool break_logs_ ABSL_GUARDED_BY(mutex_) = false;
  std::string wait_reason_ ABSL_GUARDED_BY(mutex_);
  bool is_watched_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar changed_;

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_FAKE_SUPERVISOR_H_
