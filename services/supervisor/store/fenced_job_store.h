// A store that acknowledges a commit only while its supervisor leads, so that everything that was
// acknowledged is in the state that the next leader takes over, and nothing follows from a commit that is
// not.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_FENCED_JOB_STORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_FENCED_JOB_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "services/supervisor/lease/leader_lease.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

class FencedJobStore final : public JobStore {
 public:
  // How long a commit that is written waits for a valid lease, should it have ended meanwhile. Then the
  // leader gives up, since nobody could say whether the commit counts. Without a valid lease none is begun:
  // UNAVAILABLE.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // `lease` outlives the store.
  FencedJobStore(std::unique_ptr<JobStore> store, LeaderLease* lease)
      : store_(std::move(store)), lease_(*lease) {}

  // Also an empty one asks the lease: commands may follow from it.
  absl::Status Commit(const WriteBatch& batch) override;

  absl::StatusOr<StoreContents> Load() override { return store_->Load(); }
  absl::StatusOr<std::vector<v1::Event>> ListEvents(const EventQuery& query) override {
    return store_->ListEvents(query);
  }
  absl::StatusOr<std::vector<ReplicaRecord>> ListReplicas(const std::string& job_uid) override {
    return store_->ListReplicas(job_uid);
  }
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& request_id) override {
    return store_->FindRequest(request_id);
  }
  absl::Status PruneRequests(absl::Time time) override { return store_->PruneRequests(time); }
  absl::Status PruneEvents(absl::Time time) override { return store_->PruneEvents(time); }
  absl::StatusOr<std::string> Backup() override { return store_->Backup(); }

 private:
  const std::unique_ptr<JobStore> store_;
  LeaderLease& lease_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_FENCED_JOB_STORE_H_
