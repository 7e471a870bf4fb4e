// HistoryService at the gRPC edge: whoever may read a job may read how it has come to be so. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HISTORY_HISTORY_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HISTORY_HISTORY_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/history_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/history/recorder.h"
#include "services/supervisor/state/read_index.h"

namespace adaptdl::supervisor {

// The answers, of what was committed and recorded. All outlive the calls.
absl::StatusOr<v1::GetJobHistoryResponse> GetJobHistory(const ReadIndex& index, const Recorder& recorder,
                                                        const v1::GetJobHistoryRequest& request);
absl::StatusOr<v1::ListTimelinesResponse> ListTimelines(const ReadIndex& index, const Recorder& recorder,
                                                        const v1::ListTimelinesRequest& request);

class HistoryServiceImpl final : public v1::HistoryService::CallbackService {
 public:
  // None is owned; all outlive the service.
  HistoryServiceImpl(const ReadIndex* index, const Recorder* recorder, const Lanes* lanes,
                     const security::Guard* guard, Admission* admission)
      : index_(index), recorder_(recorder), lanes_(lanes), guard_(guard), admission_(admission) {}

  grpc::ServerUnaryReactor* GetJobHistory(grpc::CallbackServerContext* context,
                                          const v1::GetJobHistoryRequest* request,
                                          v1::GetJobHistoryResponse* response) override;
  grpc::ServerUnaryReactor* ListTimelines(grpc::CallbackServerContext* context,
                                          const v1::ListTimelinesRequest* request,
                                          v1::ListTimelinesResponse* response) override;

 private:
  // For whoever may call the method for the namespace.
  template <typename Call, typename Response>
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context, absl::string_view method,
                                 const std::string& name_space, Call call, Response* response);

  const ReadIndex* const index_;
  const Recorder* const recorder_;
  const Lanes* const lanes_;
  const security::Guard* const guard_;
  Admission* const admission_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HISTORY_HISTORY_SERVICE_H_
