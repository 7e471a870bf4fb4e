// How a replica calls its job's supervisors: which of them, as whom, and for how long again.
//
// With several supervisors one leads. Each term of a leader has a larger number; what a former one still says
// does not count.
//
// Thread-safety: thread-safe, except JitteredBackoff.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_SUPERVISOR_LINK_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_SUPERVISOR_LINK_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "libs/base/backoff.h"
#include "libs/base/mutex.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/rpc/endpoints.h"

namespace adaptdl::elastic {

// Pauses between attempts, with jitter so that a whole job does not come back at once.
class JitteredBackoff {
 public:
  explicit JitteredBackoff(absl::Duration longest) : backoff_(absl::Milliseconds(200), longest) {}

  // At least half of Backoff's.
  absl::Duration Next() { return backoff_.Next() * jitter_(random_); }
  void Reset() { backoff_.Reset(); }

 private:
  Backoff backoff_;
  std::mt19937_64 random_{std::random_device()()};
  std::uniform_real_distribution<double> jitter_{0.5, 1.0};
};

class SupervisorLink {
 public:
  explicit SupervisorLink(const GrpcControlPlaneOptions& options);

  // The supervisor that is called now; whoever finds that it does not answer goes on to the next.
  rpc::Endpoint current() { return supervisors_.current(); }
  void GoOnFrom(const rpc::Endpoint& supervisor) { supervisors_.GoOn(supervisor); }
  bool several() const { return supervisors_.several(); }
  // Between attempts; another supervisor is there soon.
  absl::Duration longest_pause() const { return several() ? absl::Seconds(1) : absl::Seconds(5); }

  // Says who calls, as a member of its group, and proves it.
  void Identify(const GroupMembership& member, grpc::ClientContext* context,
                v1::ReplicaIdentity* identity) const;

  // The same for the rendezvous, at `address`.
  v1::JoinGroupRequest JoinRequest(const GroupMembership& member, const std::string& address,
                                   grpc::ClientContext* context) const;

  // Whether what has come is from the newest leader that is known, or from a supervisor of a version without
  // terms (0).
  bool IsCurrent(int64_t term);

  // Whether this replica was refused for good; anything else may pass.
  static bool IsFinal(const absl::Status& status);
  static std::unique_ptr<v1::ReplicaService::Stub> StubOf(const rpc::Endpoint& supervisor) {
    return v1::ReplicaService::NewStub(supervisor.channel);
  }

 private:
  // What proves that the caller is that member.
  std::string TokenFor(const GroupMembership& member) const;

  const GrpcControlPlaneOptions options_;
  rpc::Endpoints supervisors_;
  Mutex mutex_;
  // Largest term that any supervisor has told.
  int64_t newest_term_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_SUPERVISOR_LINK_H_
