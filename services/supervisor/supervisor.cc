#include "services/supervisor/supervisor.h"

#include <memory>
#include <utility>

namespace adaptdl::supervisor {

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(const SupervisorOptions& options,
                                                               std::unique_ptr<JobStore> store,
                                                               const Clock* clock,
                                                               std::function<std::string(int)> random_hex) {
  std::unique_ptr<Supervisor> supervisor(new Supervisor(options));
  Supervisor* s = supervisor.get();
  s->store_ = std::move(store);
  const ClusterParts parts{s->store_.get(), &s->launcher_, &s->sessions_,
                           &s->hub_,        clock,         std::move(random_hex)};
  absl::StatusOr<std::unique_ptr<ClusterState>> state = ClusterState::Create(options.cluster, parts);
  if (!state.ok()) return state.status();
  s->state_ = *std::move(state);
  s->jobs_ = std::make_unique<JobServiceImpl>(s->state_.get(), &s->hub_, &s->streams_, &s->workers_);
  s->nodes_ = std::make_unique<NodeServiceImpl>(s->state_.get(), &s->launcher_, &s->streams_);
  s->replicas_ = std::make_unique<ReplicaServiceImpl>(s->state_.get(), &s->sessions_, &s->hub_, &s->streams_);
  s->scheduling_ = std::make_unique<SchedulingServiceImpl>(s->state_.get(), &s->hub_, &s->streams_);
  s->quotas_ = std::make_unique<QuotaServiceImpl>(s->state_.get());
  s->admin_ = std::make_unique<AdminServiceImpl>(s->store_.get(), &s->streams_);
  return supervisor;
}

Supervisor::~Supervisor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void Supervisor::ExportMetrics(std::shared_ptr<prometheus::Registry> registry) {
  metrics_ = std::make_unique<Metrics>(std::move(registry));
  state_->SetMetrics(metrics_.get());
}

void Supervisor::Start() {
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
