// What one supervisor holds: a crowd of played nodes and replicas, one connection each, with heartbeats and
// hints, while jobs are submitted at a steady rate and users watch. The supervisor and the allocator are the
// real programs; nothing is trained.
//
//   cmake --build --preset release --target load_bench
//   build/release/bench/load_bench [-o json] [--nodes 2000] [--replicas 10000] [--submits-per-second 100]
//       [--seconds 60] [--watchers 200] [--members 1000] [--seen]
//
// --seen: afterwards five pairs of windows of half of --seconds, one of which Prometheus looks on in, at what the supervisor
// tells of itself and of each job; the processor's time in both, and what a scrape of both pages has cost by that. Then what a
// scrape of each page costs by itself ("scrape"): many in a row, while nothing is submitted.
//
// Parts, in this order: the nodes register; jobs of ten replicas each are submitted and come to their
// rendezvous; one group of --members forms, its last member held back until all others wait; then the
// measured time, with the submissions and the watchers. Submitted jobs run for a second.
//
// All share the machine, so the crowd's own work counts against the supervisor.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "bench/load/crowd.h"
#include "bench/load/played_node.h"
#include "bench/load/played_replica.h"
#include "bench/load/process_use.h"
#include "bench/load/scrape_cost.h"
#include "bench/load/scraper.h"
#include "bench/load/shared_connections.h"
#include "bench/load/submitter.h"
#include "bench/load/watcher.h"
#include "grpcpp/grpcpp.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/http/http_client.h"
#include "libs/rpc/channel.h"
#include "libs/service/security/token_file.h"
#include "nlohmann/json.hpp"
#include "tests/integration/process.h"

namespace adaptdl::load {
namespace {

using integration::Process;

struct Flags {
  int nodes = 2000;
  int replicas = 10'000;
  int submits_per_second = 100;
  int seconds = 60;
  int watchers = 200;
  int members = 1000;
  int replicas_per_connection = 1;
  bool insecure = false;
  bool seen = false;
  std::string output = "text";
};

constexpr int kReplicasPerJob = 10;
constexpr int kMaxForming = 300;
constexpr int kNamespaces = 20;
// Of windows that are seen or not.
constexpr int kPairs = 5;
constexpr char kRendezvousJob[] = "rendezvous";

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "load_bench: error: %s\n", what.c_str());
  std::fflush(nullptr);
  _exit(1);
}

void Say(const std::string& what) { std::fprintf(stderr, "load_bench: %s\n", what.c_str()); }

void RaiseFileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string ReadFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) Die(text.status().ToString());
  return *text;
}

// The programs under load, and how to reach them.
class Cluster {
 public:
  Cluster(std::string folder, bool insecure, bool seen) : folder_(std::move(folder)), insecure_(insecure) {
    std::filesystem::create_directories(folder_);
    if (!insecure_) MakeCredentials();
    const std::string address_file = folder_ + "/address";
    std::vector<std::string> command = {Binary("adaptdl-supervisor"), "--listen=127.0.0.1:0",
                                        "--metrics-listen=127.0.0.1:0", "--state-dir=" + folder_ + "/state",
                                        "--heartbeat-period=5s", "--replica-heartbeat-period=5s",
                                        "--log-level=warning",
                                        // All of the crowd is one client, by its address or its token.
                                        "--client-calls-per-second=0", "--client-streams=0",
                                        "--max-jobs-per-namespace=0", "--address-file=" + address_file};
    if (seen) command.insert(command.end(), {"--web-listen=127.0.0.1:0", "--job-series=100000"});
    if (!insecure_) command.push_back("--token-file=" + folder_ + "/tokens.json");
    AddTls("supervisor", &command);
    supervisor_ = Process::Start(command, folder_ + "/supervisor.log");
    for (int i = 0; i < 600 && !std::filesystem::exists(address_file); ++i) {
      if (supervisor_.Wait(absl::Milliseconds(50)) >= 0) Die(ReadFile(folder_ + "/supervisor.log"));
    }
    address_ = ReadFile(address_file);
    command = {Binary("adaptdl-allocator"), "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0",
               "--log-level=warning", "--supervisor=" + address_};
    AddTls("allocator", &command);
    allocator_ = Process::Start(command, folder_ + "/allocator.log");
  }

