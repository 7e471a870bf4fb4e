#include "services/worker/supervisor_link.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/base/random_id.h"
#include "libs/messages/proto_time.h"
#include "libs/messages/text.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

constexpr absl::Duration kMinHeartbeatPeriod = absl::Milliseconds(10);
constexpr absl::Duration kDefaultHeartbeatPeriod = absl::Seconds(2);
// Newest version of the protocol that this worker speaks, and the first with HeartbeatAck.
constexpr int kProtocolVersion = 2;
constexpr int kAnswersHeartbeats = 2;
constexpr size_t kMaxText = 16 << 10;

absl::Duration HeartbeatPeriod(const v1::RegisterNodeResponse& response) {
  const absl::Duration period = messages::ToDuration(response.heartbeat_period());
  return period > absl::ZeroDuration() ? std::max(period, kMinHeartbeatPeriod) : kDefaultHeartbeatPeriod;
}

// Many workers lose the same supervisor at the same moment; they must not all come back at the same moment.
absl::Duration WithJitter(absl::Duration pause) {
  static thread_local std::mt19937 random(std::random_device{}());
  return pause * std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

// The supervisor can't read a message with text that is no UTF-8, and would end the stream again and again.
// Messages of the system and of programs may be that.
bool Send(grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>* stream,
          v1::ConnectRequest message) {
  messages::BoundText(kMaxText, &message);
  return stream->Write(message);
}

}  // namespace

SupervisorLink::SupervisorLink(Options options, std::unique_ptr<rpc::Endpoints> supervisors,
                               LinkHandler* handler)
    : options_(std::move(options)),
      supervisors_(std::move(supervisors)),
      handler_(handler),
      register_timeout_(supervisors_->several() ? options_.first_register_timeout
                                                : options_.register_timeout),
      node_(options_.node) {}

SupervisorLink::~SupervisorLink() { Shutdown(); }

void SupervisorLink::Start() {
  thread_ = std::thread([this] { Run(); });
}

void SupervisorLink::Shutdown() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void SupervisorLink::Report(const v1::ReplicaReport& report) {
  const std::string& replica_id = report.replica().replica_id();
  MutexLock lock(&mutex_);
  if (!reports_.contains(replica_id)) report_order_.push_back(replica_id);
  reports_[replica_id] = report;
  changed_.SignalAll();
}

void SupervisorLink::AnnouncePreemption(const v1::PreemptionNotice& notice) {
  MutexLock lock(&mutex_);
  notice_ = notice;
  notice_due_ = true;
  changed_.SignalAll();
}

void SupervisorLink::AnnounceFreePorts() {
  MutexLock lock(&mutex_);
  ports_due_ = true;
  changed_.SignalAll();
}

