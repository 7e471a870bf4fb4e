// The supervisor as a whole: the parts, made and joined. The caller serves services() and, in production,
// starts the thread that steps through time; tests call Step() themselves.
//
// Thread-safe. Destroy it after the gRPC server that serves its services.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_SUPERVISOR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_SUPERVISOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/random_id.h"
#include "libs/httpd/http_server.h"
#include "libs/rpc/security.h"
#include "libs/service/security/guard.h"
#include "libs/service/strangers.h"
#include "libs/tracing/tracer.h"
#include "prometheus/registry.h"
#include "services/supervisor/admin/admin_service.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/cluster.h"
#include "services/supervisor/code/code_service.h"
#include "services/supervisor/code/code_store.h"
#include "services/supervisor/enrolment/enrolment_manager.h"
#include "services/supervisor/enrolment/enrolment_service.h"
#include "services/supervisor/history/history_service.h"
#include "services/supervisor/history/recorder.h"
#include "services/supervisor/http/adaptdl_api.h"
#include "services/supervisor/jobs/api_tokens.h"
#include "services/supervisor/jobs/job_service.h"
#include "services/supervisor/lease/leader_lease.h"
#include "services/supervisor/logs/worker_channels.h"
#include "services/supervisor/logs/worker_log_readers.h"
#include "services/supervisor/nodes/node_service.h"
#include "services/supervisor/nodes/worker_launcher.h"
#include "services/supervisor/pools/node_pool_service.h"
#include "services/supervisor/quotas/quota_service.h"
#include "services/supervisor/replicas/replica_service.h"
#include "services/supervisor/replicas/replica_sessions.h"
#include "services/supervisor/scheduling/scheduling_service.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/metrics.h"
#include "services/supervisor/store/job_store.h"
#include "services/supervisor/traces/job_tracer.h"
#include "services/supervisor/web/job_series_page.h"
#include "services/supervisor/web/web_dashboard.h"
#include "services/supervisor/web/web_server.h"

namespace adaptdl::supervisor {

struct SupervisorOptions {
  ClusterOptions cluster;
  // How often the thread calls Step().
  absl::Duration step_period = absl::Milliseconds(100);
  // What clients may have.
  AdmissionOptions admission;
  // Streams whose reader takes nothing for so long end.
  absl::Duration reader_patience = absl::Minutes(2);
  // How long streams of workers and replicas may be open before they say whose they are, and how many.
  service::StrangerOptions strangers;
  // How workers are talked to.
  rpc::ClientSecurity worker_security = rpc::Plaintext();
  // Folders that travel with jobs. An empty folder: they don't.
  CodeStoreOptions code;
  // How jobs have come to be as they are.
  HistoryOptions history;
  // How machines become nodes. Without an authority, they can't.
  EnrolmentOptions enrolment;
  // Who may do what. Null: everybody everything.
  std::shared_ptr<const security::Guard> guard;
  // What the guard knows jobs by that call this API. Null: none may.
  std::shared_ptr<ApiTokens> api_tokens;
  // Gets traces of jobs. Null: none are made.
  std::shared_ptr<tracing::Tracer> tracer;
};

// Where the cluster is something else than workers.
struct SupervisorSeams {
  // How replicas are reached. Null: by their workers. Outlives the supervisor.
  ReplicaLauncher* launcher = nullptr;
  // Where the secrets of groups come from. Null: they are random.
  GroupTokenSource token_of = nullptr;
  // How output of replicas is read. Null: by their workers. Outlives the supervisor.
  LogReaders* logs = nullptr;
  // Why files of jobs can't be read; OK: workers read them.
  absl::Status files = absl::OkStatus();
  // What is due besides, called in each step. Null: nothing.
  std::function<void()> step = nullptr;
};

// Ends the process: a sync of the disk has failed under the state.
[[noreturn]] void EndForFailedDisk(const absl::Status& status);

class Supervisor {
 public:
  // `clock` and `lease` outlive the supervisor. `lease`: of its leadership; null: there is no other
  // supervisor.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(
      const SupervisorOptions& options, std::unique_ptr<JobStore> store, const Clock* clock,
      std::function<std::string(int)> random_hex = [](int bytes) { return RandomHex(bytes); },
      const LeaderLease* lease = nullptr, const SupervisorSeams& seams = {});
  ~Supervisor();