  // A connection of its own.
  std::shared_ptr<grpc::Channel> Connect(Caller caller) const {
    grpc::ChannelArguments arguments = rpc::MakeChannelArguments();
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!insecure_) arguments.SetSslTargetNameOverride("supervisor.adaptdl");
    return grpc::CreateCustomChannel(address_, caller == Caller::kNode ? worker_credentials_ : credentials_,
                                     arguments);
  }

  // What Prometheus gets of the supervisor.
  std::vector<HttpRequest> Pages() const {
    HttpRequest own;
    own.url = absl::StrCat("http://", ReadFile(folder_ + "/address.metrics"), "/metrics");
    own.direct = true;
    HttpRequest of_jobs = own;
    const std::string web = ReadFile(folder_ + "/address.web");
    of_jobs.url = absl::StrCat("http://", web, "/metrics/jobs");
    if (!insecure_) {
      of_jobs.url = "https://supervisor.adaptdl/metrics/jobs";
      of_jobs.connect_to = web;
      of_jobs.tls.ca_pem = ReadFile(folder_ + "/certificates/ca.pem");
      of_jobs.headers = {absl::StrCat("Authorization: Bearer ", user_token_)};
    }
    return {own, of_jobs};
  }

  const std::string& user_token() const { return user_token_; }
  pid_t supervisor() const { return supervisor_.pid(); }
  pid_t allocator() const { return allocator_.pid(); }

  void Stop() {
    supervisor_.Kill();
    allocator_.Kill();
    std::filesystem::remove_all(folder_);
  }

 private:
  static std::string Binary(const std::string& name) {
    return absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/", name);
  }

  void Run(const std::vector<std::string>& command, const std::string& output) {
    Process process = Process::Start(command, output);
    if (process.Wait(absl::Minutes(1)) != 0) Die(absl::StrCat(command[0], ": ", ReadFile(output)));
  }

  void MakeCredentials() {
    const std::string certificates = folder_ + "/certificates";
    Run({Binary("adaptdl"), "admin", "certificates", "--out", certificates}, folder_ + "/certificates.log");
    const RealClock clock;
    const absl::StatusOr<std::string> token =
        security::CreateToken(folder_ + "/tokens.json", {"crowd", security::Role::kAdmin, {}}, clock);
    if (!token.ok()) Die(token.status().ToString());
    user_token_ = *token;
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadFile(certificates + "/ca.pem");
    credentials_ = grpc::SslCredentials(options);
    options.pem_private_key = ReadFile(certificates + "/worker/key.pem");
    options.pem_cert_chain = ReadFile(certificates + "/worker/cert.pem");
    worker_credentials_ = grpc::SslCredentials(options);
  }

  void AddTls(const std::string& service, std::vector<std::string>* command) const {
    if (insecure_) {
      command->push_back("--insecure");
      return;
    }
    const std::string folder = absl::StrCat(folder_, "/certificates/", service);
    command->push_back(absl::StrCat("--tls-cert=", folder, "/cert.pem"));
    command->push_back(absl::StrCat("--tls-key=", folder, "/key.pem"));
    command->push_back(absl::StrCat("--tls-ca=", folder, "/ca.pem"));
  }

  const std::string folder_;
  const bool insecure_;
  // Shared by all connections.
  std::shared_ptr<grpc::ChannelCredentials> credentials_ = grpc::InsecureChannelCredentials();
  std::shared_ptr<grpc::ChannelCredentials> worker_credentials_ = credentials_;
  std::string user_token_;
  std::string address_;
  Process supervisor_;
  Process allocator_;
};

template <typename Condition>
void WaitFor(const std::string& what, absl::Duration limit, const Condition& condition) {
  const absl::Time begin = absl::Now();
  while (!condition()) {
    if (absl::Now() - begin > limit) Die(absl::StrCat(what, ": not within ", absl::FormatDuration(limit)));
    absl::SleepFor(absl::Milliseconds(5));
  }
  Say(absl::StrCat(what, ": ",
                   absl::FormatDuration(absl::Trunc(absl::Now() - begin, absl::Milliseconds(1)))));
}

