#include "services/supervisor/supervisor.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/service/log.h"
#include "libs/service/log_writer.h"
#include "services/supervisor/code/named_code.h"

namespace adaptdl::supervisor {
namespace {

// EX_IOERR of sysexits.h: the disk has failed under the state.
constexpr int kStorageFailed = 74;

// The state has one lock; more threads would only wait for it. Reads have threads of their own, which never
// do. One caller has at most half of them.
constexpr int kExecutorThreads = 4;
constexpr int kReaderThreads = 4;
// For archives, of which one may be written or looked at for seconds.
constexpr int kArchivistThreads = 4;

std::unique_ptr<GroupCommit> MakeGroupCommit(JobStore* store) {
  std::function<absl::Status()> sync;
  if (store->needs_sync()) sync = [store] { return store->Sync(); };
  return std::make_unique<GroupCommit>(std::move(sync), &EndForFailedDisk);
}

// How often the callers of open streams are looked at: tokens expire and are revoked.
constexpr absl::Duration kStreamPeriod = absl::Seconds(1);
// How often it is looked which archives no job names any more.
constexpr absl::Duration kCodePeriod = absl::Minutes(1);

}  // namespace

void EndForFailedDisk(const absl::Status& status) {
  log::Error("ending, since what is on the disk is unknown now; the next start reads it",
             {{"error", status.ToString()}});
  log::Flush();
  _exit(kStorageFailed);
}

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(
    const SupervisorOptions& options, std::unique_ptr<JobStore> store, const Clock* clock,
    std::function<std::string(int)> random_hex, const LeaderLease* lease, const SupervisorSeams& seams) {
  std::unique_ptr<Supervisor> supervisor(new Supervisor(options));
  Supervisor* s = supervisor.get();
  s->store_ = std::move(store);
  s->durability_ = MakeGroupCommit(s->store_.get());
  s->executor_ = std::make_unique<Executor>(kExecutorThreads, kExecutorThreads / 2, &s->invariants_);
  s->readers_ = std::make_unique<Executor>(kReaderThreads, kReaderThreads / 2, &s->invariants_);
  s->archivists_ = std::make_unique<Executor>(kArchivistThreads, kArchivistThreads / 2, &s->invariants_);
  s->lanes_ = {s->executor_.get(), s->readers_.get(), s->durability_.get()};
  const CoreParts core{s->store_.get(), &s->hub_, s->durability_.get(), &s->invariants_, clock, lease};
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      Cluster::Create(options.cluster, {core, seams.launcher != nullptr ? seams.launcher : &s->launcher_,
                                        &s->sessions_, random_hex, seams.token_of});
  if (!cluster.ok()) return cluster.status();
  s->cluster_ = *std::move(cluster);
  if (options.api_tokens != nullptr) options.api_tokens->Attach(&s->cluster_->core()->index());
  s->MakeHistory();
  if (options.tracer != nullptr) {
    s->tracer_ = std::make_shared<JobTracer>(s->cluster_->core(), options.tracer);
    s->cluster_->SetTracer(s->tracer_.get());
    s->hub_.Subscribe(s->tracer_);
  }
  if (!options.code.folder.empty()) {
    absl::StatusOr<std::unique_ptr<CodeStore>> code = CodeStore::Open(options.code, clock, lease);
    if (!code.ok()) return code.status();
    s->code_store_ = *std::move(code);
    // Before anybody uploads: what jobs need is known from the first upload on.
    s->CollectCode();
    s->cluster_->jobs()->SetCode(s->code_store_.get());
  }
  s->clock_ = clock;
  s->step_ = seams.step;
  s->admission_ = std::make_unique<Admission>(options.admission, clock);
  s->MakeServices(seams);
  s->MakeEnrolment(std::move(random_hex));
  return supervisor;
}

void Supervisor::MakeHistory() {
  history_ = std::make_shared<Recorder>(options_.history, cluster_->core());
  hub_.Subscribe(history_);
  cluster_->progress()->SetObserver([history = history_.get()](const auto& said) { history->Observe(said); });
}

void Supervisor::MakeServices(const SupervisorSeams& seams) {
  Cluster* c = cluster_.get();
  Core* core = c->core();
  LogReaders* logs = seams.logs != nullptr ? seams.logs : &worker_logs_;
  jobs_ =
      std::make_unique<JobServiceImpl>(c->jobs(), JobOutput{c->logs(), logs, &workers_, seams.files}, &lanes_,
                                       &hub_, &streams_, guard_.get(), admission_.get(), tracer_.get());
  nodes_ = std::make_unique<NodeServiceImpl>(c->nodes(), core, &lanes_, &launcher_, &streams_, &strangers_,
                                             guard_.get(), admission_.get());
  replicas_ = std::make_unique<ReplicaServiceImpl>(
      ReplicaServiceParts{c->membership(), c->reports(), &sessions_, core, &lanes_, &hub_, &streams_,
                          &strangers_, c->options().replica_heartbeat_period});
  scheduling_ =
      std::make_unique<SchedulingServiceImpl>(c->scheduling(), &lanes_, &hub_, &streams_, guard_.get());
  quotas_ = std::make_unique<QuotaServiceImpl>(c->quotas(), &lanes_, guard_.get(), admission_.get());
  pools_ =
      std::make_unique<NodePoolServiceImpl>(c->pools(), c->costs(), &lanes_, guard_.get(), admission_.get());
  admin_ = std::make_unique<AdminServiceImpl>(store_.get(), &streams_, guard_.get(), readers_.get(),
                                              durability_.get());
  code_ = std::make_unique<CodeServiceImpl>(code_store_.get(), archivists_.get(), &lanes_, &streams_,
                                            guard_.get(), admission_.get());
  history_service_ = std::make_unique<HistoryServiceImpl>(&core->index(), history_.get(), &lanes_,
                                                          guard_.get(), admission_.get());
  adaptdl_api_ = std::make_unique<AdaptdlApi>(c->membership(), c->reports(), core, durability_.get(), &hub_);
}

void Supervisor::MakeEnrolment(std::function<std::string(int)> random_hex) {
  if (options_.enrolment.authority_key.empty()) return;
  enrolments_ = std::make_unique<EnrolmentManager>(options_.enrolment, cluster_->core(), cluster_->pools(),
                                                   std::move(random_hex));
  enrolment_ = std::make_unique<EnrolmentServiceImpl>(enrolments_.get(), &lanes_, guard_.get(),
                                                      admission_.get(), clock_);
}

Supervisor::~Supervisor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.SignalAll();
  if (thread_.joinable()) thread_.join();
  if (options_.api_tokens != nullptr) options_.api_tokens->Attach(nullptr);
}

