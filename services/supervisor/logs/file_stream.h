// One ReadFiles call: passes on what a worker reads. The storage is shared by all nodes, so any worker will
// do; one that can't be reached is passed over as long as nothing was sent. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_FILE_STREAM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_FILE_STREAM_H_

#include <memory>
#include <string>
#include <vector>

#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/log_service.pb.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/pull_reactor.h"
#include "services/supervisor/logs/log_locations.h"
#include "services/supervisor/logs/remote_reader.h"
#include "services/supervisor/logs/worker_channels.h"

namespace adaptdl::supervisor {

class FileStream final : public PullReactor<v1::ReadFilesResponse> {
 public:
  FileStream(const LogLocations* locations, const Lanes* lanes, const std::string& caller,
             WorkerChannels* workers, const v1::Job& job, const v1::ReadFilesRequest& request);

  static absl::Status Validate(const v1::ReadFilesRequest& request);

 protected:
  Pull Next(v1::ReadFilesResponse* message, grpc::Status* end) override;
  void OnEnd() override;

 private:
  using Reader = RemoteReader<v1::ReadJobFilesResponse>;

  void StartReader();

  WorkerChannels* const workers_;
  v1::ReadJobFilesRequest request_;
  // The rest is used in Next() only, and after it in OnEnd().
  std::vector<std::string> servers_;
  size_t next_server_ = 0;
  std::shared_ptr<v1::LogService::Stub> stub_;
  std::shared_ptr<Reader> reader_;
  bool sent_any_ = false;
  grpc::Status last_error_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_FILE_STREAM_H_
