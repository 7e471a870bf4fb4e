// adaptdl-supervisor: keeps the jobs, nodes and allocations of a cluster.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/security.h"
#include "libs/service/flags.h"
#include "libs/service/lean_connections.h"
#include "libs/service/listen_address.h"
#include "libs/service/log.h"
#include "libs/service/log_writer.h"
#include "libs/service/main.h"
#include "libs/service/security/server_security.h"
#include "libs/service/server.h"
#include "services/supervisor/kubernetes_backend.h"
#include "services/supervisor/kubernetes_flags.h"
#include "services/supervisor/lease/file_lease.h"
#include "services/supervisor/store/fenced_job_store.h"
#include "services/supervisor/store/leased_job_store.h"
#include "services/supervisor/supervisor.h"

namespace adaptdl::supervisor {
namespace {

// Exit code of a leader that finds out that another supervisor leads.
constexpr int kLostLeadership = 3;
// How often a standby looks whether it is to lead.
constexpr timespec kStandbyPeriod = {0, 100'000'000};

struct Flags {
  service::ServerOptions server;
  FileLeaseOptions lease;
  SqliteJobStoreOptions store;
  SupervisorOptions supervisor;
  std::string history_folder;
  httpd::HttpServerOptions http;
  std::string http_url;
  bool http_insecure = false;
  WebOptions web;
  std::string backend = "local";
  KubernetesFlags kubernetes;
};

// Each connection needs a descriptor, and the default leaves room for a thousand.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Nothing but the secret in its URL tells a replica from a stranger, and HTTP shows it to whoever listens.
absl::Status CheckHttp(const Flags& flags) {
  if (flags.http.listen.empty() || flags.http_insecure || flags.server.security.insecure_anywhere)
    return absl::OkStatus();
  // Pods are known by their addresses, and their URL holds no secret.
  if (flags.backend == "kubernetes") return absl::OkStatus();
  const absl::StatusOr<service::ListenAddress> listen =
      service::ParseListenAddress(flags.http.flag, flags.http.listen);
  if (!listen.ok()) return listen.status();
  if (service::IsLoopback(*listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--adaptdl-http ", flags.http.listen,
      ": this is plaintext, and whoever listens on the network learns the secrets of replicas; give "
      "--adaptdl-http-insecure too if nobody else is on it"));
}

absl::Status ServeHttp(const Flags& flags, Supervisor* supervisor) {
  if (const absl::Status status = supervisor->ServeHttp(flags.http, flags.http_url); !status.ok())
    return status;
  log::Info("serving AdaptDL's Python package", {{"address", supervisor->http_address()}});
  if (flags.server.address_file.empty()) return absl::OkStatus();
  return WriteFileAtomically(absl::StrCat(flags.server.address_file, ".http"), supervisor->http_address());
}

// How this process reaches what it serves itself.
std::string ReachedFromHere(const std::string& address) {
  const absl::StatusOr<service::ListenAddress> listen = service::ParseListenAddress("--listen", address);
  if (!listen.ok()) return address;
  if (listen->host == "0.0.0.0") return absl::StrCat("127.0.0.1:", listen->port);
  if (listen->host == "::" || listen->host == "[::]") return absl::StrCat("[::1]:", listen->port);
  return address;
}

// `address`: of the services, for the dashboard.
absl::Status ServeWeb(Flags flags, const std::string& address, Supervisor* supervisor) {
  if (flags.web.dashboard) {
    if (flags.server.security.insecure) {
      return absl::InvalidArgumentError(
          "--web-dashboard: people sign in with tokens, of which --insecure has none; give --tls-cert and "
          "--token-file, or use \"adaptdl dashboard\"");
    }
    rpc::ClientSecurity security;
    security.tls.ca = flags.server.security.tls.ca;
    security.server_name = rpc::kSupervisorName;
    flags.web.services = rpc::CreateChannel(ReachedFromHere(address), security);
  }
  if (const absl::Status status = supervisor->ServeWeb(flags.web); !status.ok()) return status;
  log::Info("serving people by HTTP",
            {{"address", supervisor->web_address()},
             {"encrypted", flags.web.certificate.certificate.empty() ? "no" : "yes"}});
  if (flags.server.address_file.empty()) return absl::OkStatus();
  return WriteFileAtomically(absl::StrCat(flags.server.address_file, ".web"), supervisor->web_address());
}

// Nothing that was begun may be finished, and nothing of the state be closed: others work on it.
void EndAtOnce(const std::string& why) {
  log::Error("not the leader any more; ending at once", {{"reason", why}});
  log::Flush(absl::Milliseconds(100));  // not for long: another one may lead already
  _exit(kLostLeadership);
}

// Waits until this supervisor leads. False: it was told to end before.
absl::StatusOr<bool> AwaitLeadership(FileLease* lease) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  std::string leader;
  while (true) {
    const absl::StatusOr<bool> acquired = lease->TryAcquire();
    // A standby outlives a disk that fails now and then.
    if (!acquired.ok() && leader.empty()) return acquired.status();
    if (acquired.ok() && *acquired) return true;
    const std::optional<LeaseRecord> seen = lease->seen();
    if (seen.has_value() && seen->holder != leader) {
      leader = seen->holder;
      log::Info("standing by: another supervisor leads", {{"leader", seen->address},
                                                          {"pid", absl::StrCat(seen->process.pid)},
                                                          {"term", absl::StrCat(seen->term)}});
    }
    // They are blocked in all threads, so none is missed.
    if (sigtimedwait(&signals, nullptr, &kStandbyPeriod) > 0) return false;
  }
}

absl::StatusOr<std::unique_ptr<JobStore>> OpenStore(const Flags& flags, FileLease* lease) {
  const std::string former = lease->database();
  SqliteJobStoreOptions options = flags.store;
  options.on_sync_failure = &EndForFailedDisk;
  absl::StatusOr<std::unique_ptr<SqliteJobStore>> store = OpenLeasedStore(options, lease);
  if (!store.ok()) return store.status();
  if (lease->database() != former) {
    log::Warning("a former leader still has the state open; going on with a copy",
                 {{"from", former}, {"database", lease->database()}});
  }
  return std::make_unique<FencedJobStore>(*std::move(store), lease);
}

// Serves the state in this store until it is told to end. `begin` and `end`: what comes right after its start, and before
// its end.
absl::Status Lead(Flags flags, std::unique_ptr<JobStore> store, LeaderLease* lease, const Clock& clock,
                  const SupervisorSeams& seams, security::Authorities authorities,
                  const std::function<absl::Status(Supervisor*)>& begin, const std::function<void()>& end) {
  security::SecurityOptions& security = flags.server.security;
  if (security.audit_log.empty()) security.audit_log = absl::StrCat(flags.store.folder, "/audit.jsonl");
  flags.supervisor.api_tokens = std::make_shared<ApiTokens>();
  authorities.jobs = flags.supervisor.api_tokens;
  absl::StatusOr<std::shared_ptr<const security::Guard>> guard =
      security::MakeGuard(security, &clock, authorities);
  if (!guard.ok()) return guard.status();
  flags.server.guard = *guard;
  flags.supervisor.guard = *guard;
  const absl::StatusOr<std::shared_ptr<tracing::Tracer>> tracer =
      service::MakeTracer(flags.server.tracing, "adaptdl-supervisor");
  if (!tracer.ok()) return tracer.status();
  flags.server.tracer = *tracer;
  flags.supervisor.tracer = *tracer;
  flags.supervisor.worker_security = security::ClientSide(security, rpc::kWorkerName);
  absl::StatusOr<std::unique_ptr<Supervisor>> supervisor = Supervisor::Create(
      flags.supervisor, std::move(store), &clock, [](int bytes) { return RandomHex(bytes); }, lease, seams);
  if (!supervisor.ok()) return supervisor.status();
  const absl::Cleanup end_first = end;
  if (const absl::Status status = begin(supervisor->get()); !status.ok()) return status;
  if (!flags.http.listen.empty()) {
    if (const absl::Status status = ServeHttp(flags, supervisor->get()); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<service::Server>> server =
      service::Server::Start(flags.server, (*supervisor)->services());
  if (!server.ok()) return server.status();
  if (!flags.web.listen.empty()) {
    const absl::Status status = ServeWeb(flags, (*server)->address(), supervisor->get());
    if (!status.ok()) return status;
  }
  (*supervisor)->ExportMetrics((*server)->metrics());
  (*supervisor)->Start();
  (*server)->OnDrain([&] { (*supervisor)->EndStreams(); });
  (*server)->WaitForTermination();
  return absl::OkStatus();
}

// Null: there is to be none.
absl::StatusOr<std::unique_ptr<AdmissionWebhook>> ServeWebhook(const Flags& flags, const Clock& clock) {
  const AdmissionWebhookOptions& options = flags.kubernetes.webhook;
  if (options.server.listen.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<AdmissionWebhook>> webhook =
      AdmissionWebhook::Start(options, flags.kubernetes.options.access, &clock);
  if (!webhook.ok()) return webhook;
  log::Info("answering what the API server asks about jobs", {{"address", (*webhook)->address()}});
  if (flags.server.address_file.empty()) return webhook;
  const absl::Status written =
      WriteFileAtomically(absl::StrCat(flags.server.address_file, ".webhook"), (*webhook)->address());
  if (!written.ok()) return written;
  return webhook;
}

// As the operator of a cluster of Kubernetes.
absl::Status ServeKubernetes(const Flags& flags, const Clock& clock) {
  absl::StatusOr<KubernetesOptions> options = Interpret(flags.kubernetes);
  if (!options.ok()) return options.status();
  options->history_folder = flags.store.folder;
  absl::StatusOr<std::unique_ptr<KubernetesBackend>> backend =
      KubernetesBackend::Connect(*options, &clock, EndAtOnce);
  if (!backend.ok()) return backend.status();
  // Whoever leads: the API server asks any of them.
  const absl::StatusOr<std::unique_ptr<AdmissionWebhook>> webhook = ServeWebhook(flags, clock);
  if (!webhook.ok()) return webhook.status();
  const absl::StatusOr<bool> leads = (*backend)->AwaitLeadership();
  if (!leads.ok()) return leads.status();
  if (!*leads) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<JobStore>> store = (*backend)->OpenStore();
  if (!store.ok()) return store.status();
  log::Info("leading", {{"term", absl::StrCat((*backend)->lease()->term())}});
  return Lead(
      flags, *std::move(store), (*backend)->lease(), clock, (*backend)->seams(), (*backend)->authorities(),
      [&](Supervisor* supervisor) { return (*backend)->Begin(supervisor); }, [&] { (*backend)->End(); });
}

absl::Status ServeLocal(Flags flags, const Clock& clock) {
  flags.supervisor.code.folder = absl::StrCat(flags.store.folder, "/code");
  const RealSteadyClock steady;
  FileLeaseOptions lease_options = flags.lease;
  lease_options.folder = flags.store.folder;
  lease_options.address = flags.server.listen;
  lease_options.renew_period = lease_options.duration / 5;
  lease_options.lost = EndAtOnce;
  // Before all that writes to the state, and so after it at the end.
  const absl::StatusOr<std::unique_ptr<FileLease>> lease = FileLease::Create(lease_options, &steady, &clock);
  if (!lease.ok()) return lease.status();
  const absl::StatusOr<bool> leads = AwaitLeadership(lease->get());
  if (!leads.ok()) return leads.status();
  if (!*leads) return absl::OkStatus();
  (*lease)->StartRenewal();
  absl::StatusOr<std::unique_ptr<JobStore>> store = OpenStore(flags, lease->get());
  if (!store.ok()) return store.status();
  log::Info("leading", {{"term", absl::StrCat((*lease)->term())}, {"database", (*lease)->database()}});
  return Lead(
      flags, *std::move(store), lease->get(), clock, {}, {}, [](Supervisor*) { return absl::OkStatus(); },
      [] {});
}

absl::Status Serve(Flags flags) {
  RaiseFileLimit();
  const RealClock clock;
  if (flags.history_folder.empty()) flags.history_folder = absl::StrCat(flags.store.folder, "/history");
  if (flags.history_folder != "none") flags.supervisor.history.folder = flags.history_folder;
  flags.http.strangers.patience = flags.supervisor.strangers.patience;
  flags.supervisor.admission.burst = 4 * flags.supervisor.admission.calls_per_second;
  security::SecurityOptions& security = flags.server.security;
  absl::Status status = security::CheckSecurity(security, flags.server.listen);
  status.Update(CheckHttp(flags));
  flags.web.certificate = {security.tls.certificate, security.tls.key};
  // Whoever may not listen in plaintext there may not here.
  if (!flags.web.listen.empty()) status.Update(security::CheckSecurity(security, flags.web.listen));
  flags.supervisor.enrolment.trusted = security.tls.ca;
  status.Update(CheckEnrolment(flags.supervisor.enrolment));
  if (!status.ok()) return status;
  return flags.backend == "kubernetes" ? ServeKubernetes(flags, clock) : ServeLocal(flags, clock);
}

int Main(int argc, char** argv) {
  service::UseLeanConnections();
  CLI::App app{"AdaptDL supervisor: keeps the jobs, nodes and allocations of a cluster"};
  Flags flags;
  flags.server.name = "supervisor";
  flags.server.listen = "127.0.0.1:7100";
  flags.server.metrics_listen = "127.0.0.1:7200";
  flags.store.folder = "./adaptdl-state";
  service::AddServerFlags(app, &flags.server);
  app.add_option("--backend", flags.backend,
                 "Where replicas run and the state is kept: local (node workers, files) or kubernetes (pods, "
                 "objects)")
      ->check(CLI::IsMember({"local", "kubernetes"}))
      ->capture_default_str();
  app.add_option("--state-dir", flags.store.folder,
                 "Folder that keeps jobs, nodes and events; with --backend kubernetes only the history")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option(
         "--history-dir", flags.history_folder,
         "Folder that keeps the curves of jobs over time, which may be lost without harm; \"none\": they "
         "are kept in memory [history in --state-dir]")
      ->type_name("DIR");
  service::AddDurationFlag(app, "--lease-duration", &flags.lease.duration,
                           "How long the leader among several supervisors of one state may be silent before "
                           "another takes over",
                           absl::Milliseconds(100));
  flags.http.flag = "--adaptdl-http";
  app.add_option("--adaptdl-http", flags.http.listen,
                 "Where to serve programs of AdaptDL's Python package over HTTP (empty: nowhere)")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--adaptdl-http-url", flags.http_url,
                 "Where replicas reach it, as http://HOST:PORT [the port, on the host at which their worker "
                 "reaches the supervisor]");
  app.add_flag(
      "--adaptdl-http-insecure", flags.http_insecure,
      "Serve it on an address that others can reach: it is plaintext, and whoever listens learns the "
      "secrets of replicas");
  app.add_option(
         "--web-listen", flags.web.listen,
         "Where to serve people and their tools by HTTPS, with the certificate of --tls-cert: the series of "
         "jobs for Prometheus, at /metrics/jobs (empty: nowhere)")
      ->type_name("ADDRESS");
  app.add_flag("--web-dashboard", flags.web.dashboard,
               "Serve the web dashboard on --web-listen as well, where people sign in with their tokens");
  app.add_option("--job-series", flags.web.job_series,
                 "Jobs whose series /metrics/jobs has at most; adaptdl_jobs_without_series counts the others")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  ClusterOptions& cluster = flags.supervisor.cluster;
  const absl::Duration shortest = absl::Milliseconds(10);
  service::AddDurationFlag(app, "--heartbeat-period", &cluster.heartbeat_period,
                           "How often nodes send heartbeats; they are lost after three periods of silence",
                           shortest);
  service::AddDurationFlag(app, "--replica-heartbeat-period", &cluster.replica_heartbeat_period,
                           "How often replicas send heartbeats", shortest);
  service::AddDurationFlag(app, "--retry-backoff", &cluster.policy.retry_backoff,
                           "Wait before a failed job's next attempt; doubles with each further failure");
  service::AddDurationFlag(app, "--max-retry-backoff", &cluster.policy.max_retry_backoff,
                           "Longest wait before a failed job's next attempt");
  AdmissionOptions& admission = flags.supervisor.admission;
  app.add_option("--client-calls-per-second", admission.calls_per_second,
                 "Calls that one client may make in the long run; at once, four times as many. 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--client-streams", admission.streams, "Streams that one client may have open. 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--change-queue", admission.queue,
                 "Changes of users that may wait for their turn; more are refused")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  service::AddDurationFlag(app, "--reader-patience", &flags.supervisor.reader_patience,
                           "Streams end whose reader takes nothing for so long", absl::Milliseconds(10));
  service::StrangerOptions& strangers = flags.supervisor.strangers;
  service::AddDurationFlag(app, "--first-message-timeout", &strangers.patience,
                           "How long a connection of a worker, a replica or over HTTP may say nothing at its "
                           "beginning",
                           absl::Milliseconds(10));
  app.add_option("--max-silent-streams", strangers.most,
                 "Streams that may not have said yet whose they are; of the host with most, the oldest goes "
                 "when another one comes")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  service::AddDurationFlag(app, "--start-deadline", &cluster.policy.start_deadline,
                           "A job whose replicas do not run so long after their launch has failed to start");
  app.add_option("--max-jobs-per-namespace", cluster.max_jobs_per_namespace,
                 "Most unfinished jobs of a namespace without a quota of its own for them. 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--max-submissions-per-minute", cluster.max_submissions_per_minute,
                 "Most submissions to a namespace without a quota of its own for them. 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  CodeStoreOptions& code = flags.supervisor.code;
  service::AddBytesFlag(app, "--max-code-archive", &code.max_archive_bytes,
                        "Most bytes of the archive of a folder that travels with a job", 1);
  service::AddBytesFlag(app, "--max-code-per-namespace", &code.max_namespace_bytes,
                        "Most bytes of all archives of a namespace", 1);
  service::AddDurationFlag(app, "--keep-unused-code", &code.keep,
                           "How long archives stay that no job names, after they were touched last");
  app.add_option("--quarantine-after", cluster.quarantine.jobs,
                 "Quarantine a node when replicas of so many jobs have failed on it within "
                 "--quarantine-window and none "
                 "has succeeded. 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  service::AddDurationFlag(app, "--quarantine-window", &cluster.quarantine.window, "See --quarantine-after");
  service::AddDurationFlag(app, "--quarantine-time", &cluster.quarantine.first,
                           "How long the first quarantine of a node lasts; doubles with each further one",
                           absl::Milliseconds(10));
  app.add_option_function<int>(
         "--retain-days",
         [&cluster](int days) {
           cluster.retention = days > 0 ? absl::Hours(24) * days : absl::InfiniteDuration();
         },
         "Forget jobs so long after their end, with their events. 0: keep them for ever")
      ->check(CLI::Range(0, 36500))
      ->default_str("30");
  app.add_flag("--expire-files", cluster.expire_files,
               "Delete the logs, the share and the checkpoints of jobs that are forgotten; without it they "
               "stay on disk");
  EnrolmentOptions& enrolment = flags.supervisor.enrolment;
  app.add_option(
         "--node-authority-cert", enrolment.authority_certificate,
         "Certificate of the authority by which machines are let in as nodes, in PEM (\"adaptdl admin "
         "certificates --node-authority\") [they can't join]")
      ->type_name("FILE");
  app.add_option("--node-authority-key", enrolment.authority_key, "Its private key, in PEM")
      ->type_name("FILE");
  service::AddDurationFlag(
      app, "--node-certificate-lifetime", &enrolment.certificate_lifetime,
      "How long certificates of nodes that have joined are good; workers renew them when a "
      "third is left",
      absl::Seconds(1));
  AddKubernetesFlags(app, &flags.kubernetes);
  return service::RunMain(app, argc, argv, [&] { return Serve(flags); });
}

}  // namespace
}  // namespace adaptdl::supervisor

int main(int argc, char** argv) { return adaptdl::supervisor::Main(argc, argv); }
