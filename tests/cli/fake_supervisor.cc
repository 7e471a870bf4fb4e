#include "tests/cli/fake_supervisor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace adaptdl::cli {
namespace {

constexpr int kEventsPerPage = 2;

grpc::Status NoSuchJob(const std::string& name) {
  return {grpc::StatusCode::NOT_FOUND, absl::StrCat("job ", name, " does not exist")};
}

bool IsFinal(const v1::Job& job) { return job.status().has_completion_time(); }

}  // namespace

FakeSupervisor::FakeSupervisor() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(static_cast<v1::JobService::Service*>(this));
  builder.RegisterService(static_cast<v1::NodeService::Service*>(this));
  builder.RegisterService(static_cast<v1::NodePoolService::Service*>(this));
  builder.RegisterService(static_cast<v1::QuotaService::Service*>(this));
  builder.RegisterService(&code_);
  builder.RegisterService(&history_);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeSupervisor::~FakeSupervisor() {
  server_->Shutdown();
  server_->Wait();
}

void FakeSupervisor::AddJob(const v1::Job& job) {
  MutexLock lock(&mutex_);
  jobs_.push_back(job);
}

void FakeSupervisor::AddEvent(const v1::Event& event) {
  MutexLock lock(&mutex_);
  events_.push_back(event);
}

void FakeSupervisor::AddNode(const v1::Node& node) {
  MutexLock lock(&mutex_);
  nodes_.push_back(node);
}

void FakeSupervisor::SetPools(const v1::GetNodePoolsResponse& pools) {
  MutexLock lock(&mutex_);
  pools_ = pools;
}

void FakeSupervisor::SetCosts(const v1::GetCostsResponse& costs) {
  MutexLock lock(&mutex_);
  costs_ = costs;
}

v1::GetCostsRequest FakeSupervisor::last_costs_request() const {
  MutexLock lock(&mutex_);
  return costs_request_;
}

grpc::Status FakeSupervisor::GetNodePools(grpc::ServerContext*, const v1::GetNodePoolsRequest* request,
                                          v1::GetNodePoolsResponse* response) {
  MutexLock lock(&mutex_);
  *response = pools_;
  if (request->events() == 0) response->clear_events();
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::GetCosts(grpc::ServerContext*, const v1::GetCostsRequest* request,
                                      v1::GetCostsResponse* response) {
  MutexLock lock(&mutex_);
  costs_request_ = *request;
  *response = costs_;
  return grpc::Status::OK;
}

void FakeSupervisor::AddLogs(const v1::StreamLogsResponse& response) {
  MutexLock lock(&mutex_);
  logs_.push_back(response);
}

void FakeSupervisor::AddChunk(const v1::FileChunk& chunk) {
  MutexLock lock(&mutex_);
  chunks_.push_back(chunk);
}

void FakeSupervisor::FailNext(int count) {
  MutexLock lock(&mutex_);
  failures_ = count;
}

void FakeSupervisor::BreakNextLogs() {
  MutexLock lock(&mutex_);
  break_logs_ = true;
}

std::vector<v1::SubmitJobRequest> FakeSupervisor::submissions() const {
  MutexLock lock(&mutex_);
  return submissions_;
}

std::vector<v1::UpdateJobRequest> FakeSupervisor::updates() const {
  MutexLock lock(&mutex_);
  return updates_;
}

std::vector<v1::CancelJobRequest> FakeSupervisor::cancellations() const {
  MutexLock lock(&mutex_);
  return cancellations_;
}

void FakeSupervisor::LetJobsWaitUntilWatched(const std::string& why) {
  MutexLock lock(&mutex_);
  wait_reason_ = why;
}

v1::StreamLogsRequest FakeSupervisor::last_logs_request() const {
  MutexLock lock(&mutex_);
  return logs_request_;
}

v1::ReadFilesRequest FakeSupervisor::last_files_request() const {
  MutexLock lock(&mutex_);
  return files_request_;
}

grpc::Status FakeSupervisor::Injected() {
  if (failures_ == 0) return grpc::Status::OK;
  --failures_;
  return {grpc::StatusCode::UNAVAILABLE, "injected"};
}

v1::Job* FakeSupervisor::Find(const std::string& name_space, const std::string& name) {
  const std::string wanted = name_space.empty() ? "default" : name_space;
  const auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const v1::Job& candidate) {
    return candidate.name() == name && candidate.namespace_() == wanted;
  });
  return job == jobs_.end() ? nullptr : &*job;
}

