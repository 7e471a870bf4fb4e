// CodeService at the gRPC edge: folders that travel with jobs. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CODE_CODE_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CODE_CODE_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/code_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/code/code_store.h"

namespace adaptdl::supervisor {

class CodeServiceImpl final : public v1::CodeService::CallbackService {
 public:
  // `store` null: all calls are answered UNIMPLEMENTED. `executor`: for what waits for the disk, and for checks of
  // digests, which take long. All outlive the service.
  CodeServiceImpl(CodeStore* store, Executor* executor, const Lanes* lanes, Streams* streams,
                  const security::Guard* guard, Admission* admission)
      : store_(store),
        executor_(executor),
        lanes_(lanes),
        streams_(streams),
        guard_(guard),
        admission_(admission) {}

  grpc::ServerUnaryReactor* StatCode(grpc::CallbackServerContext* context, const v1::StatCodeRequest* request,
                                     v1::StatCodeResponse* response) override;
  grpc::ServerReadReactor<v1::UploadCodeRequest>* UploadCode(grpc::CallbackServerContext* context,
                                                             v1::UploadCodeResponse* response) override;
  grpc::ServerWriteReactor<v1::DownloadCodeResponse>* DownloadCode(
      grpc::CallbackServerContext* context, const v1::DownloadCodeRequest* request) override;

 private:
  // Whether the caller may use the method in a namespace. May wait for the cluster.
  std::function<absl::Status(const std::string& name_space)> MayUse(
      const grpc::CallbackServerContext& context, absl::string_view method) const;

  CodeStore* const store_;
  Executor* const executor_;
  const Lanes* const lanes_;
  Streams* const streams_;
  const security::Guard* const guard_;
  Admission* const admission_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CODE_CODE_SERVICE_H_
