// JobService at the gRPC edge: users. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/jobs/job_manager.h"
#include "services/supervisor/logs/job_output.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/traces/job_tracer.h"

namespace adaptdl::supervisor {

class JobServiceImpl final : public v1::JobService::CallbackService {
 public:
  // All outlive the service. `tracer` may be null.
  JobServiceImpl(JobManager* jobs, const JobOutput& output, const Lanes* lanes, ChangeHub* hub,
                 Streams* streams, const security::Guard* guard, Admission* admission,
                 JobTracer* tracer = nullptr)
      : jobs_(jobs),
        output_(output),
        lanes_(lanes),
        hub_(hub),
        streams_(streams),
        guard_(guard),
        admission_(admission),
        tracer_(tracer) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobsResponse>* WatchJobs(grpc::CallbackServerContext* context,
                                                             const v1::WatchJobsRequest* request) override;
  grpc::ServerUnaryReactor* UpdateJob(grpc::CallbackServerContext* context,
                                      const v1::UpdateJobRequest* request,
                                      v1::UpdateJobResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerWriteReactor<v1::StreamLogsResponse>* StreamLogs(grpc::CallbackServerContext* context,
                                                               const v1::StreamLogsRequest* request) override;
  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context,
                                       const v1::ListEventsRequest* request,
                                       v1::ListEventsResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadFilesResponse>* ReadFiles(grpc::CallbackServerContext* context,
                                                             const v1::ReadFilesRequest* request) override;

 private:
  // Whether a caller may do something. May wait for the cluster, so it is asked on a lane, or with the streams.
  using Check = std::function<absl::Status()>;

  // Whether the caller may use the method in the namespace.
  Check MayUse(const grpc::CallbackServerContext& context, absl::string_view method,
               const std::string& name_space) const;

  // Answers with what `call` returns, if the caller may call now, and may use the method in the namespace.
  template <typename Call, typename Response>
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context, absl::string_view method,
                                 const std::string& name_space, Call call, Response* response);
  // The same for a change, which is told who calls.
  template <typename Call, typename Response>
  grpc::ServerUnaryReactor* Change(grpc::CallbackServerContext* context, absl::string_view method,
                                   const std::string& name_space, Call call, Response* response);
  // A stream that asks `check` before it sends anything: from the start, as whoever is told of it may wake it.
  template <typename Stream, typename... Parts>
  std::shared_ptr<Stream> MakeStream(const Check& check, const Parts&... parts) const;
  // Begins the stream, unless `status` is an error or the caller may open no other one. It goes on for as long as
  // `check` allows it; who may not learns nothing but that.
  template <typename Stream>
  Stream* Serve(const grpc::CallbackServerContext& context, const Check& check, absl::Status status,
                const std::shared_ptr<Stream>& stream);

  JobManager* const jobs_;
  const JobOutput output_;
  const Lanes* const lanes_;
  ChangeHub* const hub_;
  Streams* const streams_;
  const security::Guard* const guard_;
  Admission* const admission_;
  JobTracer* const tracer_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_SERVICE_H_
