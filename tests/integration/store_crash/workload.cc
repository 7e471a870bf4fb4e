#include "tests/integration/store_crash/workload.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/random_id.h"
#include "tests/integration/store_crash/call.h"

namespace adaptdl::integration {
namespace {

constexpr char kNode[] = "store-crash-node";

bool IsTerminal(v1::JobPhase phase) {
  return phase == v1::JOB_PHASE_SUCCEEDED || phase == v1::JOB_PHASE_FAILED ||
         phase == v1::JOB_PHASE_CANCELLED;
}

absl::Status Wrong(const v1::Job& job, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", job.ShortDebugString()));
}

}  // namespace

void Workload::Connect(const std::shared_ptr<grpc::Channel>& channel) {
  Disconnect();
  jobs_ = v1::JobService::NewStub(channel);
  nodes_ = v1::NodeService::NewStub(channel);
  scheduling_ = v1::SchedulingService::NewStub(channel);
}

void Workload::Disconnect() {
  if (stream_ == nullptr) return;
  context_->TryCancel();
  v1::ConnectResponse ignored;
  while (stream_->Read(&ignored)) {
  }
  stream_->Finish();
  stream_ = nullptr;
}

absl::Status Workload::Operate() {
  absl::Status status = stream_ == nullptr ? OpenStream() : absl::OkStatus();
  if (status.ok()) {
    switch (stage_) {
      case Stage::kNew:
        status = Submit();
        break;
      case Stage::kSubmitted:
        status = Allocate();
        break;
      case Stage::kAllocated:
        status = Work();
        break;
    }
  }
  if (IsUnanswered(status)) return absl::UnavailableError(status.message());
  return status.ok() ? status : absl::FailedPreconditionError(status.ToString());
}

absl::Status Workload::OpenStream() {
  v1::RegisterNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.mutable_node()->set_node_id(kNode);
  request.mutable_node()->set_worker_address("127.0.0.1:1");
  request.mutable_node()->set_replica_host("127.0.0.1");
  request.mutable_node()->mutable_capacity()->set_cpu_millis(4000);
  v1::RegisterNodeResponse response;
  const absl::Status status = Call(nodes_.get(), &v1::NodeService::Stub::RegisterNode, request, &response);
  if (!status.ok()) return status;
  context_ = std::make_unique<grpc::ClientContext>();
  rpc::SetTimeout(context_.get(), absl::Minutes(1));
  stream_ = nodes_->Connect(context_.get());
  v1::ConnectRequest hello;
  hello.mutable_hello()->set_node_id(kNode);
  hello.mutable_hello()->set_session_id(response.session_id());
  for (const auto& [id, report] : replicas_) *hello.mutable_hello()->add_replicas() = report;
  stream_->Write(hello);
  return absl::OkStatus();
}

absl::Status Workload::Submit() {
  if (request_id_.empty()) {
    request_id_ = RandomHex(16);
    job_.Clear();
    job_.set_name(absl::StrCat("work-", number_++));
    ended_ = false;
  }
  v1::SubmitJobRequest request;
  request.set_request_id(request_id_);
  request.mutable_job()->set_namespace_(namespace_);
  request.mutable_job()->set_name(job_.name());
  request.mutable_job()->mutable_spec()->set_max_restarts(0);
  request.mutable_job()->mutable_spec()->mutable_template_()->add_command("train");
  v1::SubmitJobResponse response;
  const absl::Status status = Call(jobs_.get(), &v1::JobService::Stub::SubmitJob, request, &response);
  if (!status.ok()) return status;
  job_ = response.job();
  request_id_.clear();
  stage_ = Stage::kSubmitted;
  return absl::OkStatus();
}

absl::StatusOr<v1::ClusterSnapshot> Workload::Snapshot() {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, absl::Seconds(20));
  const auto stream = scheduling_->WatchCluster(&context, v1::WatchClusterRequest());
  v1::WatchClusterResponse response;
  if (!stream->Read(&response)) return rpc::FromGrpcStatus(stream->Finish());
  v1::ClusterSnapshot snapshot = response.snapshot();
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  stream->Finish();
  return snapshot;
}

