#include "services/supervisor/jobs/job_service.h"

#include <memory>
#include <string>
#include <utility>

#include "libs/rpc/status.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/jobs/watch_stream.h"
#include "services/supervisor/logs/file_stream.h"
#include "services/supervisor/logs/log_stream.h"

namespace adaptdl::supervisor {

absl::StatusOr<v1::Job> JobServiceImpl::FindJob(const grpc::CallbackServerContext& context,
                                                const std::string& name_space,
                                                const std::string& name) const {
  const absl::Status status = guard_->CheckNamespace(context, name_space);
  return status.ok() ? jobs_->GetJob(name_space, name) : status;
}

void JobServiceImpl::Keep(const std::shared_ptr<EndableStream>& stream,
                          const grpc::CallbackServerContext& context, const std::string& name_space) const {
  if (guard_->open()) {
    streams_->Add(stream);
    return;
  }
  streams_->Add(stream, [guard = guard_, credentials = security::CredentialsOf(context), name_space] {
    return guard->CheckNamespace(credentials, name_space);
  });
}

absl::Status JobServiceImpl::AdmitCall(const grpc::CallbackServerContext& context,
                                       const std::string& name_space) const {
  const absl::Status status = guard_->CheckNamespace(context, name_space);
  return status.ok() ? admission_->Call(Admission::CallerOf(context, *guard_)) : status;
}

absl::Status JobServiceImpl::AdmitChange(const grpc::CallbackServerContext& context,
                                         const std::string& name_space) const {
  const absl::Status status = guard_->CheckNamespace(context, name_space);
  return status.ok() ? admission_->Change(Admission::CallerOf(context, *guard_), lanes_->changes->waiting())
                     : status;
}

template <typename Stream>
absl::Status JobServiceImpl::AdmitStream(const grpc::CallbackServerContext& context, Stream* stream) const {
  absl::StatusOr<std::shared_ptr<void>> place = admission_->Stream(Admission::CallerOf(context, *guard_));
  if (place.ok()) stream->Hold(*std::move(place));
  return place.status();
}

grpc::ServerUnaryReactor* JobServiceImpl::SubmitJob(grpc::CallbackServerContext* context,
                                                    const v1::SubmitJobRequest* request,
                                                    v1::SubmitJobResponse* response) {
  if (const absl::Status status = AdmitChange(*context, request->job().namespace_()); !status.ok())
    return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return jobs_->SubmitJob(*request, caller);
      },
      response);
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(grpc::CallbackServerContext* context,
                                                 const v1::GetJobRequest* request,
                                                 v1::GetJobResponse* response) {
  const absl::Status status = AdmitCall(*context, request->namespace_());
  if (!status.ok()) return Answer(context, status);
  const auto get = [this, request]() -> absl::StatusOr<v1::GetJobResponse> {
    absl::StatusOr<v1::Job> job = jobs_->GetJob(request->namespace_(), request->name());
    if (!job.ok()) return job.status();
    v1::GetJobResponse result;
    *result.mutable_job() = *std::move(job);
    return result;
  };
  return AnswerRead(lanes_, Admission::CallerOf(*context, *guard_), context, get, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(grpc::CallbackServerContext* context,
                                                   const v1::ListJobsRequest* request,
                                                   v1::ListJobsResponse* response) {
  if (const absl::Status status = AdmitCall(*context, request->namespace_()); !status.ok())
    return Answer(context, status);
  return AnswerRead(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request] { return jobs_->ListJobs(*request); }, response);
}

grpc::ServerWriteReactor<v1::WatchJobsResponse>* JobServiceImpl::WatchJobs(
    grpc::CallbackServerContext* context, const v1::WatchJobsRequest* request) {
  absl::Status status = guard_->CheckNamespace(*context, request->namespace_());
  auto stream =
      std::make_shared<WatchStream>(jobs_, lanes_, Admission::CallerOf(*context, *guard_), *request);
  if (status.ok()) status = AdmitStream(*context, stream.get());
  if (status.ok()) {
    hub_->Subscribe(std::static_pointer_cast<ChangeListener>(stream));
  } else {
    stream->End(rpc::ToGrpcStatus(status));
  }
  stream->Begin(stream);
  Keep(stream, *context, request->namespace_());
  return stream.get();
}

grpc::ServerUnaryReactor* JobServiceImpl::UpdateJob(grpc::CallbackServerContext* context,
                                                    const v1::UpdateJobRequest* request,
                                                    v1::UpdateJobResponse* response) {
  if (const absl::Status status = AdmitChange(*context, request->namespace_()); !status.ok())
    return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return jobs_->UpdateJob(*request, caller);
      },
      response);
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(grpc::CallbackServerContext* context,
                                                    const v1::CancelJobRequest* request,
                                                    v1::CancelJobResponse* response) {
  if (const absl::Status status = AdmitChange(*context, request->namespace_()); !status.ok())
    return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return jobs_->CancelJob(*request, caller);
      },
      response);
}

grpc::ServerUnaryReactor* JobServiceImpl::DeleteJob(grpc::CallbackServerContext* context,
                                                    const v1::DeleteJobRequest* request,
                                                    v1::DeleteJobResponse* response) {
  if (const absl::Status status = AdmitChange(*context, request->namespace_()); !status.ok())
    return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return jobs_->DeleteJob(*request, caller);
      },
      response);
}

grpc::ServerWriteReactor<v1::StreamLogsResponse>* JobServiceImpl::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) {
  const absl::StatusOr<v1::Job> job = FindJob(*context, request->namespace_(), request->name());
  absl::Status status = job.status();
  if (status.ok()) status = LogStream::Validate(*request);
  auto stream = std::make_shared<LogStream>(logs_, lanes_, Admission::CallerOf(*context, *guard_), workers_,
                                            job.ok() ? job->uid() : "", *request);
  if (status.ok()) status = AdmitStream(*context, stream.get());
  if (status.ok()) {
    hub_->SubscribeToJob(job->uid(), std::static_pointer_cast<ChangeListener>(stream));
  } else {
    stream->End(rpc::ToGrpcStatus(status));
  }
  stream->Begin(stream);
  Keep(stream, *context, request->namespace_());
  return stream.get();
}

grpc::ServerUnaryReactor* JobServiceImpl::ListEvents(grpc::CallbackServerContext* context,
                                                     const v1::ListEventsRequest* request,
                                                     v1::ListEventsResponse* response) {
  if (const absl::Status status = AdmitCall(*context, request->namespace_()); !status.ok())
    return Answer(context, status);
  return AnswerRead(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request] { return jobs_->ListEvents(*request); }, response);
}

grpc::ServerWriteReactor<v1::ReadFilesResponse>* JobServiceImpl::ReadFiles(
    grpc::CallbackServerContext* context, const v1::ReadFilesRequest* request) {
  const absl::StatusOr<v1::Job> job = FindJob(*context, request->namespace_(), request->name());
  absl::Status status = job.status();
  if (status.ok()) status = FileStream::Validate(*request);
  auto stream = std::make_shared<FileStream>(logs_, lanes_, Admission::CallerOf(*context, *guard_), workers_,
                                             job.ok() ? *job : v1::Job(), *request);
  if (status.ok()) status = AdmitStream(*context, stream.get());
  if (!status.ok()) stream->End(rpc::ToGrpcStatus(status));
  stream->Begin(stream);
  Keep(stream, *context, request->namespace_());
  return stream.get();
}

}  // namespace adaptdl::supervisor
