// Stubs of the workers' LogService, by address; connections are shared. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_WORKER_CHANNELS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_WORKER_CHANNELS_H_

#include <map>
#include <memory>
#include <string>

#include "adaptdl/v1/log_service.grpc.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

class WorkerChannels {
 public:
  std::shared_ptr<v1::LogService::Stub> LogStub(const std::string& address);

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<v1::LogService::Stub>> stubs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_WORKER_CHANNELS_H_