  std::vector<grpc::Service*> services() {
    std::vector<grpc::Service*> all = {&*jobs_,  &*nodes_, &*replicas_, &*scheduling_,     &*quotas_,
                                       &*pools_, &*admin_, &*code_,     &*history_service_};
    if (enrolment_ != nullptr) all.push_back(&*enrolment_);
    return all;
  }
  Cluster* cluster() { return cluster_.get(); }
  Recorder* history() { return history_.get(); }

  // Serves AdaptDL's Python package from now on. `url`: where replicas reach it; empty: on the host at which
  // their worker reaches the supervisor. Call it before replicas are launched.
  absl::Status ServeHttp(const httpd::HttpServerOptions& options, const std::string& url = "");
  // "host:port" of it. Empty: not served.
  std::string http_address() const { return http_ == nullptr ? "" : http_->address(); }

  // Serves people and their tools by HTTPS from now on.
  absl::Status ServeWeb(const WebOptions& options);
  // "host:port" of it. Empty: not served.
  std::string web_address() const { return web_ == nullptr ? "" : web_->address(); }

  // From now on counts there.
  void ExportMetrics(std::shared_ptr<prometheus::Registry> registry);
  // Does what is due.
  void Step();
  // Starts the thread that does so.
  void Start();
  // Ends all streams; clients find another supervisor, or this one again.
  void EndStreams();

 private:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options),
        guard_(options.guard != nullptr ? options.guard : security::Guard::Open()),
        strangers_(options.strangers),
        workers_(options.worker_security) {}
  void MakeHistory();
  void MakeServices(const SupervisorSeams& seams);
  void MakeEnrolment(std::function<std::string(int)> random_hex);
  void LookAtStreams();
  void CollectCode();
  void UpdateQueues();
  void Run();

  const SupervisorOptions options_;
  const std::shared_ptr<const security::Guard> guard_;
  const Clock* clock_ = nullptr;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<CodeStore> code_store_;  // Null: there is none.
  std::function<void()> step_;
  WorkerLauncher launcher_;
  ReplicaSessions sessions_;
  Streams streams_;
  std::atomic<bool> looks_at_streams_ = false;  // Whether a lane does.
  std::atomic<bool> collects_code_ = false;     // Likewise.
  service::Strangers strangers_;
  WorkerChannels workers_;
  WorkerLogReaders worker_logs_{&workers_};
  std::unique_ptr<Metrics> metrics_;
  Invariants invariants_;
  std::unique_ptr<Cluster> cluster_;
  // The hub holds it weakly, and no longer than this.
  std::shared_ptr<Recorder> history_;
  std::shared_ptr<JobTracer> tracer_;  // Null: there is none.
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<JobSeriesPage> job_series_;  // Null: it is not served.
  std::unique_ptr<WebDashboard> dashboard_;    // Likewise.
  ChangeHub hub_;                              // Its thread uses what stands above.
  std::unique_ptr<GroupCommit> durability_;    // Likewise.
  std::unique_ptr<Executor> executor_;         // Likewise.
  std::unique_ptr<Executor> readers_;          // Likewise.
  std::unique_ptr<Executor> archivists_;       // Likewise.
  Lanes lanes_;
  std::unique_ptr<JobServiceImpl> jobs_;
  std::unique_ptr<NodeServiceImpl> nodes_;
  std::unique_ptr<ReplicaServiceImpl> replicas_;
  std::unique_ptr<SchedulingServiceImpl> scheduling_;
  std::unique_ptr<QuotaServiceImpl> quotas_;
  std::unique_ptr<NodePoolServiceImpl> pools_;
  std::unique_ptr<AdminServiceImpl> admin_;
  std::unique_ptr<CodeServiceImpl> code_;
  std::unique_ptr<HistoryServiceImpl> history_service_;
  // Null: machines can't join.
  std::unique_ptr<EnrolmentManager> enrolments_;
  std::unique_ptr<EnrolmentServiceImpl> enrolment_;
  std::unique_ptr<AdaptdlApi> adaptdl_api_;
  std::unique_ptr<httpd::HttpServer> http_;  // Its thread uses what stands above.
  std::unique_ptr<WebServer> web_;           // Likewise.

  absl::Time looked_at_streams_ = absl::InfinitePast();  // Used in Step() only.
  absl::Time collected_code_ = absl::InfinitePast();     // Likewise.

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_SUPERVISOR_H_