grpc::Status FakeSupervisor::SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                                       v1::SubmitJobResponse* response) {
  MutexLock lock(&mutex_);
  submissions_.push_back(*request);
  const grpc::Status injected = Injected();
  if (!injected.ok()) return injected;
  v1::Job job = request->job();
  if (job.namespace_().empty()) job.set_namespace_("default");
  if (job.name().empty()) job.set_name(request->generate_name() + "x7k2p");
  if (Find(job.namespace_(), job.name()) != nullptr) {
    return {grpc::StatusCode::ALREADY_EXISTS, absl::StrCat("job.name ", job.name(), " is taken")};
  }
  job.set_uid("0123456789abcdef");
  job.mutable_status()->set_phase(v1::JOB_PHASE_PENDING);
  job.mutable_status()->set_message(wait_reason_);
  jobs_.push_back(job);
  *response->mutable_job() = job;
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                    v1::GetJobResponse* response) {
  MutexLock lock(&mutex_);
  const grpc::Status injected = Injected();
  if (!injected.ok()) return injected;
  const v1::Job* job = Find(request->namespace_(), request->name());
  if (job == nullptr) return NoSuchJob(request->name());
  *response->mutable_job() = *job;
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* response) {
  MutexLock lock(&mutex_);
  const grpc::Status injected = Injected();
  if (!injected.ok()) return injected;
  const std::string wanted = request->namespace_().empty() ? "default" : request->namespace_();
  for (const v1::Job& job : jobs_) {
    const auto& phases = request->phases();
    bool matches = wanted == "*" || job.namespace_() == wanted;
    matches = matches && (phases.empty() ||
                          std::find(phases.begin(), phases.end(), job.status().phase()) != phases.end());
    for (const auto& [key, value] : request->labels()) {
      matches = matches && job.labels().contains(key) && job.labels().at(key) == value;
    }
    if (matches) *response->add_jobs() = job;
  }
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::WatchJobs(grpc::ServerContext* context, const v1::WatchJobsRequest* request,
                                       grpc::ServerWriter<v1::WatchJobsResponse>* writer) {
  bool done = false;
  {
    MutexLock lock(&mutex_);
    const v1::Job* job = Find(request->namespace_(), request->name());
    if (job == nullptr) return NoSuchJob(request->name());
    v1::WatchJobsResponse response;
    *response.mutable_job() = *job;
    done = IsFinal(*job);
    writer->Write(response);
    is_watched_ = true;
    changed_.SignalAll();
  }
  // Little changes by itself here: a watch of an unfinished job mostly ends by the client's deadline.
  while (!done && !context->IsCancelled()) {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, absl::Milliseconds(10));
    const v1::Job* job = Find(request->namespace_(), request->name());
    if (job == nullptr || !IsFinal(*job)) continue;
    v1::WatchJobsResponse response;
    *response.mutable_job() = *job;
    writer->Write(response);
    done = true;
  }
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest* request,
                                       v1::UpdateJobResponse* response) {
  MutexLock lock(&mutex_);
  updates_.push_back(*request);
  v1::Job* job = Find(request->namespace_(), request->name());
  if (job == nullptr) return NoSuchJob(request->name());
  *response->mutable_job() = *job;
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                       v1::CancelJobResponse* response) {
  MutexLock lock(&mutex_);
  cancellations_.push_back(*request);
  const grpc::Status injected = Injected();
  if (!injected.ok()) return injected;
  v1::Job* job = Find(request->namespace_(), request->name());
  if (job == nullptr) return NoSuchJob(request->name());
  job->mutable_status()->set_phase(v1::JOB_PHASE_CANCELLED);
  job->mutable_status()->mutable_completion_time()->set_seconds(1'700'000'000);
  *response->mutable_job() = *job;
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                                       v1::DeleteJobResponse*) {
  MutexLock lock(&mutex_);
  const grpc::Status injected = Injected();
  if (!injected.ok()) return injected;
  const v1::Job* job = Find(request->namespace_(), request->name());
  if (job == nullptr) return NoSuchJob(request->name());
  if (!IsFinal(*job)) {
    return {grpc::StatusCode::FAILED_PRECONDITION, absl::StrCat("job ", job->name(), " has not finished")};
  }
  jobs_.erase(jobs_.begin() + (job - jobs_.data()));
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::StreamLogs(grpc::ServerContext*, const v1::StreamLogsRequest* request,
                                        grpc::ServerWriter<v1::StreamLogsResponse>* writer) {
  MutexLock lock(&mutex_);
  logs_request_ = *request;
  if (!wait_reason_.empty()) {
    while (!is_watched_) changed_.Wait(&mutex_);
    Find(request->namespace_(), request->name())->mutable_status()->set_phase(v1::JOB_PHASE_SUCCEEDED);
    changed_.SignalAll();
  }
  for (const v1::StreamLogsResponse& response : logs_) writer->Write(response);
  if (!std::exchange(break_logs_, false)) return grpc::Status::OK;
  return {grpc::StatusCode::UNAVAILABLE, "injected"};
}

grpc::Status FakeSupervisor::ListEvents(grpc::ServerContext*, const v1::ListEventsRequest* request,
                                        v1::ListEventsResponse* response) {
  MutexLock lock(&mutex_);
  int64_t after = request->after_id();
  if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &after)) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "page_token is none of this server's"};
  }
  for (const v1::Event& event : events_) {
    if (event.id() <= after) continue;
    if (!request->name().empty() && event.job() != request->name()) continue;
    if (response->events_size() == kEventsPerPage) {
      response->set_next_page_token(absl::StrCat(response->events(kEventsPerPage - 1).id()));
      break;
    }
    *response->add_events() = event;
  }
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::ReadFiles(grpc::ServerContext*, const v1::ReadFilesRequest* request,
                                       grpc::ServerWriter<v1::ReadFilesResponse>* writer) {
  MutexLock lock(&mutex_);
  files_request_ = *request;
  if (chunks_.empty()) return {grpc::StatusCode::NOT_FOUND, absl::StrCat(request->path(), " does not exist")};
  for (const v1::FileChunk& chunk : chunks_) {
    v1::ReadFilesResponse response;
    *response.mutable_chunk() = chunk;
    writer->Write(response);
  }
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                                       v1::ListNodesResponse* response) {
  MutexLock lock(&mutex_);
  for (const v1::Node& node : nodes_) *response->add_nodes() = node;
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::SetQuota(grpc::ServerContext*, const v1::SetQuotaRequest* request,
                                      v1::SetQuotaResponse* response) {
  MutexLock lock(&mutex_);
  v1::NamespaceQuota& quota = quotas_[request->namespace_()];
  quota.set_namespace_(request->namespace_());
  if (request->has_gpus()) quota.set_gpus(request->gpus());
  if (request->has_weight() || quota.weight() == 0) {
    quota.set_weight(request->has_weight() ? request->weight() : 1);
  }
  if (request->has_jobs()) quota.set_jobs(request->jobs());
  if (request->has_submissions_per_minute()) {
    quota.set_submissions_per_minute(request->submissions_per_minute());
  }
  *response->mutable_quota() = quota;
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::ListQuotas(grpc::ServerContext*, const v1::ListQuotasRequest*,
                                        v1::ListQuotasResponse* response) {
  MutexLock lock(&mutex_);
  for (const auto& [name, quota] : quotas_) *response->add_quotas() = quota;
  return grpc::Status::OK;
}

grpc::Status FakeSupervisor::RemoveQuota(grpc::ServerContext*, const v1::RemoveQuotaRequest* request,
                                         v1::RemoveQuotaResponse*) {
  MutexLock lock(&mutex_);
  if (quotas_.erase(request->namespace_()) > 0) return grpc::Status::OK;
  return {grpc::StatusCode::NOT_FOUND, absl::StrCat("namespace ", request->namespace_(), " has no quota")};
}

grpc::Status FakeSupervisor::DrainNode(grpc::ServerContext*, const v1::DrainNodeRequest* request,
                                       v1::DrainNodeResponse* response) {
  MutexLock lock(&mutex_);
  for (v1::Node& node : nodes_) {
    if (node.node_id() != request->node_id()) continue;
    node.mutable_status()->set_phase(v1::NODE_PHASE_DRAINING);
    *response->mutable_node() = node;
    return grpc::Status::OK;
  }
  return {grpc::StatusCode::NOT_FOUND, absl::StrCat("node ", request->node_id(), " does not exist")};
}

grpc::Status FakeSupervisor::RemoveNode(grpc::ServerContext*, const v1::RemoveNodeRequest* request,
                                        v1::RemoveNodeResponse*) {
  MutexLock lock(&mutex_);
  for (auto it = nodes_.begin(); it != nodes_.end(); ++it) {
    if (it->node_id() != request->node_id()) continue;
    if (it->status().phase() == v1::NODE_PHASE_READY) {
      return {grpc::StatusCode::FAILED_PRECONDITION,
              "node " + request->node_id() + " is ready; drain it first"};
    }
    nodes_.erase(it);
    return grpc::Status::OK;
  }
  return {grpc::StatusCode::NOT_FOUND, absl::StrCat("node ", request->node_id(), " does not exist")};
}

}  // namespace adaptdl::cli
