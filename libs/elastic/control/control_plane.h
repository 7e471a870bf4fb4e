// What a training process needs from the outside world, and nothing about how it gets there.
//
//   created ──JoinGroup()──▶ joined ──Start(observer)──▶ reporting ──Shutdown()──▶ ended
//
// How a group follows another one is described in docs/rescale.md.
//
// Implementations: libadaptdl_control.so (gRPC to the supervisor, see control_loader.h),
// StandaloneControlPlane (environment variables) and FakeControlPlane (tests).
//
// Thread-safety: thread-safe, except that JoinGroup() and Start() are called once, in this order.
// The training thread calls only what is marked as non-blocking.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_CONTROL_PLANE_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_CONTROL_PLANE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/say.h"

namespace adaptdl::elastic {

// Place of this process in its group.
struct GroupMembership {
  // Generation of the replica set, from 1. 0: standalone.
  int64_t group = 0;
  int rank = 0;
  int world_size = 1;
  // Distinct nodes of the members.
  int num_nodes = 1;
  // Where rank 0 serves the rendezvous of the collectives. May be empty in a group of one.
  std::string master_address = {};
  // Distinct GPU types of the members' nodes, ascending. Empty: no GPUs, or standalone.
  std::vector<std::string> gpu_types = {};
  // Secret of the members. Empty: the one that the process was started with.
  std::string token = {};
  // Members, behind the others, that were not in the group before: they are handed the job's state. 0 in a
  // job's first group.
  int newcomers = 0;
};

// The group that is to follow.
struct GroupPlan {
  // This replica's place in it. rank is negative if it is to leave.
  GroupMembership next;
  // Why, for people.
  std::string reason;
  // Whether the present group can't go on: members of it are lost.
  bool broken = false;

  bool leaves() const { return next.rank < 0; }
};

// How long the parts of a re-scale took here, in seconds.
struct RescaleTimes {
  // Group that came out of it.
  int64_t group = 0;
  // From the plan's arrival until all members held it: training goes on meanwhile.
  double agree = 0;
  // The pause: handing over and connecting; the states' way to newcomers; until the first step is done.
  double rebuild = 0;
  double synchronize = 0;
  double first_step = 0;
};

// How far this replica is in the collectives of its group, and for whom it waits there
// (libs/comm/communicator.h).
struct Standing {
  int64_t group = 0;
  int64_t collective = 0;
  int step = 0;
  // Rank. Negative: nobody's.
  int peer = -1;
  // In seconds.
  double stalled = 0;
};

// What the training thread does, in seconds.
struct Activity {
  // How long it has been waiting for other replicas. 0: it does not.
  double waiting = 0;
  // How long it has not run at all, outside of such waits.
  double idle = 0;
  // After so much of either something is wrong. 0: not known yet.
  double patience = 0;
  // While it waits, if that is known.
  std::optional<Standing> standing;
};

// Where the time of an optimiser step goes, in seconds: forward and backward passes; waiting for other replicas'
// gradients; waiting for samples. Of the last two, what computation does not hide.
struct StepTimes {
  double compute = 0;
  double sync = 0;
  double data = 0;
};

// A figure that the program reports of itself.
struct ReportedMetric {
  std::string name;
  // Not necessarily finite.
  double value = 0;
  // Optimiser steps that were done when it was reported, or what the program counts in their place.
  int64_t step = 0;
};

// How far the job is. All numbers are finite.
struct Progress {
  int64_t optimizer_steps = 0;
  int epoch = 0;
  // 0: unknown.
  int total_epochs = 0;
  // Part of the whole work that is done, in [0, 1]. Negative: unknown.
  double fraction = -1;
  int64_t total_batch_size = 0;
  int64_t local_batch_size = 0;
  int accumulation_steps = 0;
  // Samples per second. 0: unknown.
  double throughput = 0;
  // Steps at the initial batch size that are done, and at which the job is done (0: unknown).
  double scale_invariant_steps = 0;
  double total_scale_invariant_steps = 0;
  // What a step at the batch size in use is worth, in steps at the initial batch size; what a sample of it is,
  // relative to one at the initial batch size. 0: unknown.
  double gain = 0;
  double efficiency = 0;
  // Total batch size, in samples, at which noise and signal of the gradient are alike. 0: unknown.
  double gradient_noise_scale = 0;
  // What the scaling rule multiplies learning rates by. 0: unknown.
  double learning_rate_factor = 0;
  // Of a usual optimiser step of late. Nothing: unknown.
  std::optional<StepTimes> step_times;
};

// Parameters of the throughput model; times in seconds.
struct HintPerfParams {
  double alpha_c = 0, beta_c = 0, alpha_n = 0, beta_n = 0, alpha_r = 0, beta_r = 0, gamma = 1;
};

struct HintGradParams {
  double norm = 0, var = 0;
};

// What the job has learnt about itself, for the allocator.
struct Hints {
  int64_t init_batch_size = 0;
  std::optional<int64_t> max_batch_size;
  std::optional<int64_t> min_local_batch_size;
  std::optional<int64_t> max_local_batch_size;
  bool gradient_accumulation = false;
  int max_profiled_replicas = 0;
  // On what the job runs on now.
  std::optional<HintPerfParams> perf_params;
  // On each GPU type that it has been measured on.
  std::map<std::string, HintPerfParams> perf_params_by_gpu_type;
  std::optional<HintGradParams> grad_params;
};

// Told by the control plane, from its own threads; must not block.
class ControlObserver {
 public:
  virtual ~ControlObserver() = default;

