#include "libs/comm/membership.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "libs/base/clock.h"
#include "libs/base/utf8.h"
#include "libs/comm/threads.h"

namespace adaptdl::comm {
namespace {

// How long a collective under way may go on without a member that has gone, and how long a broken connection
// waits for an explanation.
constexpr absl::Duration kGrace = absl::Milliseconds(200);
constexpr absl::Duration kShortestPeriod = absl::Milliseconds(5);
constexpr absl::Duration kLongestPeriod = absl::Seconds(1);
constexpr size_t kRecent = 256;
constexpr size_t kLongestText = 1000;

std::string Ranks(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

}  // namespace

// As it travels: fixed size, then `text_bytes` of text.
struct Membership::Message {
  enum class Kind : uint8_t {
    kFailed,    // code and text: the group is to fail, as of collective `number`
    kLost,      // text: member `rank` is lost
    kFarewell,  // member `rank` has finished `number` collectives and leaves
    kReport,    // member `rank` waits in collective `number`
    kPosition,  // an answer to a report: member `rank` has finished `number` collectives
  };

  Kind kind = Kind::kFailed;
  uint8_t code = 0;
  uint16_t text_bytes = 0;
  int32_t rank = 0;
  uint64_t number = 0;
  int64_t period_ns = 0;  // of a report: until the next one
  Signature signature;
};

Membership::Membership(const ConnectOptions& options, TcpRendezvous::Meeting meeting,
                       std::function<void()> on_failure)
    : rank_(options.rank),
      size_(options.size),
      on_failure_(std::move(on_failure)),
      members_(options.size),
      recent_(kRecent) {
  if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) wake_[0] = wake_[1] = -1;
  for (size_t i = 0; i < meeting.links.size(); ++i) {
    if (!meeting.links[i].open()) continue;
    auto link = std::make_unique<Link>();
    link->peer = static_cast<int>(i);
    link->socket = std::move(meeting.links[i]);
    link->received = std::move(meeting.received);
    links_.push_back(std::move(link));
  }
  SignalsBlocked blocked;
  thread_ = std::thread([this] { Watch(); });
}

Membership::~Membership() {
  Message farewell;
  farewell.kind = Message::Kind::kFarewell;
  farewell.rank = rank_;
  {
    MutexLock lock(&mutex_);
    farewell.number = done_;
  }
  SendToAll(farewell, "", nullptr);
  // A byte, and not the pipe's end: a forked child may hold on to that.
  ending_ = true;
  (void)!write(wake_[1], "", 1);
  thread_.join();
  close(wake_[1]);
  close(wake_[0]);
}

absl::Status Membership::status() {
  MutexLock lock(&mutex_);
  return failure_;
}

absl::Status Membership::AwaitFailure(absl::Duration time) {
  MutexLock lock(&mutex_);
  const absl::Time end = SteadyNow() + time;
  while (failure_.ok() && SteadyNow() < end) changed_.WaitFor(&mutex_, end - SteadyNow());
  return failure_;
}

absl::Status Membership::Begin(uint64_t number, const Signature& signature, absl::Duration timeout) {
  absl::Status gone;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    gone = deferred_;
    const absl::Time now = SteadyNow();
    const absl::Duration period = std::clamp(timeout / 8, kShortestPeriod, kLongestPeriod);
    current_ = Current{number, signature, now, timeout, period};
    moved_ = now;
    if (period < period_) (void)!write(wake_[1], "", 1);
    period_ = period;
    next_report_ = now + period;
    recent_[number % kRecent] = signature;
    for (int rank = 0; rank < size_ && gone.ok(); ++rank) {
      if (members_[rank].gone && members_[rank].done <= number) gone = GoneStatus(rank);
    }
    if (gone.ok()) return absl::OkStatus();
  }
  return Fail(gone);
}

absl::Status Membership::End() {
  MutexLock lock(&mutex_);
  current_.reset();
  moved_ = SteadyNow();
  next_report_ = absl::InfiniteFuture();
  grace_end_ = absl::InfiniteFuture();
  if (failure_.ok()) ++done_;
  return failure_;
}

