#include "services/worker/supervisor_link.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/base/random_id.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

constexpr absl::Duration kMinHeartbeatPeriod = absl::Milliseconds(10);
constexpr absl::Duration kDefaultHeartbeatPeriod = absl::Seconds(2);

absl::Duration HeartbeatPeriod(const v1::RegisterNodeResponse& response) {
  const absl::Duration period = absl::Seconds(response.heartbeat_period().seconds()) +
                                absl::Nanoseconds(response.heartbeat_period().nanos());
  return period > absl::ZeroDuration() ? std::max(period, kMinHeartbeatPeriod) : kDefaultHeartbeatPeriod;
}

// Many workers lose the same supervisor at the same moment; they must not all come back at the same moment.
absl::Duration WithJitter(absl::Duration backoff) {
  static thread_local std::mt19937 random(std::random_device{}());
  return backoff * std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

}  // namespace

SupervisorLink::SupervisorLink(Options options, std::unique_ptr<v1::NodeService::StubInterface> stub,
                               LinkHandler* handler)
    : options_(std::move(options)), stub_(std::move(stub)), handler_(handler) {}

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

bool SupervisorLink::connected() const {
  MutexLock lock(&mutex_);
  return connected_;
}

void SupervisorLink::Run() {
  absl::Duration backoff = options_.initial_backoff;
  do {
    bool heard = false;
    const absl::Status status = RunSession(&heard);
    if (heard) backoff = options_.initial_backoff;
    {
      MutexLock lock(&mutex_);
      connected_ = false;
      if (stopping_) return;
    }
    log::Warning("no connection to the supervisor; replicas run on",
                 {{"error", status.ToString()}, {"retry_in", absl::FormatDuration(backoff)}});
    if (!WaitBeforeRetry(WithJitter(backoff))) return;
    backoff = std::min(backoff * 2, options_.max_backoff);
  } while (true);
}

bool SupervisorLink::WaitBeforeRetry(absl::Duration backoff) {
  const absl::Time end = absl::Now() + backoff;
  MutexLock lock(&mutex_);
  while (!stopping_ && absl::Now() < end) changed_.WaitFor(&mutex_, end - absl::Now());
  return !stopping_;
}

bool SupervisorLink::SetContext(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (stopping_ && context != nullptr) return false;
  context_ = context;
  return true;
}

absl::Status SupervisorLink::Register(v1::RegisterNodeResponse* response) {
  v1::RegisterNodeRequest request;
  // A new id for each attempt: each is a registration of its own.
  request.set_request_id(RandomHex(16));
  *request.mutable_node() = options_.node;
  grpc::ClientContext context;
  rpc::SetTimeout(&context, options_.register_timeout);
  if (!SetContext(&context)) return absl::CancelledError("ending");
  const grpc::Status status = stub_->RegisterNode(&context, request, response);
  SetContext(nullptr);
  return rpc::FromGrpcStatus(status);
}

absl::Status SupervisorLink::RunSession(bool* heard) {
  v1::RegisterNodeResponse registration;
  if (absl::Status status = Register(&registration); !status.ok()) return status;
  const absl::Duration period = HeartbeatPeriod(registration);
  const absl::Time start = absl::Now();

  grpc::ClientContext context;
  if (!SetContext(&context)) return absl::CancelledError("ending");
  const std::unique_ptr<Stream> stream = stub_->Connect(&context);
  {
    MutexLock lock(&mutex_);
    stream_done_ = false;
    connected_ = true;
    notice_due_ = notice_.has_value();
  }
  log::Info("connected to the supervisor", {{"session", absl::StrCat(registration.session_id())},
                                            {"heartbeat_period", absl::FormatDuration(period)}});
  std::thread writer([&] { WriteUntilDone(stream.get(), registration.session_id(), period); });
  v1::ConnectResponse command;
  while (stream->Read(&command)) {
    *heard = true;
    handler_->OnCommand(command);
  }
  {
    MutexLock lock(&mutex_);
    stream_done_ = true;
    connected_ = false;
    changed_.SignalAll();
  }
  context.TryCancel();  // ends a write that is stuck in flow control
  writer.join();
  const grpc::Status status = stream->Finish();
  SetContext(nullptr);
  // A supervisor that kept the stream for a while took it, even if it had nothing to say.
  *heard = *heard || absl::Now() - start > 2 * period;
  if (status.ok()) return absl::UnavailableError("the supervisor ended the stream");
  return rpc::FromGrpcStatus(status);
}

bool SupervisorLink::WriteHello(Stream* stream, int64_t session_id) {
  {
    // Whatever changes from here on is reported after the hello; all before is in it.
    MutexLock lock(&mutex_);
    reports_.clear();
    report_order_.clear();
    ports_due_ = false;
  }
  v1::ConnectRequest message;
  v1::NodeHello& hello = *message.mutable_hello();
  hello.set_node_id(options_.node.node_id());
  hello.set_session_id(session_id);
  for (v1::ReplicaReport& report : handler_->Inventory()) *hello.add_replicas() = std::move(report);
  for (const int port : handler_->FreePorts()) hello.add_free_ports(port);
  return stream->Write(message);
}

void SupervisorLink::WriteUntilDone(Stream* stream, int64_t session_id, absl::Duration period) {
  if (!WriteHello(stream, session_id)) return;  // the reader sees the broken stream
  absl::Time next_heartbeat = absl::Now() + period;
  while (true) {
    const std::vector<v1::ConnectRequest> messages = NextMessages(period, &next_heartbeat);
    if (messages.empty()) return;
    for (const v1::ConnectRequest& message : messages) {
      if (!stream->Write(message)) return;
    }
  }
}

std::vector<v1::ConnectRequest> SupervisorLink::NextMessages(absl::Duration period,
                                                             absl::Time* next_heartbeat) {
  std::vector<v1::ConnectRequest> messages;
  bool heartbeat = false;
  bool ports = false;
  {
    MutexLock lock(&mutex_);
    while (!stopping_ && !stream_done_ && report_order_.empty() && !notice_due_ && !ports_due_ &&
           absl::Now() < *next_heartbeat) {
      changed_.WaitFor(&mutex_, *next_heartbeat - absl::Now());
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
    heartbeat = absl::Now() >= *next_heartbeat;
  }
  if (ports) {
    v1::FreePorts free;
    for (const int port : handler_->FreePorts()) free.add_ports(port);
    // Before the reports: a port that was given away is not free any more when its replica ends.
    *messages.emplace(messages.begin())->mutable_free_ports() = std::move(free);
  }
  if (heartbeat) {
    *next_heartbeat = absl::Now() + period;
    messages.emplace_back().mutable_heartbeat();
    for (v1::ReplicaReport& report : handler_->Unacknowledged()) {
      *messages.emplace_back().mutable_replica_report() = std::move(report);
    }
  }
  return messages;
}

}  // namespace adaptdl::worker