  // Write a checkpoint at the next step and go on.
  virtual void OnCheckpointCommand(const std::string& reason) = 0;
  // Write a checkpoint at the next step and stop. No plan comes any more.
  virtual void OnStopCommand(const std::string& reason) = 0;
  // The group is not the job's current one any more: this process must stop and write nothing.
  virtual void OnFenced(const std::string& reason) = 0;
  // The group is to be followed by this one. A later plan replaces an earlier one.
  virtual void OnPlan(const GroupPlan& plan) = 0;
  // For a heartbeat.
  virtual Activity CurrentActivity() { return {}; }
  // What the program has reported last, for the heartbeat of a job's rank 0: each name once, at most 16 of them.
  virtual std::vector<ReportedMetric> LatestMetrics() { return {}; }
};

class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  // Takes part in the rendezvous and waits until the group can be formed, however long that takes: until all
  // members are there, or all newcomers of a group that follows one which trains. `address`: where this
  // process serves the rendezvous of the collectives, should it be rank 0 of a group. May be called again
  // before Start(), when the members could not be connected: the answer may be a newer group. CANCELLED:
  // Cancel() was called. ABORTED: this replica is not wanted any more.
  virtual absl::StatusOr<GroupMembership> JoinGroup(const std::string& address) = 0;

  // Makes a JoinGroup() that waits return CANCELLED. Non-blocking.
  virtual void Cancel() = 0;

  // Begins to send heartbeats, as a member of the group that was joined last, and to pass commands on.
  // `observer` must outlive Shutdown().
  virtual void Start(ControlObserver* observer) = 0;

  // Whether somebody plans the groups: replicas that have lost a peer may wait for OnPlan().
  virtual bool plans_groups() const = 0;

  // The members of `group` are connected and hold the same state: heartbeats are this group's from now on.
  // Non-blocking.
  virtual void EnterGroup(const GroupMembership& group) = 0;

  // The collectives of group number `group` do not work any more, for `reason`: this replica waits for a
  // plan. Non-blocking.
  virtual void ReportBroken(int64_t group, const std::string& reason) = 0;

  // Non-blocking.
  virtual void ReportRescale(const RescaleTimes& times) = 0;

  // Whether the checkpoint after step number `step` could be written. Non-blocking, from any thread.
  virtual void ReportCheckpoint(int64_t step, const absl::Status& status) = 0;

  // Goes out with the next heartbeat. Non-blocking.
  virtual void UpdateProgress(const Progress& progress) = 0;

  // Blocks for a few seconds at most. UNAVAILABLE: try again later.
  virtual absl::Status ReportHints(const Hints& hints) = 0;

  // Sends the latest progress, for two seconds at most, and ends all traffic; no callback runs once it has
  // returned. Idempotent.
  virtual void Shutdown() = 0;
};

// What the gRPC implementation is told. Plain strings: it crosses a library border.
struct GrpcControlPlaneOptions {
  std::string supervisor_address;
  // File with the certificates that the supervisor's is verified with, or, where there is none, their text in PEM.
  // Both empty: no TLS.
  std::string supervisor_ca = {};
  std::string supervisor_ca_pem = {};
  // The name that it must have. Empty: that of a supervisor whose certificate "adaptdl admin" made.
  std::string supervisor_tls_name = {};
  std::string job_namespace;
  std::string job;
  std::string replica_id;
  int64_t group = 0;
  // Of the group that it was started for. Empty: the replica proves who it is by what stands in the file until it is
  // told its group's; the file may be replaced.
  std::string token;
  std::string identity_token_file = {};
  std::string library_version;
  // The trace that its calls are part of, as a header of W3C Trace Context. Empty: none.
  std::string traceparent = {};
  // Gets what libadaptdl_control.so says. Null: standard error does.
  Listener say = nullptr;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_CONTROL_PLANE_H_