void Membership::SetStep(int peer, int step, int steps) {
  MutexLock lock(&mutex_);
  if (!current_) return;
  current_->peer = peer;
  current_->step = step;
  current_->steps = steps;
  current_->bulk = false;
  moved_ = SteadyNow();
}

void Membership::SetPeer(int peer, bool bulk) {
  MutexLock lock(&mutex_);
  if (!current_) return;
  current_->peer = peer;
  current_->bulk = bulk;
  moved_ = SteadyNow();
}

std::optional<Standing> Membership::standing() {
  MutexLock lock(&mutex_);
  if (!failure_.ok()) return std::nullopt;
  Standing standing;
  standing.stalled = SteadyNow() - moved_;
  standing.collective = done_;
  if (!current_) return standing;
  standing.collective = current_->number;
  standing.step = current_->step;
  standing.peer = current_->peer;
  if (current_->bulk) standing.stalled = absl::ZeroDuration();
  return standing;
}

absl::Status Membership::Fail(const absl::Status& status) { return Fail(status, status); }

absl::Status Membership::Fail(const absl::Status& here, const absl::Status& elsewhere) {
  Message message;
  message.kind = Message::Kind::kFailed;
  message.code = static_cast<uint8_t>(elsewhere.code());
  message.rank = rank_;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    message.number = current_ ? current_->number : done_;
  }
  SendToAll(message, elsewhere.message(), nullptr);
  return FailLocally(here);
}

absl::Status Membership::FailLocally(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    failure_ = status;
    changed_.SignalAll();
  }
  on_failure_();
  return status;
}

absl::Status Membership::Broken(int peer, absl::string_view error) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    const absl::Time end = SteadyNow() + kGrace;
    const auto explained = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !failure_.ok() || !deferred_.ok() || members_[peer].gone;
    };
    while (!explained() && SteadyNow() < end) changed_.WaitFor(&mutex_, end - SteadyNow());
    if (!failure_.ok()) return failure_;
    if (!deferred_.ok()) {
      status = deferred_;
    } else if (members_[peer].gone) {
      status = GoneStatus(peer);
    } else {
      status = absl::UnavailableError(
          absl::StrCat(Where(), ": the connection between ranks ", rank_, " and ", peer, " broke: ", error));
    }
  }
  return Fail(status);
}

absl::Status Membership::Mismatch(int peer, uint64_t its_number, const Signature& its_signature) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    // This member may be further on: what it began under the same number tells more.
    const uint64_t number = std::min(its_number, current_ ? current_->number : done_);
    status = absl::FailedPreconditionError(absl::StrCat(
        "the members started different collectives: rank ", peer, " ", Describe(its_signature), " as number ",
        its_number, ", rank ", rank_, " ", Describe(recent_[number % kRecent]), " as number ", number));
  }
  return Fail(status);
}

// For example "all-reduce (sum) of 8 bytes of float64, number 12, step 2 of 4".
std::string Membership::Where() {
  if (!current_) return "between two collectives";
  std::string where = absl::StrCat(Describe(current_->signature), ", number ", current_->number);
  if (current_->steps > 0) absl::StrAppend(&where, ", step ", current_->step, " of ", current_->steps);
  return where;
}

absl::Status Membership::GoneStatus(int rank) {
  return absl::UnavailableError(absl::StrCat(Where(), ": ", members_[rank].why));
}

std::string Membership::Suspects(absl::Time now) {
  const auto silent = [&](int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return now - members_[rank].heard > 5 * current_->period / 2;
  };
  // What the others report comes by way of rank 0.
  if (rank_ != 0 && silent(0)) return "rank 0 has not answered";
  std::vector<int> absent;
  std::vector<int> stuck;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    if (members_[rank].begun <= current_->number) {
      absent.push_back(rank);
    } else if (members_[rank].begun == current_->number + 1 && silent(rank)) {
      stuck.push_back(rank);
    }
  }
  std::vector<std::string> parts;
  if (!stuck.empty()) parts.push_back(absl::StrCat(Ranks(stuck), " began it and fell silent"));
  if (!absent.empty()) {
    parts.push_back(absl::StrCat(Ranks(absent), absent.size() == 1 ? " has" : " have", " not arrived"));
  }
  if (parts.empty()) {
    parts.push_back(current_->peer >= 0 ? absl::StrCat("rank ", current_->peer, " is slow")
                                        : "all members are there, and slow");
  }
  return absl::StrJoin(parts, "; ");
}

