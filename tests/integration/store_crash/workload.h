// Plays an allocator and the worker of one node: jobs are submitted, allocated, launched and run to their
// end, one after the other, over any number of supervisors that die meanwhile. What the supervisor has
// acknowledged of them, an exit code for example, must hold ever after.

#ifndef ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_WORKLOAD_H_
#define ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_WORKLOAD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "tests/integration/store_crash/participant.h"

namespace adaptdl::integration {

class Workload final : public Participant {
 public:
  Workload(std::string name_space, unsigned seed) : namespace_(std::move(name_space)), random_(seed) {}
  ~Workload() override { Disconnect(); }

  void Connect(const std::shared_ptr<grpc::Channel>& channel) override;
  // Takes the job in progress one step further.
  absl::Status Operate() override;
  absl::Status Check() override;
  // Exit codes.
  int64_t acknowledged() const override { return static_cast<int64_t>(finished_.size()); }

 private:
  enum class Stage { kNew, kSubmitted, kAllocated };
  using Stream = grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>;

  absl::Status Submit();
  absl::StatusOr<v1::ClusterSnapshot> Snapshot();
  absl::Status Allocate();
  // Follows the supervisor's commands until a replica's end is acknowledged.
  absl::Status Work();
  absl::Status OpenStream();
  void Disconnect();
  void Report(const v1::ReplicaReport& report);
  absl::StatusOr<v1::Job> Get(const std::string& name);

  const std::string namespace_;
  std::mt19937 random_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
  std::unique_ptr<v1::SchedulingService::Stub> scheduling_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<Stream> stream_;
  // The job in progress.
  Stage stage_ = Stage::kNew;
  std::string request_id_;
  std::optional<v1::ApplyAllocationsRequest> allocation_;
  v1::Job job_;
  int64_t number_ = 0;
  // Replicas whose end was not acknowledged, as last reported, by id.
  std::map<std::string, v1::ReplicaReport> replicas_;
  // Whether one has ended.
  bool ended_ = false;
  // Exit codes that were acknowledged, by job.
  std::map<std::string, int> finished_;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_WORKLOAD_H_
