#include "tests/integration/kubernetes/scale/scale_run.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "libs/base/file.h"
#include "libs/kube/json/object.h"
#include "libs/rpc/channel.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "tests/integration/kubernetes/scale/left_jobs.h"
#include "tests/kube/no_credentials.h"

namespace adaptdl::integration {
namespace {

using kube::Json;

// Handshakes at a time.
constexpr int kMostForming = 500;

absl::Status TooLong(const std::string& what) { return absl::DeadlineExceededError(what); }

}  // namespace

v1::Hints HintsBoard::Tell(const std::string& job) {
  v1::Hints hints;
  hints.set_init_batch_size(128);
  v1::PerfParams* perf = hints.mutable_perf_params();
  perf->set_alpha_c(0.1);
  perf->set_beta_c(0.01);
  perf->set_alpha_n(0.05);
  perf->set_beta_n(0.001);
  perf->set_alpha_r(0.02);
  perf->set_beta_r(0.001);
  perf->set_gamma(1.5);
  hints.mutable_grad_params()->set_norm(0.1);
  MutexLock lock(&mutex_);
  told_.insert(job);
  int number = 0;
  const bool is_new = absl::SimpleAtoi(absl::StripPrefix(job, "job-"), &number) && number < changed_;
  hints.mutable_grad_params()->set_var(is_new ? 2 : 1);
  return hints;
}

void HintsBoard::Change(int jobs) {
  MutexLock lock(&mutex_);
  changed_ = jobs;
}

int HintsBoard::told() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(told_.size());
}

void HintsBoard::ForgetTold() {
  MutexLock lock(&mutex_);
  told_.clear();
}

kube::KubeletOptions ScaleRun::Hollow(int nodes) {
  Json list = Json::array();
  for (int i = 0; i < nodes; ++i)
    list.push_back({{"name", absl::StrCat("node-", i)},
                    {"allocatable", {{"cpu", "64"}, {"memory", "256Gi"}, {"pods", "110"}}}});
  return {.nodes = kube::Dump(list), .images = R"({"train": {}})", .hollow = true};
}

TestClusterOptions ScaleRun::Programs() const {
  TestClusterOptions programs;
  programs.workers = 0;
  programs.kubernetes = api_.url();
  programs.replica_heartbeat_period = options_.heartbeat_period;
  programs.election_duration = absl::Seconds(15);
  // All of the crowd is one client, by its address.
  programs.supervisor_flags = {"--client-calls-per-second=0", "--client-streams=0",
                               "--max-jobs-per-namespace=0"};
  return programs;
}

ScaleRun::ScaleRun(const ScaleOptions& options)
    : options_(options),
      kubelet_(api_.url(), Hollow(options.nodes)),
      session_(kube::Session::Create(
                   {.server = api_.url(), .credentials = std::make_unique<kube::NoCredentials>()},
                   {.user_agent = "test", .burst = 1'000'000})
                   .value()),
      client_(session_.get()),
      cluster_(Programs()),
      crowd_(*new load::Crowd) {
  crowd_.heartbeat_period = options.heartbeat_period;
  crowd_.hints_period = options.hints_period;
}

ScaleRun::~ScaleRun() { crowd_.ending = true; }

void ScaleRun::Stop() {
  supervisor().Kill();
  kubelet_.Stop();
  api_.Stop();
}

bool ScaleRun::Await(absl::Duration limit, const std::function<bool()>& done) {
  const absl::Time end = absl::Now() + limit;
  while (!done()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(50));
  }
  return true;
}

absl::Status ScaleRun::Prepare() {
  LeftJobsOptions jobs;
  jobs.jobs = options_.jobs;
  jobs.replicas_per_job = options_.replicas_per_job;
  jobs.nodes = options_.nodes;
  jobs.hints = hints_->Tell("");
  jobs.group_key = TestCluster::GroupKey();
  absl::StatusOr<std::vector<v1::LaunchReplica>> left = LeaveJobs(client_, jobs);
  if (!left.ok()) return left.status();
  launches_ = *std::move(left);
  const bool run = Await(absl::Minutes(10), [&] {
    const auto waiting = client_.ListAll(kube::Collection(kube::Pods()), {.fields = "status.phase!=Running"});
    return waiting.ok() && waiting->empty();
  });
  return run ? absl::OkStatus() : TooLong("not all pods run");
}

