#include "services/supervisor/jobs/job_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/status.h"
#include "libs/tracing/context.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/jobs/watch_stream.h"
#include "services/supervisor/logs/file_stream.h"
#include "services/supervisor/logs/log_stream.h"

namespace adaptdl::supervisor {
namespace {

// Which trace the call is part of, if its caller says.
std::optional<tracing::Context> TraceOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(tracing::kTraceparent);
  if (found == context.client_metadata().end()) return std::nullopt;
  return tracing::Parse(absl::string_view(found->second.data(), found->second.size()));
}

}  // namespace

JobServiceImpl::Check JobServiceImpl::MayUse(const grpc::CallbackServerContext& context,
                                             absl::string_view method, const std::string& name_space) const {
  if (guard_->open()) return [] { return absl::OkStatus(); };
  return [guard = guard_, credentials = security::CredentialsOf(context),
          path = absl::StrCat("/", v1::JobService::service_full_name(), "/", method),
          name_space] { return guard->CheckNamespace(credentials, path, name_space); };
}

template <typename Call, typename Response>
grpc::ServerUnaryReactor* JobServiceImpl::Read(grpc::CallbackServerContext* context, absl::string_view method,
                                               const std::string& name_space, Call call, Response* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  if (const absl::Status status = admission_->Call(caller); !status.ok()) return Answer(context, status);
  const auto read = [check = MayUse(*context, method, name_space),
                     call = std::move(call)]() -> absl::StatusOr<Response> {
    if (const absl::Status status = check(); !status.ok()) return status;
    return call();
  };
  return AnswerRead(lanes_, caller, context, read, response);
}

template <typename Call, typename Response>
grpc::ServerUnaryReactor* JobServiceImpl::Change(grpc::CallbackServerContext* context,
                                                 absl::string_view method, const std::string& name_space,
                                                 Call call, Response* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  const absl::Status status = admission_->Change(caller, lanes_->changes->waiting());
  if (!status.ok()) return Answer(context, status);
  const auto change = [check = MayUse(*context, method, name_space), call = std::move(call),
                       identity = Admission::IdentityOf(*context, *guard_)]() -> absl::StatusOr<Response> {
    if (const absl::Status allowed = check(); !allowed.ok()) return allowed;
    return call(identity);
  };
  return AnswerChange(lanes_, caller, context, change, response);
}

template <typename Stream, typename... Parts>
std::shared_ptr<Stream> JobServiceImpl::MakeStream(const Check& check, const Parts&... parts) const {
  auto stream = std::make_shared<Stream>(parts...);
  stream->Require(check);
  return stream;
}

template <typename Stream>
Stream* JobServiceImpl::Serve(const grpc::CallbackServerContext& context, const Check& check,
                              absl::Status status, const std::shared_ptr<Stream>& stream) {
  if (status.ok()) {
    absl::StatusOr<std::shared_ptr<void>> place = admission_->Stream(Admission::CallerOf(context, *guard_));
    status = place.status();
    if (place.ok()) stream->Hold(*std::move(place));
  }
  if (!status.ok()) stream->End(rpc::ToGrpcStatus(status));
  stream->Begin(stream);
  streams_->Add(stream, guard_->open() ? nullptr : check);
  return stream.get();
}