absl::Status Workload::Allocate() {
  // An id stands for one content: what is asked again is the same to the last bit.
  if (!allocation_.has_value()) {
    const absl::StatusOr<v1::ClusterSnapshot> snapshot = Snapshot();
    if (!snapshot.ok()) return snapshot.status();
    v1::ApplyAllocationsRequest& request = allocation_.emplace();
    request.set_request_id(RandomHex(16));
    request.set_snapshot_version(snapshot->version());
    v1::JobAllocation* allocation = request.add_allocations();
    allocation->set_namespace_(namespace_);
    allocation->set_name(job_.name());
    allocation->set_job_uid(job_.uid());
    allocation->add_node_ids(kNode);
  }
  v1::ApplyAllocationsResponse response;
  const absl::Status status =
      Call(scheduling_.get(), &v1::SchedulingService::Stub::ApplyAllocations, *allocation_, &response);
  if (status.ok() || absl::IsAborted(status)) allocation_.reset();
  if (absl::IsAborted(status)) return absl::OkStatus();  // Others changed the cluster: anew.
  if (!status.ok()) return status;
  stage_ = Stage::kAllocated;
  return absl::OkStatus();
}

void Workload::Report(const v1::ReplicaReport& report) {
  v1::ConnectRequest request;
  *request.mutable_replica_report() = report;
  stream_->Write(request);
}

absl::Status Workload::Work() {
  v1::ConnectResponse command;
  if (!stream_->Read(&command)) {
    const absl::Status status = rpc::FromGrpcStatus(stream_->Finish());
    stream_ = nullptr;
    return absl::IsAborted(status) ? absl::OkStatus() : absl::UnavailableError(status.message());
  }
  if (command.has_launch()) {
    const v1::LaunchReplica& launch = command.launch();
    // One allocated while the stream began is launched twice: by the allocation, and by the hello.
    if (const auto known = replicas_.find(launch.replica_id()); known != replicas_.end()) {
      Report(known->second);
      return absl::OkStatus();
    }
    v1::ReplicaReport& report = replicas_[launch.replica_id()];
    report.set_namespace_(launch.namespace_());
    report.set_job(launch.job());
    report.set_job_uid(launch.job_uid());
    v1::Replica* replica = report.mutable_replica();
    replica->set_replica_id(launch.replica_id());
    replica->set_group(launch.group());
    replica->set_rank(launch.rank());
    replica->set_state(v1::REPLICA_STATE_RUNNING);
    Report(report);
    replica->set_state(v1::REPLICA_STATE_EXITED);
    replica->set_exit_code(static_cast<int>(random_() % 2));
    ended_ = true;
    Report(report);
  }
  if (command.has_acknowledge()) {
    const auto replica = replicas_.find(command.acknowledge().replica_id());
    if (replica == replicas_.end()) return absl::OkStatus();
    finished_[replica->second.job()] = replica->second.replica().exit_code();
    replicas_.erase(replica);
    stage_ = Stage::kNew;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> Workload::Get(const std::string& name) {
  v1::GetJobRequest request;
  request.set_namespace_(namespace_);
  request.set_name(name);
  v1::GetJobResponse response;
  const absl::Status status = Call(jobs_.get(), &v1::JobService::Stub::GetJob, request, &response);
  if (!status.ok()) return absl::FailedPreconditionError(absl::StrCat(name, ": ", status.ToString()));
  return response.job();
}

absl::Status Workload::Check() {
  for (const auto& [name, code] : finished_) {
    const absl::StatusOr<v1::Job> job = Get(name);
    if (!job.ok()) return job.status();
    const v1::JobPhase expected = code == 0 ? v1::JOB_PHASE_SUCCEEDED : v1::JOB_PHASE_FAILED;
    if (job->status().phase() != expected) return Wrong(*job, absl::StrCat("exited with ", code));
  }
  if (stage_ == Stage::kNew) return absl::OkStatus();
  const absl::StatusOr<v1::Job> job = Get(job_.name());
  if (!job.ok()) return job.status();
  if (job->uid() != job_.uid()) return Wrong(*job, absl::StrCat("had the uid ", job_.uid()));
  if (stage_ == Stage::kAllocated && job->status().group() < 1) return Wrong(*job, "was allocated");
  if (!ended_ && IsTerminal(job->status().phase())) return Wrong(*job, "no replica has ended");
  return absl::OkStatus();
}

}  // namespace adaptdl::integration