absl::Time Membership::NextWake(absl::Time now) {
  MutexLock lock(&mutex_);
  // A collective that begins while the thread sleeps wakes it only if its period is shorter than the last.
  absl::Time next = std::min(now + period_, grace_end_);
  if (current_ && failure_.ok()) next = std::min({next, next_report_, current_->start + current_->timeout});
  return next;
}

void Membership::Watch() {
  char drained[64];
  for (;;) {
    std::vector<pollfd> entries = {{wake_[0], POLLIN, 0}};
    for (const auto& link : links_) {
      entries.push_back({link->socket.fd(), POLLIN, 0});  // ignored by poll once closed (-1)
    }
    const absl::Time now = SteadyNow();
    const absl::Duration wait =
        absl::Ceil(std::max(NextWake(now) - now, absl::ZeroDuration()), absl::Milliseconds(1));
    (void)poll(entries.data(), entries.size(), static_cast<int>(absl::ToInt64Milliseconds(wait)));
    if (ending_) return;
    if (entries[0].revents != 0) (void)!read(wake_[0], drained, sizeof(drained));
    for (size_t i = 0; i < links_.size(); ++i) {
      if (entries[i + 1].revents != 0) Read(links_[i].get());
    }
    Pass(SteadyNow());
  }
}

// What has become due.
void Membership::Pass(absl::Time now) {
  absl::Status failure;
  std::optional<Current> report;
  {
    MutexLock lock(&mutex_);
    if (!current_ || !failure_.ok()) return;
    if (now >= current_->start + current_->timeout) {
      failure = absl::DeadlineExceededError(absl::StrCat(
          Where(), ", took longer than ", absl::FormatDuration(current_->timeout), ": ", Suspects(now)));
    } else if (now >= grace_end_) {
      failure = deferred_;
      for (int rank = 0; rank < size_ && failure.ok(); ++rank) {
        if (members_[rank].gone && members_[rank].done <= current_->number) failure = GoneStatus(rank);
      }
    } else if (now >= next_report_) {
      next_report_ = now + current_->period;
      report = current_;
    }
  }
  if (report) Report(*report);
  if (!failure.ok()) (void)Fail(failure);
}

void Membership::Report(const Current& current) {
  Message message;
  message.kind = Message::Kind::kReport;
  message.rank = rank_;
  message.number = current.number;
  message.period_ns = absl::ToInt64Nanoseconds(current.period);
  message.signature = current.signature;
  SendToAll(message, "", nullptr);
}

void Membership::Read(Link* link) {
  const bool open = ReceiveSome(link->socket, &link->received);
  Message message;
  while (link->received.size() >= sizeof(message)) {
    std::memcpy(&message, link->received.data(), sizeof(message));
    if (link->received.size() < sizeof(message) + message.text_bytes) break;
    const std::string text = link->received.substr(sizeof(message), message.text_bytes);
    link->received.erase(0, sizeof(message) + message.text_bytes);
    if (message.rank >= 0 && message.rank < size_ && message.rank != rank_) Handle(link, message, text);
  }
  if (open) return;
  {
    MutexLock lock(&link->send_mutex);
    link->socket.Close();
  }
  {
    MutexLock lock(&mutex_);
    if (members_[link->peer].gone) return;
  }
  Message lost;
  lost.kind = Message::Kind::kLost;
  lost.rank = link->peer;
  SendToAll(lost, "", link);
  HandleGone(link->peer, 0, absl::StrCat("rank ", link->peer, " is lost"));
}

