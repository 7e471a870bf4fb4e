// A store that begins a commit, and lets anything follow from one, only while its supervisor leads: so
// everything that was acknowledged is in the state that the next leader takes over.
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
  // How long what was committed waits for a valid lease, should it have ended meanwhile. Then the leader
  // gives up, since nobody could say whether it counts.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // `lease` outlives the store.
  FencedJobStore(std::unique_ptr<JobStore> store, LeaderLease* lease)
      : store_(std::move(store)), lease_(*lease) {}

  // UNAVAILABLE: the lease is not valid, and nothing has changed. Also of an empty one: commands may follow
  // from it.
  absl::Status Commit(const WriteBatch& batch) override;
  bool atomic_batches() const override { return store_->atomic_batches(); }
  // Whatever follows from a commit waits for the lease.
  bool needs_sync() const override { return true; }
  absl::Status Sync() override;

  absl::StatusOr<StoreContents> Load(absl::Time now) override { return store_->Load(now); }
  absl::StatusOr<std::vector<v1::Event>> ListEvents(const EventQuery& query) override {
    return store_->ListEvents(query);
  }
  absl::StatusOr<std::vector<ReplicaRecord>> ListReplicas(const std::string& job_uid) override {
    return store_->ListReplicas(job_uid);
  }
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& caller,
                                                           const std::string& name_space,
                                                           const std::string& request_id) override {
    return store_->FindRequest(caller, name_space, request_id);
  }
  absl::Status PruneRequests(absl::Time time) override { return store_->PruneRequests(time); }
  absl::Status PruneEvents(absl::Time time) override { return store_->PruneEvents(time); }
  absl::Status PruneReplicas(const std::string& job_uid, int keep) override {
    return store_->PruneReplicas(job_uid, keep);
  }
  absl::StatusOr<std::string> Backup() override { return store_->Backup(); }

 private:
  const std::unique_ptr<JobStore> store_;
  LeaderLease& lease_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_FENCED_JOB_STORE_H_
