// Who leads: of all who contend for one Lease, one does at a time.
//
//   free ──1──▶ held ──2──▶ expired ──3──▶ held
//    ▲            │            └──4──▶ lost
//    └─────5──────┘
//
// 1. Nobody holds it: it does not exist, it was given back, or it has not changed for its own duration on the
//    contender's steady clock, since the contender first saw it like that. The contender writes itself into it,
//    in the version that it saw, so that one of several succeeds.
// 2. The holder did not renew it within `duration`, counted from the beginning of the last renewal that
//    succeeded. Until then nobody else can have seen it unchanged for so long: the holder is alone.
// 3. It renews it after all. That it could, in the version that it had written, proves that nobody else led.
// 4. Somebody else has it, or somebody has deleted it: Options::lost is called, once.
// 5. Release().
//
// No two machines' clocks are compared. Each leadership has a term, larger than all before it, in an annotation
// of the Lease: the wall time in milliseconds, or one more than the last one. So it grows also if the Lease was
// deleted. A Lease is no fence: whoever is told something by a leader compares terms.
//
// Its session is to be its own, and its patience and timeouts well below `duration`.
//
// Thread-safe, but for one TryAcquire() or Acquire(), and one StartRenewal() or Release() at a time.

#ifndef ADAPTDL_LIBS_KUBE_CONTROL_LEADER_ELECTION_H_
#define ADAPTDL_LIBS_KUBE_CONTROL_LEADER_ELECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"
#include "libs/kube/json/object.h"

namespace adaptdl::kube {

struct LeaderElectionOptions {
  ObjectKey lease;
  // Unique for each process, and for each run of one.
  std::string identity;
  // In whole seconds, from 1 on.
  absl::Duration duration = absl::Seconds(15);
  // How often the thread of StartRenewal() renews it, and Acquire() looks.
  absl::Duration renew_period = absl::Seconds(3);
  std::string field_manager = "adaptdl";
  std::string term_annotation = "adaptdl.petuum.com/term";
  // From whichever thread finds out; must not call the election. In production it ends the process.
  std::function<void(const std::string& why)> lost = [](const std::string&) {};
};

class LeaderElection {
 public:
  // Takes nothing yet. The client outlives it.
  LeaderElection(const Client* client, LeaderElectionOptions options);
  // Ends the renewal; gives nothing back.
  ~LeaderElection();
  LeaderElection(const LeaderElection&) = delete;
  LeaderElection& operator=(const LeaderElection&) = delete;

  // Looks once, and takes the lease if it is free. True: this one leads now; renew it.
  absl::StatusOr<bool> TryAcquire(const std::stop_token& stop = {});
  // Looks again and again until it leads; errors are told to `report` (null: nobody). CANCELLED: a stop was
  // requested.
  absl::Status Acquire(const std::function<void(const absl::Status&)>& report, const std::stop_token& stop);
  // Who held it when it was looked at last. Empty: nobody.
  std::string seen_holder() const;

  // FAILED_PRECONDITION: it is lost. Other errors: try again.
  absl::Status Renew(const std::stop_token& stop = {});
  // Starts the thread that does so.
  void StartRenewal();

  // Of this leadership; 0: none yet.
  int64_t term() const { return term_.load(); }
  // Makes the term `least` at least, and returns when the Lease says so. As Renew.
  absl::Status RaiseTerm(int64_t least, const std::stop_token& stop = {});

  // Whether nobody else can have begun to lead up to now.
  bool Valid() const;
  // Waits for that. DEADLINE_EXCEEDED: it could not be renewed in time.
  absl::Status AwaitValid(absl::Duration timeout) const;

  // Gives the lease back: another one may lead at once. To be called when nothing is done any more.
  void Release(const std::stop_token& stop = {});

 private:
  bool IsFree(const Json& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The Lease as it is to be when this one holds it.
  Json HeldLease(const Json& lease, int64_t term) const;
  absl::StatusOr<bool> Take(const Json& lease, const std::stop_token& stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(int64_t term, const std::stop_token& stop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What to think of a write that the server has refused.
  absl::Status LookAgain(const absl::Status& refusal, const std::stop_token& stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(Json lease, absl::Time begin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetValidUntil(absl::Time time);
  absl::Status Lose(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time Now() const { return client_.session().clock().Steady(); }

  const Client& client_;
  const LeaderElectionOptions options_;
  const Target target_;

  // Held while the Lease is read and written.
  mutable Mutex mutex_;
  // As it was seen or written last; null: it does not exist.
  Json lease_ ABSL_GUARDED_BY(mutex_);
  // Since when its spec is like that.
  absl::Time seen_since_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<int64_t> term_ = 0;

  // A slow server holds nobody up while the lease lasts. On the steady clock.
  mutable Mutex valid_mutex_;
  mutable CondVar held_longer_;
  absl::Time valid_until_ ABSL_GUARDED_BY(valid_mutex_) = absl::InfinitePast();

  std::jthread thread_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CONTROL_LEADER_ELECTION_H_