class Bench {
 public:
  Bench(const Flags& flags, Cluster* cluster, Crowd* crowd)
      : flags_(flags),
        cluster_(cluster),
        crowd_(crowd),
        submitter_(crowd),
        empty_kib_(ResidentKib(cluster->supervisor())) {
    crowd_->on_launch = [this](const v1::LaunchReplica& launch) { OnLaunch(launch); };
  }

  nlohmann::json Run() {
    StartNodes();
    StartReplicas();
    const double rendezvous = FormLargeGroup();
    return Measure(rendezvous);
  }

 private:
  void OnLaunch(const v1::LaunchReplica& launch) {
    if (launch.rank() == 0) submitter_.Launched(launch.job());
    if (absl::StartsWith(launch.job(), kShortLabel)) return;
    auto* replica = new PlayedReplica(crowd_, launch);
    ++crowd_->replicas_started;
    MutexLock lock(&mutex_);
    (launch.job() == kRendezvousJob ? members_ : new_replicas_).push_back(replica);
  }

  void StartNodes() {
    const absl::Time begin = absl::Now();
    const int cpus = (flags_.replicas + flags_.members) / flags_.nodes + 8;
    for (int i = 0; i < flags_.nodes; ++i) {
      auto* node = new PlayedNode(crowd_, absl::StrCat("node-", i));
      const grpc::Status status = node->Start(cpus * 1000);
      if (!status.ok()) Die(absl::StrCat("node-", i, ": ", status.error_message()));
    }
    Say(absl::StrCat(flags_.nodes, " nodes registered: ", absl::FormatDuration(absl::Now() - begin)));
  }

  // Those of the many small jobs join as they are launched.
  void JoinNewReplicas() {
    std::vector<PlayedReplica*> replicas;
    {
      MutexLock lock(&mutex_);
      replicas.swap(new_replicas_);
    }
    for (PlayedReplica* replica : replicas) replica->Join(nullptr);
  }

  void StartReplicas() {
    const int jobs = (flags_.replicas - flags_.members) / kReplicasPerJob;
    const int64_t wanted = static_cast<int64_t>(jobs) * kReplicasPerJob;
    int submitted = 0;
    WaitFor(absl::StrCat(wanted, " replicas in ", jobs, " groups"), absl::Minutes(10), [&] {
      // Some at a time: two cores do not shake ten thousand hands within the time that a connection is given.
      for (; submitted < jobs && submitted * kReplicasPerJob < crowd_->replicas_formed + kMaxForming;
           ++submitted)
        submitter_.Submit(absl::StrCat("long-", submitted), "default", kReplicasPerJob);
      JoinNewReplicas();
      if (crowd_->dropped > 0) Die("replicas could not join");
      return crowd_->replicas_formed >= wanted;
    });
  }

  // Seconds from the last member's call to the last member's answer.
  double FormLargeGroup() {
    submitter_.Submit(kRendezvousJob, "default", flags_.members);
    WaitFor(absl::StrCat(flags_.members, " members launched"), absl::Minutes(5), [&] {
      MutexLock lock(&mutex_);
      return static_cast<int>(members_.size()) == flags_.members;
    });
    const int64_t formed_before = crowd_->replicas_formed;
    for (size_t i = 0; i + 1 < members_.size(); ++i) members_[i]->Join(nullptr);
    // The supervisor knows of a member that has joined by its job.
    const auto stub = v1::JobService::NewStub(crowd_->connect(Caller::kUser));
    WaitFor("all members but one wait", absl::Minutes(5),
            [&] { return Joined(*stub) == flags_.members - 1; });
    const absl::Time begin = absl::Now();
    members_.back()->Join(nullptr);
    WaitFor("the group formed", absl::Minutes(2),
            [&] { return crowd_->replicas_formed - formed_before == flags_.members; });
    return absl::ToDoubleSeconds(absl::Now() - begin);
  }

