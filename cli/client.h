// The supervisor as the commands see it: each call has a deadline, calls that did not reach it are repeated a
// few times, or, with several supervisors, until the deadline and at each of them, and failures say what to
// do.
//
// Thread-safe.

#ifndef ADAPTDL_CLI_CLIENT_H_
#define ADAPTDL_CLI_CLIENT_H_

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/admin_service.grpc.pb.h"
#include "adaptdl/v1/code_service.grpc.pb.h"
#include "adaptdl/v1/enrolment_service.grpc.pb.h"
#include "adaptdl/v1/history_service.grpc.pb.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "adaptdl/v1/quota_service.grpc.pb.h"
#include "cli/context.h"
#include "cli/kubernetes/supervisor_route.h"
#include "grpcpp/client_context.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/endpoints.h"
#include "libs/rpc/security.h"
#include "libs/rpc/status_code.h"

namespace adaptdl::cli {

using Jobs = v1::JobService::Stub;
using Histories = v1::HistoryService::Stub;
using Nodes = v1::NodeService::Stub;
using Enrolments = v1::EnrolmentService::Stub;
using Pools = v1::NodePoolService::Stub;
using Quotas = v1::QuotaService::Stub;
using Admin = v1::AdminService::Stub;
using Codes = v1::CodeService::Stub;

// Tries after the first one of a call that was answered UNAVAILABLE (with several supervisors: as many as the
// call's time allows), and the time before the first and the last of them.
inline constexpr int kRetries = 3;
inline constexpr absl::Duration kFirstRetryDelay = absl::Milliseconds(200);
inline constexpr absl::Duration kLongestRetryDelay = absl::Milliseconds(800);

class Client {
 public:
  // Does not connect yet, except to a cluster of Kubernetes: the first call does. The context's clock outlives the client.
  explicit Client(const Context& context);

  const std::string& address() const { return address_; }
  const Clock& clock() const { return *clock_; }
  // For streams. They stay with the supervisor that answered last: make a call before, or Reach() it.
  std::unique_ptr<Jobs> jobs() { return stub<Jobs>(Connected()); }
  std::unique_ptr<Admin> admin() { return stub<Admin>(Connected()); }
  std::unique_ptr<Codes> codes() { return stub<Codes>(Connected()); }
  // As above, for who makes calls of its own and must not wait.
  std::shared_ptr<grpc::Channel> channel() { return supervisors_.current().channel; }
  // With several supervisors: finds the one that leads.
  absl::Status Reach();
  // The supervisor in use has broken a stream: the next one is tried from now on.
  void GoOn() { supervisors_.GoOn(supervisors_.current()); }

  // One unary call: client.Call(&Jobs::GetJob, request).
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const std::type_identity_t<Request>& request) {
    if (!security_.ok()) return security_;
    Response response;
    grpc::Status status;
    absl::Duration waited;
    absl::Time deadline = SteadyNow() + call_timeout_;
    Backoff backoff(kFirstRetryDelay, kLongestRetryDelay);
    for (int attempt = 0;; ++attempt) {
      const rpc::Endpoint supervisor = supervisors_.current();
      // A channel that has failed before connects only while somebody waits for it.
      if (attempt > 0) rpc::AwaitConnection(supervisor.channel.get());
      grpc::ClientContext context;
      // Of all attempts together if one of several supervisors leads, each of which must be tried soon enough.
      rpc::SetTimeout(&context, keeps_trying() ? deadline - SteadyNow() : call_timeout_);
      status = (stub<Stub>(supervisor).get()->*method)(&context, request, &response);
      if (WaitAsTold(status, &waited)) {
        deadline = SteadyNow() + call_timeout_;
        attempt = 0;
        backoff.Reset();
        continue;
      }
      if (rpc::CodeOf(status) != grpc::StatusCode::UNAVAILABLE) break;
      supervisors_.GoOn(supervisor);
      const absl::Duration delay = backoff.Next();
      const bool last = keeps_trying() ? SteadyNow() + delay >= deadline : attempt == kRetries;
      if (last) break;
      clock_->SleepFor(delay);
    }
    if (!status.ok()) return Explain(status);
    return response;
  }

  // The status with a text for people: for UNAVAILABLE and DEADLINE_EXCEEDED what to do about it.
  absl::Status Explain(const grpc::Status& status) const;

 private:
  // Whether another supervisor may lead soon; only one of those of Kubernetes may run just now.
  bool keeps_trying() const { return supervisors_.several() || route_ != nullptr; }
  // Waits if the server says that the call may succeed after some time, unless it takes longer than people
  // like to wait, with what was waited before. Whether it has waited.
  bool WaitAsTold(const grpc::Status& status, absl::Duration* waited) const;

  // The one in use, for calls that do not wait for a connection.
  rpc::Endpoint Connected();

  template <typename Stub>
  static std::unique_ptr<Stub> stub(const rpc::Endpoint& supervisor) {
    return std::make_unique<Stub>(supervisor.channel);
  }

  // How the supervisor is reached.
  struct Way {
    // For people.
    std::string name;
    std::vector<std::string> addresses;
    absl::StatusOr<rpc::ClientSecurity> security;
    // Null: not through Kubernetes.
    std::unique_ptr<SupervisorRoute> route;
  };
  static Way FindWay(const Context& context);

  Client(const Context& context, Way way);

  const Clock* const clock_;
  const std::string address_;
  // Of the addresses, which last as long.
  const std::unique_ptr<SupervisorRoute> route_;
  const absl::Duration call_timeout_;
  // Not OK: what is wrong with the files that it would need; no call can succeed.
  const absl::Status security_;
  rpc::Endpoints supervisors_;
};

// "host:port" of the supervisor, or of several, separated by commas: --supervisor,
// $ADAPTDL_SUPERVISOR_ADDRESS, the local cluster's, 127.0.0.1:7100.
std::string FindSupervisor(const Context& context);

// All pages of jobs. `request`'s page fields are ignored.
absl::StatusOr<v1::ListJobsResponse> ListAllJobs(Client& client, v1::ListJobsRequest request);
// All pages of events after `request`'s after_id.
absl::StatusOr<v1::ListEventsResponse> ListAllEvents(Client& client, v1::ListEventsRequest request);
absl::StatusOr<v1::ListNodesResponse> ListAllNodes(Client& client);
absl::StatusOr<v1::ListQuotasResponse> ListAllQuotas(Client& client);
absl::StatusOr<v1::Job> GetJob(Client& client, const JobReference& job);
// The node pools. None where the caller may not see them, or the supervisor is older than pools.
absl::StatusOr<v1::GetNodePoolsResponse> FindPools(Client& client);
// The bounds of namespaces. None where the caller may not see them.
absl::StatusOr<v1::ListQuotasResponse> FindQuotas(Client& client);

// Whether the phase is one that a job stays in.
bool IsFinished(v1::JobPhase phase);
// The exit code for a finished job.
int ExitCodeOf(v1::JobPhase phase);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLIENT_H_