void Membership::Handle(Link* from, const Message& message, const std::string& text) {
  switch (message.kind) {
    case Message::Kind::kFailed:
      SendToAll(message, text, from);
      return HandleFailed(message.number, absl::Status(static_cast<absl::StatusCode>(message.code), text));
    case Message::Kind::kLost:
      SendToAll(message, text, from);
      return HandleGone(message.rank, 0, absl::StrCat("rank ", message.rank, " is lost"));
    case Message::Kind::kFarewell:
      SendToAll(message, text, from);
      return HandleGone(
          message.rank, message.number,
          absl::StrCat("rank ", message.rank, " has left after ", message.number, " collectives"));
    case Message::Kind::kReport:
      SendToAll(message, text, from);
      NotePosition(message.rank, message.number + 1);
      KeepPace(message.number, absl::Nanoseconds(message.period_ns));
      Answer(message.number);
      return Compare(message.rank, message.number, message.signature);
    case Message::Kind::kPosition:
      SendToAll(message, text, from);
      return NotePosition(message.rank, message.number);
  }
}

// A member that is further on has done its part in what is under way here, which may come to its end.
void Membership::HandleFailed(uint64_t number, const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (current_ && current_->number < number) {
      if (deferred_.ok()) deferred_ = status;
      grace_end_ = std::min(grace_end_, SteadyNow() + kGrace);
      changed_.SignalAll();
      return;
    }
  }
  (void)FailLocally(status);
}

void Membership::NotePosition(int rank, uint64_t begun) {
  MutexLock lock(&mutex_);
  members_[rank].begun = std::max(members_[rank].begun, begun);
  members_[rank].heard = SteadyNow();
}

// A member that waits in the same collective for less long needs to hear more often from all that wait.
void Membership::KeepPace(uint64_t number, absl::Duration period) {
  MutexLock lock(&mutex_);
  if (!current_ || current_->number != number || period >= current_->period) return;
  current_->period = std::max(period, kShortestPeriod);
  next_report_ = absl::InfinitePast();
}

// Whoever has that collective behind it is not to blame. Rank 0 always answers: no other report comes past
// it.
void Membership::Answer(uint64_t number) {
  Message message;
  message.kind = Message::Kind::kPosition;
  message.rank = rank_;
  {
    MutexLock lock(&mutex_);
    if (done_ <= number && rank_ != 0) return;
    message.number = done_;
  }
  SendToAll(message, "", nullptr);
}

// Only what this member has begun itself can be compared; what it has not, it will when that is reported
// again.
void Membership::Compare(int rank, uint64_t number, const Signature& signature) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    const uint64_t begun = done_ + (current_ ? 1 : 0);
    if (!failure_.ok() || number >= begun || number + kRecent < begun) return;
    const Signature& mine = recent_[number % kRecent];
    if (mine == signature) return;
    status = absl::FailedPreconditionError(
        absl::StrCat("the members started different collectives as number ", number, ": rank ", rank, " ",
                     Describe(signature), ", rank ", rank_, " ", Describe(mine)));
  }
  (void)Fail(status);
}

void Membership::HandleGone(int rank, uint64_t done, const std::string& why) {
  MutexLock lock(&mutex_);
  Member& member = members_[rank];
  if (member.gone) return;
  member.gone = true;
  member.done = done;
  member.why = why;
  if (current_ && done <= current_->number) grace_end_ = std::min(grace_end_, SteadyNow() + kGrace);
  changed_.SignalAll();
}

void Membership::SendTo(Link* link, Message message, absl::string_view text) {
  text = CutUtf8(text, kLongestText);
  message.text_bytes = static_cast<uint16_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&message), sizeof(message));
  bytes.append(text.data(), text.size());
  MutexLock lock(&link->send_mutex);
  if (!link->socket.open()) return;
  // Never waits: a member that does not read is not worth it. A message that went out in part would garble
  // all that follow, so that is the end of the connection.
  const ssize_t sent = send(link->socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0 && static_cast<size_t>(sent) < bytes.size()) shutdown(link->socket.fd(), SHUT_RDWR);
}

void Membership::SendToAll(const Message& message, absl::string_view text, const Link* except) {
  for (const auto& link : links_) {
    if (link.get() != except) SendTo(link.get(), message, text);
  }
}

}  // namespace adaptdl::comm