void SupervisorLink::Offer(int gpus, const std::vector<std::string>& problems) {
  MutexLock lock(&mutex_);
  node_.mutable_capacity()->set_gpus(gpus);
  node_.mutable_problems()->Assign(problems.begin(), problems.end());
  node_changed_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

void SupervisorLink::SetInstance(const std::string& instance_id) {
  MutexLock lock(&mutex_);
  node_.set_instance_id(instance_id);
  node_changed_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

bool SupervisorLink::NodeHasChanged() const {
  MutexLock lock(&mutex_);
  return node_changed_;
}

void SupervisorLink::ConfirmDeletion(const std::string& job_uid) {
  MutexLock lock(&mutex_);
  deleted_.push_back(job_uid);
  changed_.SignalAll();
}

bool SupervisorLink::connected() const {
  MutexLock lock(&mutex_);
  return connected_;
}

void SupervisorLink::Run() {
  Backoff backoff(options_.initial_backoff,
                  supervisors_->several() ? options_.max_failover_backoff : options_.max_backoff);
  do {
    bool heard = false;
    const rpc::Endpoint supervisor = supervisors_->current();
    const absl::Status status = RunSession(supervisor, &heard);
    if (NodeHasChanged()) {
      log::Info("registering again: what the node offers has changed");
      continue;
    }
    // ABORTED is what the leader says to a node that it has given up: register again.
    if (!absl::IsAborted(status)) supervisors_->GoOn(supervisor);
    if (heard) backoff.Reset();
    {
      MutexLock lock(&mutex_);
      connected_ = false;
      if (stopping_) return;
    }
    const absl::Duration pause = backoff.Next();
    log::Warning("no connection to the supervisor; replicas run on",
                 {{"supervisor", supervisor.address},
                  {"error", status.ToString()},
                  {"retry_in", absl::FormatDuration(pause)}});
    if (!WaitBeforeRetry(WithJitter(pause))) return;
  } while (true);
}

bool SupervisorLink::WaitBeforeRetry(absl::Duration pause) {
  const absl::Time end = SteadyNow() + pause;
  MutexLock lock(&mutex_);
  while (!stopping_ && SteadyNow() < end) changed_.WaitFor(&mutex_, end - SteadyNow());
  return !stopping_;
}

bool SupervisorLink::SetContext(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if ((stopping_ || node_changed_) && context != nullptr) return false;
  context_ = context;
  return true;
}

absl::Status SupervisorLink::Register(v1::NodeService::Stub* stub, v1::RegisterNodeResponse* response) {
  v1::RegisterNodeRequest request;
  // A new id for each attempt: each is a registration of its own.
  request.set_request_id(RandomHex(16));
  request.set_protocol_version(kProtocolVersion);
  {
    MutexLock lock(&mutex_);
    *request.mutable_node() = node_;
    node_changed_ = false;
    if (notice_.has_value()) *request.mutable_preemption_notice() = *notice_;
  }
  grpc::ClientContext context;
  rpc::SetTimeout(&context, register_timeout_);
  if (!SetContext(&context)) return absl::CancelledError("ending, or registering again");
  const grpc::Status status = stub->RegisterNode(&context, request, response);
  SetContext(nullptr);
  if (!status.ok()) {
    // A busy one needs longer.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      register_timeout_ = std::min(2 * register_timeout_, options_.register_timeout);
    }
    return rpc::FromGrpcStatus(status);
  }
  if (supervisors_->several()) register_timeout_ = options_.first_register_timeout;
  // One without a term is of an older version, which does not share its state with others.
  if (response->term() > 0 && response->term() < newest_term_) {
    return absl::FailedPreconditionError(
        absl::StrCat("its term, ", response->term(), ", is over: the newest one is ", newest_term_));
  }
  newest_term_ = std::max(newest_term_, response->term());
  return absl::OkStatus();
}

absl::Status SupervisorLink::RunSession(const rpc::Endpoint& supervisor, bool* heard) {
  rpc::AwaitConnection(supervisor.channel.get());
  const std::unique_ptr<v1::NodeService::Stub> stub = v1::NodeService::NewStub(supervisor.channel);
  v1::RegisterNodeResponse registration;
  if (absl::Status status = Register(stub.get(), &registration); !status.ok()) return status;
  const bool answers = registration.protocol_version() >= kAnswersHeartbeats && supervisors_->several();
  const absl::Duration period = answers
                                    ? std::min(HeartbeatPeriod(registration), options_.max_heartbeat_period)
                                    : HeartbeatPeriod(registration);
  const absl::Time start = SteadyNow();

  grpc::ClientContext context;
  if (!SetContext(&context)) return absl::CancelledError("ending, or registering again");
  const std::unique_ptr<Stream> stream = stub->Connect(&context);
  {
    MutexLock lock(&mutex_);
    stream_done_ = false;
    connected_ = true;
    answers_ = answers;
    unanswered_since_ = absl::InfiniteFuture();
    notice_due_ = notice_.has_value();
  }
  log::Info("connected to the supervisor", {{"supervisor", supervisor.address},
                                            {"term", absl::StrCat(registration.term())},
                                            {"session", absl::StrCat(registration.session_id())},
                                            {"heartbeat_period", absl::FormatDuration(period)}});
  std::thread writer([&] { WriteUntilDone(stream.get(), registration.session_id(), period); });
  v1::ConnectResponse command;
  while (stream->Read(&command)) {
    *heard = true;
    {
      MutexLock lock(&mutex_);
      unanswered_since_ = absl::InfiniteFuture();
    }
    if (!command.has_heartbeat_ack()) handler_->OnCommand(command);
  }
  bool silent = false;
  {
    MutexLock lock(&mutex_);
    silent = IsSilent(SteadyNow());
    stream_done_ = true;
    connected_ = false;
    changed_.SignalAll();
  }
  context.TryCancel();  // ends a write that is stuck in flow control
  writer.join();
  const grpc::Status status = stream->Finish();
  SetContext(nullptr);
  // A supervisor that kept the stream for a while took it, even if it had nothing to say.
  *heard = *heard || SteadyNow() - start > 2 * period;
  if (silent) return absl::UnavailableError("the supervisor does not answer heartbeats");
  if (status.ok()) return absl::UnavailableError("the supervisor ended the stream");
  return rpc::FromGrpcStatus(status);
}

bool SupervisorLink::WriteHello(Stream* stream, int64_t session_id) {
  {
    // Whatever changes from here on is reported after the hello; all before is in it.
    MutexLock lock(&mutex_);
    reports_.clear();
    report_order_.clear();
    deleted_.clear();
    ports_due_ = false;
  }
  v1::ConnectRequest message;
  v1::NodeHello& hello = *message.mutable_hello();
  hello.set_node_id(options_.node.node_id());
  hello.set_session_id(session_id);
  for (v1::ReplicaReport& report : handler_->Inventory()) *hello.add_replicas() = std::move(report);
  for (const int port : handler_->FreePorts()) hello.add_free_ports(port);
  hello.set_confirms_deletions(true);
  return Send(stream, std::move(message));
}

void SupervisorLink::WriteUntilDone(Stream* stream, int64_t session_id, absl::Duration period) {
  if (!WriteHello(stream, session_id)) return;  // the reader sees the broken stream
  absl::Time next_heartbeat = SteadyNow() + period;
  while (true) {
    std::vector<v1::ConnectRequest> messages = NextMessages(period, &next_heartbeat);
    if (messages.empty()) return;
    for (v1::ConnectRequest& message : messages) {
      if (!Send(stream, std::move(message))) return;
    }
  }
}

bool SupervisorLink::IsSilent(absl::Time now) const {
  return answers_ && now >= unanswered_since_ + options_.answer_timeout;
}

std::vector<v1::ConnectRequest> SupervisorLink::NextMessages(absl::Duration period,
                                                             absl::Time* next_heartbeat) {
  std::vector<v1::ConnectRequest> messages;
  bool heartbeat = false;
  bool ports = false;
  {
    MutexLock lock(&mutex_);
    while (!stopping_ && !stream_done_ && report_order_.empty() && deleted_.empty() && !notice_due_ &&
           !ports_due_ && SteadyNow() < *next_heartbeat && !IsSilent(SteadyNow())) {
      changed_.WaitFor(&mutex_, *next_heartbeat - SteadyNow());
    }
    if (IsSilent(SteadyNow()) && context_ != nullptr) {
      context_->TryCancel();
      return {};
    }
    if (stopping_ || stream_done_) return {};
    // Before the reports: the ends that follow are explained by it.
    if (notice_due_) *messages.emplace_back().mutable_preemption_notice() = *notice_;
    notice_due_ = false;
    ports = std::exchange(ports_due_, false);
    for (const std::string& replica_id : report_order_) {
      *messages.emplace_back().mutable_replica_report() = std::move(reports_[replica_id]);
    }
    report_order_.clear();
    reports_.clear();
    for (std::string& job_uid : deleted_) {
      messages.emplace_back().mutable_job_files_deleted()->set_job_uid(std::move(job_uid));
    }
    deleted_.clear();
    heartbeat = SteadyNow() >= *next_heartbeat;
    // From the first one that has no answer.
    if (heartbeat && answers_) unanswered_since_ = std::min(unanswered_since_, SteadyNow());
  }
  if (ports) {
    v1::FreePorts free;
    for (const int port : handler_->FreePorts()) free.add_ports(port);
    // Before the reports: a port that was given away is not free any more when its replica ends.
    *messages.emplace(messages.begin())->mutable_free_ports() = std::move(free);
  }
  if (heartbeat) {
    *next_heartbeat = SteadyNow() + period;
    v1::NodeHeartbeat& sign = *messages.emplace_back().mutable_heartbeat();
    if (std::optional<v1::MachineUse> use = handler_->Use()) *sign.mutable_use() = *std::move(use);
    for (v1::ReplicaReport& report : handler_->Unacknowledged()) {
      *messages.emplace_back().mutable_replica_report() = std::move(report);
    }
  }
  return messages;
}

}  // namespace adaptdl::worker