absl::Status Supervisor::ServeHttp(const httpd::HttpServerOptions& options, const std::string& url) {
  absl::StatusOr<std::unique_ptr<httpd::HttpServer>> server = httpd::HttpServer::Start(
      options, [api = adaptdl_api_.get()](const httpd::HttpRequest& request,
                                          const std::shared_ptr<httpd::HttpExchange>& exchange) {
        api->Handle(request, exchange);
      });
  if (!server.ok()) return server.status();
  http_ = *std::move(server);
  cluster_->ServeAdaptdl(url.empty() ? absl::StrCat("http://:", http_->port()) : url);
  return absl::OkStatus();
}

absl::Status Supervisor::ServeWeb(const WebOptions& options) {
  job_series_ =
      std::make_unique<JobSeriesPage>(&cluster_->core()->index(), cluster_->costs(), clock_, guard_.get(),
                                      admission_.get(), readers_.get(), options.job_series);
  WebServer::Handlers handlers = {
      {"/metrics/jobs", [page = job_series_.get()](const httpd::HttpRequest& request,
                                                   const std::shared_ptr<httpd::HttpExchange>& exchange) {
         page->Handle(request, exchange);
       }}};
  if (options.dashboard) {
    dashboard_ = std::make_unique<WebDashboard>(options.services, clock_);
    handlers.emplace_back("/", [dashboard = dashboard_.get()](const httpd::HttpRequest& request,
                                                              std::shared_ptr<httpd::HttpExchange> exchange) {
      dashboard->Handle(request, std::move(exchange));
    });
  }
  absl::StatusOr<std::unique_ptr<WebServer>> web = WebServer::Start(options, std::move(handlers));
  if (!web.ok()) return web.status();
  web_ = *std::move(web);
  return absl::OkStatus();
}

// On a lane, as the answers may be somebody else's, and once at a time, as they may take long.
void Supervisor::LookAtStreams() {
  if (looks_at_streams_.exchange(true)) return;
  readers_->Post([this] {
    streams_.EndDisallowed();
    looks_at_streams_ = false;
  });
}

void Supervisor::CollectCode() {
  NamedCode named = FindNamedCode(cluster_->core()->index());
  code_store_->Collect(std::move(named.by_any), std::move(named.by_unfinished));
}

void Supervisor::Step() {
  if (step_) step_();
  cluster_->Step();
  history_->Step();
  const absl::Time now = cluster_->core()->Now();
  if (now >= looked_at_streams_ + kStreamPeriod) {
    looked_at_streams_ = now;
    LookAtStreams();
    UpdateQueues();
  }
  if (code_store_ != nullptr && now >= collected_code_ + kCodePeriod) {
    collected_code_ = now;
    // On a lane, as the disk is waited for, and once at a time.
    if (!collects_code_.exchange(true)) {
      archivists_->Post([this] {
        CollectCode();
        collects_code_ = false;
      });
    }
  }
  streams_.CheckReaders(now, options_.reader_patience);
  strangers_.Step(now);
  adaptdl_api_->Step();
  if (http_ != nullptr) http_->Step(clock_->Now());
  if (web_ != nullptr) web_->Step(clock_->Now());
  if (dashboard_ != nullptr) dashboard_->Step();
}

void Supervisor::ExportMetrics(std::shared_ptr<prometheus::Registry> registry) {
  metrics_ = std::make_unique<Metrics>(std::move(registry));
  cluster_->SetMetrics(metrics_.get());
  invariants_.SetOnBroken(
      [metrics = metrics_.get()](const std::string& where) { metrics->CountBrokenInvariant(where); });
  admission_->SetOnRefused([metrics = metrics_.get()](const char* cause) { metrics->CountRefused(cause); });
  durability_->SetOnSync([metrics = metrics_.get()](absl::Duration time) { metrics->ObserveSync(time); });
}

void Supervisor::UpdateQueues() {
  if (metrics_ == nullptr) return;
  metrics_->SetQueue("changes", executor_->waiting());
  metrics_->SetQueue("reads", readers_->waiting());
  metrics_->SetQueue("durability", durability_->waiting());
}

void Supervisor::Start() {
  history_->Start();
  thread_ = std::thread([this] { Run(); });
}

void Supervisor::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!stopping_) wake_.WaitFor(&mutex_, options_.step_period);
      if (stopping_) return;
    }
    Step();
  }
}

void Supervisor::EndStreams() {
  streams_.EndAll(
      grpc::Status(grpc::StatusCode::UNAVAILABLE, "the supervisor is shutting down; connect again"));
}

}  // namespace adaptdl::supervisor
