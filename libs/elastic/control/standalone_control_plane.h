// A control plane of one's own: the group is what the environment variables say, and nobody commands.
//
// Thread-safety: thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_STANDALONE_CONTROL_PLANE_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_STANDALONE_CONTROL_PLANE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/control/environment.h"

namespace adaptdl::elastic {

class StandaloneControlPlane final : public ControlPlane {
 public:
  explicit StandaloneControlPlane(const Environment& environment) {
    membership_.rank = environment.replica_rank;
    membership_.world_size = environment.num_replicas;
    membership_.num_nodes = environment.num_nodes;
    membership_.master_address =
        absl::StrCat(environment.master_host.empty() ? "127.0.0.1" : environment.master_host, ":",
                     environment.master_port);
  }

  absl::StatusOr<GroupMembership> JoinGroup(const std::string&) override { return membership_; }
  void Cancel() override {}
  void Start(ControlObserver*) override {}
  bool plans_groups() const override { return false; }
  void EnterGroup(const GroupMembership&) override {}
  void ReportBroken(int64_t, const std::string&) override {}
  void ReportRescale(const RescaleTimes&) override {}
  void ReportCheckpoint(int64_t, const absl::Status&) override {}
  void UpdateProgress(const Progress&) override {}
  absl::Status ReportHints(const Hints&) override { return absl::OkStatus(); }
  void Shutdown() override {}

 private:
  GroupMembership membership_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_STANDALONE_CONTROL_PLANE_H_
