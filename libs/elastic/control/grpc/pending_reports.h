// What a replica has to report to the supervisor: the newest of each kind, which goes with every heartbeat
// until it is acknowledged (HeartbeatRequest.report_id). Not thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_PENDING_REPORTS_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_PENDING_REPORTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "libs/elastic/control/control_plane.h"

namespace adaptdl::elastic {

class PendingReports {
 public:
  // A heartbeat stream begins: its supervisor may know of nothing yet. The stream itself says whose it is.
  void BeginStream();
  // The supervisor has dealt with all up to this number.
  void Acknowledge(int64_t id);

  // The replica has become a member of this group while the stream goes on.
  void Entered(const GroupMembership& group);
  // The group does not work any more. `reason` is cut and mended to what a message can hold.
  void Broken(int64_t group, const std::string& reason);
  void Rescaled(const RescaleTimes& times);
  // Whether it is news: the first failure, or the first success after one.
  bool CheckpointTaken(int64_t step, const absl::Status& status);

  // The newest group that was reported as broken, unless a later one was entered since.
  std::optional<int64_t> broken_group() const;
  // A group of this number works: older ones do not matter.
  void ForgetBrokenBefore(int64_t group);

  // The group that the next heartbeat says was entered. Null: none.
  const GroupMembership* entered() const { return IsDue(entered_) ? &entered_->content : nullptr; }
  // `leads`: whether the replica is rank 0, who alone tells of checkpoints.
  void FillIn(bool leads, v1::HeartbeatRequest* request) const;

 private:
  template <typename Content>
  struct Report {
    Content content;
    int64_t id = 0;
  };

  template <typename Content>
  bool IsDue(const std::optional<Report<Content>>& report) const {
    return report.has_value() && report->id > acknowledged_;
  }

  // Of the newest report, and of the newest that the stream's supervisor has acknowledged.
  int64_t newest_ = 0;
  int64_t acknowledged_ = 0;
  std::optional<Report<GroupMembership>> entered_;
  std::optional<Report<v1::GroupBroken>> broken_;
  std::optional<Report<v1::RescaleTimes>> rescale_;
  std::optional<Report<v1::CheckpointResult>> checkpoint_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_PENDING_REPORTS_H_