grpc::ServerUnaryReactor* JobServiceImpl::SubmitJob(grpc::CallbackServerContext* context,
                                                    const v1::SubmitJobRequest* request,
                                                    v1::SubmitJobResponse* response) {
  const auto submit = [this, request, trace = tracer_ == nullptr ? std::nullopt : TraceOf(*context)](
                          const std::string& caller) {
    absl::StatusOr<v1::SubmitJobResponse> submitted = jobs_->SubmitJob(*request, caller);
    if (submitted.ok() && trace) tracer_->Begin(submitted->job().uid(), *trace);
    return submitted;
  };
  return Change(context, "SubmitJob", request->job().namespace_(), submit, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(grpc::CallbackServerContext* context,
                                                 const v1::GetJobRequest* request,
                                                 v1::GetJobResponse* response) {
  const auto get = [this, request]() -> absl::StatusOr<v1::GetJobResponse> {
    absl::StatusOr<v1::Job> job = jobs_->GetJob(request->namespace_(), request->name());
    if (!job.ok()) return job.status();
    v1::GetJobResponse result;
    *result.mutable_job() = *std::move(job);
    return result;
  };
  return Read(context, "GetJob", request->namespace_(), get, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(grpc::CallbackServerContext* context,
                                                   const v1::ListJobsRequest* request,
                                                   v1::ListJobsResponse* response) {
  const auto list = [this, request] { return jobs_->ListJobs(*request); };
  return Read(context, "ListJobs", request->namespace_(), list, response);
}

grpc::ServerWriteReactor<v1::WatchJobsResponse>* JobServiceImpl::WatchJobs(
    grpc::CallbackServerContext* context, const v1::WatchJobsRequest* request) {
  const Check check = MayUse(*context, "WatchJobs", request->namespace_());
  const auto stream =
      MakeStream<WatchStream>(check, jobs_, lanes_, Admission::CallerOf(*context, *guard_), *request);
  hub_->Subscribe(std::static_pointer_cast<ChangeListener>(stream));
  return Serve(*context, check, absl::OkStatus(), stream);
}

grpc::ServerUnaryReactor* JobServiceImpl::UpdateJob(grpc::CallbackServerContext* context,
                                                    const v1::UpdateJobRequest* request,
                                                    v1::UpdateJobResponse* response) {
  const auto update = [this, request](const std::string& caller) {
    return jobs_->UpdateJob(*request, caller);
  };
  return Change(context, "UpdateJob", request->namespace_(), update, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(grpc::CallbackServerContext* context,
                                                    const v1::CancelJobRequest* request,
                                                    v1::CancelJobResponse* response) {
  const auto cancel = [this, request](const std::string& caller) {
    return jobs_->CancelJob(*request, caller);
  };
  return Change(context, "CancelJob", request->namespace_(), cancel, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::DeleteJob(grpc::CallbackServerContext* context,
                                                    const v1::DeleteJobRequest* request,
                                                    v1::DeleteJobResponse* response) {
  const auto remove = [this, request](const std::string& caller) {
    return jobs_->DeleteJob(*request, caller);
  };
  return Change(context, "DeleteJob", request->namespace_(), remove, response);
}

grpc::ServerWriteReactor<v1::StreamLogsResponse>* JobServiceImpl::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) {
  const Check check = MayUse(*context, "StreamLogs", request->namespace_());
  const absl::StatusOr<v1::Job> job = jobs_->GetJob(request->namespace_(), request->name());
  const auto stream =
      MakeStream<LogStream>(check, output_.locations, lanes_, Admission::CallerOf(*context, *guard_),
                            output_.logs, job.ok() ? job->uid() : "", *request);
  if (job.ok()) hub_->SubscribeToJob(job->uid(), std::static_pointer_cast<ChangeListener>(stream));
  const absl::Status status = job.ok() ? LogStream::Validate(*request) : job.status();
  return Serve(*context, check, status, stream);
}

grpc::ServerUnaryReactor* JobServiceImpl::ListEvents(grpc::CallbackServerContext* context,
                                                     const v1::ListEventsRequest* request,
                                                     v1::ListEventsResponse* response) {
  const auto list = [this, request] { return jobs_->ListEvents(*request); };
  return Read(context, "ListEvents", request->namespace_(), list, response);
}

grpc::ServerWriteReactor<v1::ReadFilesResponse>* JobServiceImpl::ReadFiles(
    grpc::CallbackServerContext* context, const v1::ReadFilesRequest* request) {
  const Check check = MayUse(*context, "ReadFiles", request->namespace_());
  const absl::StatusOr<v1::Job> job = jobs_->GetJob(request->namespace_(), request->name());
  const auto stream =
      MakeStream<FileStream>(check, output_.locations, lanes_, Admission::CallerOf(*context, *guard_),
                             output_.workers, job.ok() ? *job : v1::Job(), *request);
  absl::Status status = job.ok() ? FileStream::Validate(*request) : job.status();
  status.Update(output_.files);
  return Serve(*context, check, status, stream);
}

}  // namespace adaptdl::supervisor
