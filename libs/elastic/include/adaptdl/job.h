// The job that this process is a replica of.
//
//   auto job = adaptdl::Init();      // first thing in main(), before threads are made
//   ...
//   job->rank()
//
// Init() takes part in the rendezvous of the job's replicas and reads the newest checkpoint; it returns when
// all replicas are there. From then on SIGTERM, SIGINT and the scheduler's commands lead to a checkpoint at
// the next step and to exit code 143; a second SIGINT ends the process at once. A lost peer leads to exit
// code 75. In both cases the process ends within the call that found it out (a data loader's or epoch's next
// step, Step(), Synchronize()), without running destructors.
//
// Without the scheduler's environment variables the program is a job of one replica, without checkpoints
// unless ADAPTDL_CHECKPOINT_PATH is set.
//
// Thread-safety: the training thread only, except for RequestCheckpoint() and RequestStop().

#ifndef ADAPTDL_JOB_H_
#define ADAPTDL_JOB_H_

#include <cstdint>
#include <memory>
#include <string>

namespace adaptdl {

namespace elastic {
class JobCore;
}

// Exit codes with a meaning to the scheduler.
inline constexpr int kExitStopped = 143;
inline constexpr int kExitPeerLost = 75;

// Something that belongs into the job's checkpoints, besides what the library puts there itself.
class CheckpointState {
 public:
  virtual ~CheckpointState() = default;

  // Unique in the job, the same in every run: letters, digits, '-', '_' and '.'.
  virtual std::string name() const = 0;

  // Called on all replicas at the same step, before rank 0 saves. May use collectives.
  virtual void Sync() {}

  // Called on rank 0.
  virtual std::string Save() = 0;

  // The same into `bytes`, in place of what it holds. Large states override it: it may be what an earlier
  // checkpoint held, whose memory is used again.
  virtual void SaveInto(std::string* bytes) { *bytes = Save(); }

  // Called on all replicas with what rank 0 saved. False: it cannot be read, and the program ends.
  virtual bool Load(const std::string& bytes) = 0;
};

class Job {
 public:
  explicit Job(std::unique_ptr<elastic::JobCore> core);
  // Waits for the other replicas if all epochs are done; then leaves the group.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Rank of this replica, from 0, and number of replicas. Both may differ after a restart.
  int rank() const;
  int num_replicas() const;
  // Distinct nodes of the replicas.
  int num_nodes() const;
  // Optimiser steps done since the job began, restarts included.
  int64_t optimizer_steps() const;
  // Epochs done; within the epoch loop this is the number of the epoch in progress.
  int finished_epochs() const;
  // Where to leave results for users. Empty: nowhere.
  const std::string& share_path() const;

  // Ask for a checkpoint at the next step, without stopping or with. From any thread.
  void RequestCheckpoint();
  void RequestStop();

  // Collective: all replicas call it at the same point, outside data loader loops. Checkpoints now, and
  // returns when that is on storage. False: it could not be written, or there is no checkpoint folder.
  bool SaveAll();

  // Carries out what was asked for meanwhile. To be called now and then, on all replicas alike, in long
  // phases outside data loader and epoch loops.
  void Synchronize();

  // Puts `state` (not owned) into every checkpoint from now on, and loads it at once if the job was restored
  // from one that holds it. All replicas register the same states in the same order. Whether it was loaded.
  bool Register(CheckpointState* state);
  // Before the state is destroyed, if that happens before the job's end.
  void Unregister(CheckpointState* state);

  // For the library's own parts.
  elastic::JobCore& core() { return *core_; }

 private:
  const std::unique_ptr<elastic::JobCore> core_;
};

// See the top of this file. Ends the process with a message when the environment is wrong (exit code 1) or
// the group could not be formed (75), and with 143 when asked to stop before the group was formed.
std::unique_ptr<Job> Init();

// The same for programs that know their group themselves: `address` ("host:port" or "tcp://host:port") is
// where rank 0 listens. What is left out ("", 0, negative) comes from the environment. Under a scheduler
// nothing may be given that contradicts it. `backend` is "gloo"; "nccl" is refused (exit code 1).
std::unique_ptr<Job> InitProcessGroup(const std::string& backend, const std::string& address = "",
                                      int world_size = 0, int rank = -1);

}  // namespace adaptdl

#endif  // ADAPTDL_JOB_H_