int ScaleRun::RunningJobs() {
  int running = 0;
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(10));
    v1::ListJobsResponse response;
    if (!cluster_.jobs().ListJobs(&context, request, &response).ok()) return -1;
    for (const v1::Job& job : response.jobs()) {
      int replicas = 0;
      for (const v1::Replica& replica : job.status().replicas())
        replicas += replica.state() == v1::REPLICA_STATE_RUNNING ? 1 : 0;
      running += job.status().phase() == v1::JOB_PHASE_RUNNING && replicas == options_.replicas_per_job;
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return running;
}

absl::Status ScaleRun::AwaitTakenOver(absl::Duration limit) {
  if (const absl::Status leads = cluster_.AwaitSupervisor(0); !leads.ok()) return leads;
  const absl::Status nodes = cluster_.WaitForNodes(options_.nodes, limit);
  if (!nodes.ok()) return nodes;
  const bool all = Await(limit, [&] { return RunningJobs() == options_.jobs; });
  return all ? absl::OkStatus() : TooLong(absl::StrCat("of ", options_.jobs, " jobs run ", RunningJobs()));
}

absl::Status ScaleRun::StartReplicas(absl::Duration limit) {
  grpc::SslCredentialsOptions tls;
  const absl::StatusOr<std::string> ca = ReadWholeFile(cluster_.Security("supervisor").tls.ca);
  if (!ca.ok()) return ca.status();
  tls.pem_root_certs = *ca;
  const auto credentials = grpc::SslCredentials(tls);
  crowd_.connect = [credentials, address = cluster_.supervisor_address()](load::Caller) {
    grpc::ChannelArguments arguments = rpc::MakeChannelArguments();
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetSslTargetNameOverride("supervisor.adaptdl");
    return grpc::CreateCustomChannel(address, credentials, arguments);
  };
  crowd_.hints = [hints = hints_](const std::string& job) { return hints->Tell(job); };
  const int64_t wanted = static_cast<int64_t>(launches_.size());
  const bool formed = Await(limit, [&] {
    while (crowd_.replicas_started < wanted &&
           crowd_.replicas_started - crowd_.replicas_formed < kMostForming) {
      (new load::PlayedReplica(&crowd_, launches_[crowd_.replicas_started++]))->Join(nullptr);
    }
    return crowd_.replicas_formed == wanted || crowd_.dropped > 0;
  });
  if (crowd_.dropped > 0) return absl::UnavailableError("replicas could not join");
  return formed ? absl::OkStatus() : TooLong("not all replicas have joined");
}

absl::Status ScaleRun::AwaitHints(absl::Duration limit) {
  hints_->ForgetTold();
  if (!Await(limit, [&] { return hints_->told() == options_.jobs; }))
    return TooLong("not all jobs have told their hints");
  // Those that were told are taken before those that are told now.
  const int64_t taken = crowd_.hints_taken;
  const bool kept = Await(limit, [&] { return crowd_.hints_taken >= taken + options_.jobs; });
  return kept ? absl::OkStatus() : TooLong("not all hints were taken");
}

std::map<std::string, int64_t> ScaleRun::Calls() const {
  HttpClient http;
  const auto answer = http.Send({.method = "GET", .url = api_.url() + "/-/agents"});
  std::map<std::string, int64_t> calls;
  if (!answer.ok()) return calls;
  const Json agents = kube::ParseJson(answer->body).value_or(Json());
  for (const auto& [agent, counts] : agents.items()) {
    if (!absl::StartsWith(agent, "adaptdl-supervisor/")) continue;
    for (const auto& [call, count] : counts.items()) calls[call] += count.get<int64_t>();
  }
  return calls;
}

std::map<std::string, int64_t> ScaleRun::Changes(const std::map<std::string, int64_t>& calls) {
  std::map<std::string, int64_t> changes;
  for (const auto& [call, count] : calls) {
    const bool reads =
        absl::StartsWith(call, "get ") || absl::StartsWith(call, "list ") || absl::StartsWith(call, "watch ");
    if (!reads && !absl::EndsWith(call, " leases")) changes[call] = count;
  }
  return changes;
}

std::map<std::string, std::string> ScaleRun::Versions() const {
  std::map<std::string, std::string> versions;
  for (const kube::ResourceType& type : {supervisor::AdaptDLJobs(), kube::Pods()}) {
    const auto objects = client_.ListAll(kube::Collection(type));
    if (!objects.ok()) return {};
    for (const Json& object : *objects)
      versions[absl::StrCat(type.plural, " ", kube::KeyOf(object).ToString())] =
          kube::ResourceVersionOf(object);
  }
  return versions;
}

}  // namespace adaptdl::integration
