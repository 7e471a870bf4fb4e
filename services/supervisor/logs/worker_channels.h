// Stubs of the workers' LogService, by address; connections are shared. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_WORKER_CHANNELS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_WORKER_CHANNELS_H_

#include <map>
#include <memory>
#include <string>

#include "adaptdl/v1/log_service.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/rpc/security.h"

namespace adaptdl::supervisor {

class WorkerChannels {
 public:
  // All workers are talked to in the same way.
  explicit WorkerChannels(const rpc::ClientSecurity& security)
      : credentials_(rpc::MakeClientCredentials(security)) {}

  std::shared_ptr<v1::LogService::Stub> LogStub(const std::string& address);

 private:
  const rpc::ClientCredentials credentials_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<v1::LogService::Stub>> stubs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_WORKER_CHANNELS_H_