  int Joined(v1::JobService::Stub& stub) const {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Minutes(1));
    context.AddMetadata("authorization", absl::StrCat("Bearer ", crowd_->user_token));
    v1::GetJobRequest request;
    request.set_name(kRendezvousJob);
    v1::GetJobResponse response;
    const grpc::Status status = stub.GetJob(&context, request, &response);
    if (!status.ok()) Die(absl::StrCat("GetJob: ", status.error_message()));
    int joined = 0;
    for (const v1::Replica& replica : response.job().status().replicas()) joined += replica.joined();
    absl::SleepFor(absl::Milliseconds(50));
    return joined;
  }

  // At the steady rate. How long it took, in seconds.
  double SubmitFor(absl::Duration time) {
    const absl::Time begin = absl::Now();
    const auto submits = static_cast<int>(flags_.submits_per_second * absl::ToDoubleSeconds(time));
    for (int i = 0; i < submits; ++i) {
      absl::SleepFor(begin + absl::Seconds(1) * i / flags_.submits_per_second - absl::Now());
      submitter_.Submit(absl::StrCat(kShortLabel, "-", submitted_), NamespaceOf(submitted_), 1);
      ++submitted_;
    }
    return absl::ToDoubleSeconds(absl::Now() - begin);
  }

  // Cores of the supervisor in a window.
  double CoresOfWindow() {
    const double cpu = CpuSeconds(cluster_->supervisor());
    const double seconds = SubmitFor(absl::Seconds(flags_.seconds) / 2);
    return (CpuSeconds(cluster_->supervisor()) - cpu) / seconds;
  }

  // When nothing is submitted any more, page by page.
  nlohmann::json MeasureScrapes() {
    Say(absl::StrCat(kScrapesInARow, " scrapes of each page in a row"));
    nlohmann::json result;
    for (const HttpRequest& page : cluster_->Pages()) {
      const auto cost = CpuOfScrape(page, cluster_->supervisor(), absl::Seconds(flags_.seconds) / 4);
      if (!cost.ok()) Die(cost.status().ToString());
      result[absl::EndsWith(page.url, "/jobs") ? "jobs_cpu_ms" : "metrics_cpu_ms"] = *cost;
    }
    return result;
  }

  nlohmann::json MeasureSeen() {
    std::vector<double> unseen;
    std::vector<double> seen;
    int64_t scrapes = 0;
    int64_t bytes = 0;
    for (int pair = 0; pair < kPairs; ++pair) {
      Say(absl::StrCat("pair ", pair + 1, " of ", kPairs, ", unseen and seen"));
      // What comes first differs, as the cluster's memory of short jobs grows.
      if (pair % 2 == 0) unseen.push_back(CoresOfWindow());
      {
        Scraper scraper(cluster_->Pages());
        seen.push_back(CoresOfWindow());
        scrapes += scraper.scrapes();
        bytes = scraper.bytes();
      }
      if (pair % 2 == 1) unseen.push_back(CoresOfWindow());
    }
    double difference = 0;
    for (int pair = 0; pair < kPairs; ++pair) difference += seen[pair] - unseen[pair];
    return {{"unseen_cores", unseen},
            {"seen_cores", seen},
            {"scrapes", scrapes},
            {"scraped_mib", static_cast<double>(bytes) / (1 << 20)},
            {"ms_per_scrape", 1000 * difference * flags_.seconds / 2 / static_cast<double>(scrapes)}};
  }

  nlohmann::json Measure(double rendezvous) {
    // With what the supervisor knows of the node or replica at its other end.
    const double per_connection =
        (ResidentKib(cluster_->supervisor()) - empty_kib_) /
        (flags_.nodes + static_cast<double>(crowd_->replicas_formed) / flags_.replicas_per_connection);
    for (int i = 0; i < flags_.watchers; ++i) new Watcher(crowd_, NamespaceOf(i));
    Say(absl::StrCat("measuring for ", flags_.seconds, " s"));
    absl::SleepFor(absl::Seconds(5));
    crowd_->heartbeats.Take();
    crowd_->launches.Take();
    submitter_.answers.Take();
    const int64_t messages = crowd_->watched_messages;
    const int64_t jobs = crowd_->watched_jobs;
    const double cpu = CpuSeconds(cluster_->supervisor());
    const double allocator_cpu = CpuSeconds(cluster_->allocator());
    const double own_cpu = CpuSeconds(getpid());
    const double seconds = SubmitFor(absl::Seconds(flags_.seconds));
    const auto cores = [&](pid_t pid, double before) { return (CpuSeconds(pid) - before) / seconds; };
    nlohmann::json result = {{"supervisor_cores", cores(cluster_->supervisor(), cpu)},
                             {"allocator_cores", cores(cluster_->allocator(), allocator_cpu)},
                             {"crowd_cores", cores(getpid(), own_cpu)}};
    const std::vector<double> heartbeats = crowd_->heartbeats.Take();
    result["heartbeats_per_second"] = static_cast<double>(heartbeats.size()) / seconds;
    result["heartbeat_ms"] = {{"p50", Percentile(heartbeats, 0.5)}, {"p99", Percentile(heartbeats, 0.99)}};
    result["watch_messages_per_second"] = static_cast<double>(crowd_->watched_messages - messages) / seconds;
    result["watched_jobs_per_second"] = static_cast<double>(crowd_->watched_jobs - jobs) / seconds;
    WaitFor("all submitted jobs launched", absl::Minutes(2), [&] { return submitter_.waiting() == 0; });
    const std::vector<double> launches = crowd_->launches.Take();
    result["submit_to_launch_ms"] = {{"p50", Percentile(launches, 0.5)}, {"p99", Percentile(launches, 0.99)}};
    const std::vector<double> answers = submitter_.answers.Take();
    result["submit_ms"] = {{"p50", Percentile(answers, 0.5)}, {"p99", Percentile(answers, 0.99)}};
    result["submits"] = answers.size();
    result["rendezvous_s"] = rendezvous;
    result["dropped"] = crowd_->dropped.load();
    result["rss_mib"] = PeakResidentKib(cluster_->supervisor()) / 1024;
    result["kib_per_connection"] = per_connection;
    if (flags_.seen) {
      result["seen"] = MeasureSeen();
      result["scrape"] = MeasureScrapes();
    }
    result["nodes"] = flags_.nodes;
    result["replicas"] = crowd_->replicas_formed.load();
    result["watchers"] = flags_.watchers;
    return result;
  }

  static std::string NamespaceOf(int index) { return absl::StrCat("team-", index % kNamespaces); }

  const Flags flags_;
  Cluster* const cluster_;
  Crowd* const crowd_;
  Submitter submitter_;
  // Of the supervisor, before anybody came.
  const double empty_kib_;
  // Short jobs so far.
  int submitted_ = 0;
  Mutex mutex_;
  std::vector<PlayedReplica*> new_replicas_;
  std::vector<PlayedReplica*> members_;
};

