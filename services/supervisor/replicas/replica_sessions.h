// The heartbeat streams of replicas: commands that wait to be acknowledged, and the newest progress. All of
// it is soft: after a restart of the supervisor the replicas connect again, and commands follow from the
// jobs' state.
//
// Heartbeats touch nothing but this, so that thousands of them never wait for the store. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_SESSIONS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_SESSIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "libs/base/mutex.h"
#include "services/supervisor/jobs/pulse_source.h"

namespace adaptdl::supervisor {

// One heartbeat stream, as the sessions see it.
class ReplicaStream {
 public:
  virtual ~ReplicaStream() = default;
  // Send a response soon: a command came. Called with no lock held.
  virtual void Poke() = 0;
  virtual void End(const absl::Status& why) = 0;
};

class ReplicaSessions final : public PulseSource {
 public:
  // Makes `stream` the replica's stream; ends an older one with ABORTED.
  void Attach(const std::string& replica_id, const std::shared_ptr<ReplicaStream>& stream);
  void Detach(const std::string& replica_id, const ReplicaStream* stream);

  // Notes what the replica has carried out, what it does, and its progress if it sent any.
  void Heard(const std::string& replica_id, const std::string& job_uid, const v1::HeartbeatRequest& request,
             absl::Time now);

  Pulse LastPulse(const std::string& replica_id) override;
  std::set<std::string> TakeWaiting() override;

  // The replica has spoken for this group.
  void NoteGroup(const std::string& replica_id, int64_t group);
  // The newest group that the replica has spoken for; -1: none, to our knowledge.
  int64_t NewestGroup(const std::string& replica_id) const;

  // Whether the replica is to have a plan that can't be told yet. RESCALE makes up for it.
  void NoteOwesPlan(const std::string& replica_id, bool owes);
  bool OwesPlan(const std::string& replica_id) const;

  // The first command that the replica has not acknowledged yet; REPLICA_COMMAND_NONE if there is none.
  v1::HeartbeatResponse Pending(const std::string& replica_id);

  // Gives the replica a command and sends it. One of a kind replaces the one before; STOP replaces all, and
  // is never replaced. `plan`: of RESCALE.
  void Command(const std::string& replica_id, v1::ReplicaCommand command, const std::string& reason,
               const v1::GroupPlan& plan = v1::GroupPlan());

  // The replica has ended or is fenced off: ends its stream and forgets it.
  void Forget(const std::string& replica_id, const absl::Status& why);

  // Ends all streams.
  void EndAll(const absl::Status& why);

  // The job's progress that came since the last TakeProgress(), which will return it still.
  std::optional<v1::TrainingProgress> LatestProgress(const std::string& job_uid);
  // Progress that came since the last call, by job uid.
  std::map<std::string, v1::TrainingProgress> TakeProgress();
  // Puts progress back that could not be stored, unless newer one has come.
  void ReturnProgress(const std::map<std::string, v1::TrainingProgress>& progress);

 private:
  struct Session {
    std::weak_ptr<ReplicaStream> stream;
    // Not acknowledged yet, in the order in which they were given. STOP stays.
    std::vector<v1::HeartbeatResponse> commands;
    // Highest id that was given or acknowledged; the next command gets a larger one.
    int64_t last_id = 0;
    Pulse pulse;
    int64_t newest_group = -1;
    bool owes_plan = false;
  };

  mutable Mutex mutex_;
  std::unordered_map<std::string, Session> sessions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::TrainingProgress> progress_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_SESSIONS_H_
