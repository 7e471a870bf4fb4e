// The job that this process is a replica of.
//
//   auto job = adaptdl::Init();      // first thing in main(), before threads are made
//   ...
//   job->rank()
//
// Init() returns at once. The replicas of the job meet when the job is first used for more than its ranks:
// when the model is wrapped, a data loader made, an epoch entered. So what needs no other replica, such as
// reading the data set, is best done before: a replica that joins a job that trains does it while the others
// go on. Then the job's state is there: from replicas that train already, else from the newest checkpoint.
//
// The set of replicas may change at any step, without the process being started again (docs/rescale.md):
// ranks are not to be kept.
//
// SIGTERM, SIGINT and the scheduler's commands lead to a checkpoint at the next step and to exit code 143; a
// second SIGINT ends the process at once. When a peer is lost the others go on without it; where that is not
// possible, they end with exit code 75. In both cases the process ends within the call that found it out (a
// data loader's or epoch's next step, Step(), Synchronize()), without running destructors.
//
// Without the scheduler's environment variables the program is a job of one replica, without checkpoints
// unless ADAPTDL_CHECKPOINT_PATH is set.
//
// Thread-safety: the training thread only, except for RequestCheckpoint(), RequestStop() and Report() once the
// replicas have met.

#ifndef ADAPTDL_JOB_H_
#define ADAPTDL_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

namespace elastic {
class JobCore;
class PiecewiseState;
}  // namespace elastic

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

  // Whether it is changed by optimiser steps and nothing else (parameters, moments). Such a state is brought
  // up to date by another replica's, as it was after the step, should that have been able to complete a step
  // when a third one was lost and this one have not.
  virtual bool changes_with_steps() const { return false; }
  virtual bool LoadStep(const std::string& bytes) { return Load(bytes); }

  // For the library's own large states. Null: there is Save() only.
  virtual elastic::PiecewiseState* piecewise() { return nullptr; }
};

class Job {
 public:
  explicit Job(std::unique_ptr<elastic::JobCore> core);
  // What is known of the group before the replicas meet.
  struct Place {
    int rank = 0;
    int num_replicas = 1;
    int num_nodes = 1;
    std::string share_path;
  };
  // `join` is called when the other replicas are needed, with the states that are expected.
  using Join = std::function<std::unique_ptr<elastic::JobCore>(std::vector<CheckpointState*> expected)>;
  Job(Place place, Join join);
  // Waits for the other replicas if all epochs are done; then leaves the group.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Rank of this replica, from 0, and number of replicas. Both may change with each step.
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

  // Tells whoever looks at the job (adaptdl describe) how the program is doing, such as its loss: of each name the
  // latest value, by a heartbeat now and then. Costs a step nothing that could be measured, and sends nothing itself. Rank
  // 0's values count; where replicas differ, sum up over them first (Accumulator). They need not be finite.
  // `name`: 1 to 64 letters, digits and any of "_./-", beginning with a letter, and at most 16 different ones; what is
  // beyond that is left aside, and said once. "loss" is what is minimised. `step`: what the value is of, as the
  // program counts; negative: as many optimiser steps as are done. From any thread.
  void Report(std::string_view name, double value, int64_t step = -1);

  // Collective: all replicas call it at the same point, outside data loader loops, or in one before the step's
  // gradients are computed; its samples are then read again by whoever goes on from there. Checkpoints now, and
  // returns when that is on storage. False: it could not be written, or there is no checkpoint folder.
  bool SaveAll();

  // Whether the step in progress came to nothing because a replica was lost: the loop's body runs again, on
  // samples that are dealt out anew, and what is done until then should count for nothing. Accumulators and
  // LrScheduler see to that themselves.
  bool step_is_void() const;

  // Carries out what was asked for meanwhile. To be called now and then, on all replicas alike, in long
  // phases outside data loader and epoch loops.
  void Synchronize();

  // Puts `state` (not owned) into every checkpoint from now on, and loads it at once if the job was restored
  // from one that holds it. All replicas register the same states in the same order. Whether it was loaded.
  bool Register(CheckpointState* state);
  // Before the state is destroyed, if that happens before the job's end.
  void Unregister(CheckpointState* state);
  // Before the replicas meet (no effect later): `state` (not owned) will be registered as soon as they have.
  // A replica that joins a job which trains is handed a large state into its place then, without copies.
  void Expect(CheckpointState* state);

  // For the library's own parts. Meets the other replicas if that was not done yet.
  elastic::JobCore& core() const;

 private:
  const Place place_;
  const Join join_;
  std::vector<CheckpointState*> expected_;
  // Null: the replicas have not met.
  mutable std::unique_ptr<elastic::JobCore> core_;
};

// See the top of this file. Ends the process with a message when the environment is wrong (exit code 1), and
// later if the group cannot be formed (75); with 143 when asked to stop before it was formed.
std::unique_ptr<Job> Init();

// The same for programs that know their group themselves: `address` ("host:port" or "tcp://host:port") is
// where rank 0 listens. What is left out ("", 0, negative) comes from the environment. Under a scheduler
// nothing may be given that contradicts it.
//
// `backend` says how what lies on a GPU is exchanged, in the words of PyTorch's programs: "nccl", from GPU to GPU
// (exit code 1 where there is no GPU, or no NCCL); "gloo", by way of main memory; "", as Init() has it: NCCL where
// this process sees a GPU and has NCCL. What lies in main memory never goes over NCCL. A replica trains on the
// first GPU that it sees, or on the CPU.
std::unique_ptr<Job> InitProcessGroup(const std::string& backend, const std::string& address = "",
                                      int world_size = 0, int rank = -1);

}  // namespace adaptdl

#endif  // ADAPTDL_JOB_H_
