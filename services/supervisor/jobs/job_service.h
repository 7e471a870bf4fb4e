// JobService at the gRPC edge: users. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/jobs/job_manager.h"
#include "services/supervisor/logs/log_locations.h"
#include "services/supervisor/logs/worker_channels.h"
#include "services/supervisor/state/change_hub.h"

namespace adaptdl::supervisor {

class JobServiceImpl final : public v1::JobService::CallbackService {
 public:
  // All outlive the service.
  JobServiceImpl(JobManager* jobs, const LogLocations* logs, const Lanes* lanes, ChangeHub* hub,
                 Streams* streams, WorkerChannels* workers, const security::Guard* guard,
                 Admission* admission)
      : jobs_(jobs),
        logs_(logs),
        lanes_(lanes),
        hub_(hub),
        streams_(streams),
        workers_(workers),
        guard_(guard),
        admission_(admission) {}

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
  // The job, if the caller may use its namespace: what is there is looked up only then.
  absl::StatusOr<v1::Job> FindJob(const grpc::CallbackServerContext& context, const std::string& name_space,
                                  const std::string& name) const;
  // Lets the stream go on for as long as its caller may use the namespace.
  void Keep(const std::shared_ptr<EndableStream>& stream, const grpc::CallbackServerContext& context,
            const std::string& name_space) const;

  // Whether the caller may use the namespace, and may call now.
  absl::Status AdmitCall(const grpc::CallbackServerContext& context, const std::string& name_space) const;
  // The same for a change.
  absl::Status AdmitChange(const grpc::CallbackServerContext& context, const std::string& name_space) const;
  // Whether it may open another stream, which holds its place then.
  template <typename Stream>
  absl::Status AdmitStream(const grpc::CallbackServerContext& context, Stream* stream) const;

  JobManager* const jobs_;
  const LogLocations* const logs_;
  const Lanes* const lanes_;
  ChangeHub* const hub_;
  Streams* const streams_;
  WorkerChannels* const workers_;
  const security::Guard* const guard_;
  Admission* const admission_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_SERVICE_H_