int Main(int argc, char** argv) {
  CLI::App app{"Measures what one supervisor holds"};
  Flags flags;
  app.add_option("--nodes", flags.nodes)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--replicas", flags.replicas, "Long-running ones, --members included")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--submits-per-second", flags.submits_per_second)
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", flags.seconds, "Measured time")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--watchers", flags.watchers)->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_option("--members", flags.members, "Of the large group")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--replicas-per-connection", flags.replicas_per_connection,
                 "More than one: where a process may not open a file for each")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--insecure", flags.insecure, "Without TLS, to see what that costs");
  app.add_flag("--seen", flags.seen, "Afterwards, what it costs that Prometheus looks on");
  app.add_option("-o,--output", flags.output)->capture_default_str()->check(CLI::IsMember({"text", "json"}));
  CLI11_PARSE(app, argc, argv);
  RaiseFileLimit();
  // The search for lock cycles has one lock for all locks, and would be what is measured.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const std::string folder =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/adaptdl-load-", getpid());
  Cluster cluster(folder, flags.insecure, flags.seen);
  Crowd crowd;
  SharedConnections replicas(flags.replicas_per_connection,
                             [&] { return cluster.Connect(Caller::kReplica); });
  crowd.connect = [&](Caller caller) {
    return caller == Caller::kReplica ? replicas.Next() : cluster.Connect(caller);
  };
  crowd.user_token = cluster.user_token();
  Bench bench(flags, &cluster, &crowd);
  const nlohmann::json result = bench.Run();
  if (flags.output == "json") {
    std::printf("%s\n", result.dump(2).c_str());
  } else {
    for (const auto& [name, value] : result.items())
      std::printf("%-26s %s\n", name.c_str(), value.dump().c_str());
  }
  std::fflush(nullptr);
  crowd.ending = true;
  cluster.Stop();
  // The streams of the crowd are never closed.
  _exit(0);
}

}  // namespace
}  // namespace adaptdl::load

int main(int argc, char** argv) { return adaptdl::load::Main(argc, argv); }
