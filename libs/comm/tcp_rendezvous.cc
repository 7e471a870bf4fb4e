#include "libs/comm/tcp_rendezvous.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "libs/base/clock.h"

namespace adaptdl::comm {
namespace {

constexpr uint32_t kMagic = 0x41445245;  // changes with every incompatible change of the records
constexpr uint32_t kLongestRecord = 8u << 20;
constexpr size_t kMostGuests = 4096;

enum class RecordKind : uint32_t { kHello, kComplete, kRefused, kWaiting };

// In front of every record.
struct RecordHeader {
  uint32_t magic = kMagic;
  RecordKind kind = RecordKind::kHello;
  uint32_t bytes = 0;  // that follow
};

struct Record {
  RecordKind kind = RecordKind::kHello;
  std::vector<std::string> fields;
};

std::string Encode(RecordKind kind, const std::vector<std::string>& fields) {
  std::string body;
  for (const std::string& field : fields) {
    const auto length = static_cast<uint32_t>(field.size());
    body.append(reinterpret_cast<const char*>(&length), sizeof(length));
    body.append(field);
  }
  RecordHeader header;
  header.kind = kind;
  header.bytes = static_cast<uint32_t>(body.size());
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + body;
}

// Takes the first record off `*received`. Empty: not all of it is there yet. A status: it is not one of ours.
absl::StatusOr<std::optional<Record>> Decode(std::string* received) {
  RecordHeader header;
  if (received->size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, received->data(), sizeof(header));
  if (header.magic != kMagic || header.bytes > kLongestRecord) {
    return absl::InvalidArgumentError("the peer does not speak this version's protocol");
  }
  if (received->size() < sizeof(header) + header.bytes) return std::nullopt;
  absl::string_view body = absl::string_view(*received).substr(sizeof(header), header.bytes);
  Record record;
  record.kind = header.kind;
  while (!body.empty()) {
    uint32_t length = 0;
    if (body.size() < sizeof(length)) return absl::InvalidArgumentError("a broken record");
    std::memcpy(&length, body.data(), sizeof(length));
    body.remove_prefix(sizeof(length));
    if (body.size() < length) return absl::InvalidArgumentError("a broken record");
    record.fields.emplace_back(body.substr(0, length));
    body.remove_prefix(length);
  }
  received->erase(0, sizeof(header) + header.bytes);
  return record;
}

// Takes as long for a token that is nearly right as for any other of its length.
bool SameToken(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

std::string MissingText(const TcpRendezvous::Meeting& meeting) {
  std::vector<std::string> missing;
  for (size_t rank = 1; rank < meeting.links.size(); ++rank) {
    if (!meeting.links[rank].open()) missing.push_back(absl::StrCat("rank ", rank));
  }
  return absl::StrCat(absl::StrJoin(missing, ", "), missing.size() == 1 ? " has" : " have", " not arrived");
}

bool Complete(const TcpRendezvous::Meeting& meeting) {
  return std::all_of(meeting.links.begin() + 1, meeting.links.end(),
                     [](const Socket& link) { return link.open(); });
}

// To every member that is here; one that cannot be reached is noticed when it does not read on.
void Tell(const TcpRendezvous::Meeting& meeting, const std::string& record, absl::Time deadline) {
  for (size_t rank = 1; rank < meeting.links.size(); ++rank) {
    if (meeting.links[rank].open()) (void)SendAll(meeting.links[rank], record, deadline);
  }
}

std::vector<std::string> StatusFields(const absl::Status& status) {
  return {absl::StrCat(static_cast<int>(status.code())), std::string(status.message())};
}

absl::Status StatusOf(const std::vector<std::string>& fields) {
  int code = 0;
  if (fields.size() != 2 || !absl::SimpleAtoi(fields[0], &code) || code <= 0) {
    return absl::InternalError("rank 0 turned this member away and did not say why");
  }
  return absl::Status(static_cast<absl::StatusCode>(code), fields[1]);
}

absl::Status OverStatus(int64_t group, int64_t lowest) {
  return absl::AbortedError(absl::StrCat("group ", group, " is over: group ", lowest, " follows"));
}

struct HostAndPort {
  std::string host;
  int port = 0;
};

absl::StatusOr<HostAndPort> Parse(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rendezvous address \"", address, "\" is not of the form host:port"));
  }
  return HostAndPort{address.substr(0, colon), port};
}

void Refuse(const Socket& socket, const absl::Status& status) {
  // To a stranger: one attempt, no waiting.
  (void)SendAll(socket, Encode(RecordKind::kRefused, StatusFields(status)), absl::InfinitePast());
}

}  // namespace

TcpRendezvous::TcpRendezvous(Socket listener, Socket first, std::string address)
    : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      lowest_(std::numeric_limits<int64_t>::min()),
      listener_(std::move(listener)),
      first_(std::move(first)),
      address_(std::move(address)) {}

absl::StatusOr<std::unique_ptr<TcpRendezvous>> TcpRendezvous::Host(const std::string& host, int port) {
  absl::StatusOr<Socket> listener = Listen(port);
  if (!listener.ok()) return listener.status();
  const absl::StatusOr<int> bound = PortOf(*listener);
  if (!bound.ok()) return bound.status();
  const std::string address = absl::StrCat(host, ":", *bound);
  return std::unique_ptr<TcpRendezvous>(new TcpRendezvous(*std::move(listener), Socket(), address));
}

absl::StatusOr<std::unique_ptr<TcpRendezvous>> TcpRendezvous::Join(const std::string& address,
                                                                   absl::Duration timeout) {
  const absl::StatusOr<HostAndPort> where = Parse(address);
  if (!where.ok()) return where.status();
  absl::StatusOr<Socket> first = ConnectTo(where->host, where->port, SteadyNow() + timeout);
  if (!first.ok()) return first.status();
  return std::unique_ptr<TcpRendezvous>(new TcpRendezvous(Socket(), *std::move(first), address));
}

absl::StatusOr<TcpRendezvous::Meeting> TcpRendezvous::Meet(const ConnectOptions& options,
                                                           const std::string& part) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " is not in a group of ", options.size));
  }
  if (options.rank == 0 && options.size > 1 && !listener_.open()) {
    return absl::InvalidArgumentError("rank 0 must host the rendezvous");
  }
  MutexLock lock(&mutex_);
  int64_t lowest = lowest_;
  while (lowest < options.group && !lowest_.compare_exchange_weak(lowest, options.group)) {
  }
  if (absl::Status over = CheckNotOver(options.group); !over.ok()) return over;
  return options.rank == 0 ? Receive(options, part) : Visit(options, part);
}

void TcpRendezvous::RefuseBelow(int64_t group) {
  int64_t lowest = lowest_;
  while (lowest < group && !lowest_.compare_exchange_weak(lowest, group)) {
  }
  (void)eventfd_write(wake_.fd(), 1);
}

absl::Status TcpRendezvous::CheckNotOver(int64_t group) const {
  const int64_t lowest = lowest_;
  return group < lowest ? OverStatus(group, lowest) : absl::OkStatus();
}

void TcpRendezvous::TakeWake() {
  eventfd_t count = 0;
  (void)eventfd_read(wake_.fd(), &count);
}

absl::StatusOr<TcpRendezvous::Meeting> TcpRendezvous::Receive(const ConnectOptions& options,
                                                              const std::string& part) {
  const absl::Time deadline = SteadyNow() + options.ConnectTimeout();
  Meeting meeting;
  meeting.parts.resize(options.size);
  meeting.parts[0] = part;
  meeting.links.resize(options.size);
  for (Guest& guest : guests_) guest.elsewhere = false;
  while (!Complete(meeting)) {
    if (const absl::Status over = CheckNotOver(options.group); !over.ok()) {
      Tell(meeting, Encode(RecordKind::kRefused, StatusFields(over)), absl::InfinitePast());
      return over;
    }
    bool somebody_came = false;
    std::vector<Guest> others;
    for (Guest& guest : guests_) {
      const bool here = ReceiveSome(guest.socket, &guest.received);
      if (!here || guest.received.size() > kLongestRecord) continue;
      if (Seat(options, &guest, &meeting)) {
        somebody_came = true;
      } else if (guest.socket.open()) {
        others.push_back(std::move(guest));
      }
    }
    guests_ = std::move(others);
    if (Complete(meeting)) break;
    if (somebody_came) Tell(meeting, Encode(RecordKind::kWaiting, {MissingText(meeting)}), deadline);
    if (SteadyNow() >= deadline) {
      const absl::Status late = absl::DeadlineExceededError(
          absl::StrCat("forming group ", options.group, " of ", options.size, ": ", MissingText(meeting),
                       " within ", absl::FormatDuration(options.ConnectTimeout())));
      Tell(meeting, Encode(RecordKind::kRefused, StatusFields(late)), deadline);
      return late;
    }
    AwaitGuests(meeting, deadline);
    // Members that gave up while they waited for the others may come again.
    for (size_t rank = 1; rank < meeting.links.size(); ++rank) {
      std::string said;
      if (meeting.links[rank].open() && !ReceiveSome(meeting.links[rank], &said)) meeting.links[rank].Close();
    }
  }
  Tell(meeting, Encode(RecordKind::kComplete, meeting.parts), deadline);
  return meeting;
}

void TcpRendezvous::AwaitGuests(const Meeting& meeting, absl::Time deadline) {
  std::vector<pollfd> entries = {{listener_.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
  for (const Guest& guest : guests_) {
    if (!guest.elsewhere) entries.push_back({guest.socket.fd(), POLLIN, 0});
  }
  for (const Socket& link : meeting.links) {
    if (link.open()) entries.push_back({link.fd(), POLLIN, 0});
  }
  const absl::Duration left = std::clamp(deadline - SteadyNow(), absl::ZeroDuration(), absl::Hours(1));
  (void)poll(entries.data(), entries.size(),
             static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
  TakeWake();
  for (Socket socket = Accept(listener_); socket.open(); socket = Accept(listener_)) {
    if (guests_.size() >= kMostGuests) guests_.erase(guests_.begin());
    guests_.push_back({std::move(socket), "", false});
  }
}

// True when the guest was a member of this group, which now has its place. Closes those that belong nowhere.
bool TcpRendezvous::Seat(const ConnectOptions& options, Guest* guest, Meeting* meeting) {
  // Decoded from a copy: the guest may belong to a later meeting.
  std::string received = guest->received;
  absl::StatusOr<std::optional<Record>> record = Decode(&received);
  absl::Status refusal = record.status();
  int64_t group = 0;
  int rank = 0;
  int size = 0;
  if (record.ok()) {
    if (!record->has_value()) return false;
    const std::vector<std::string>& fields = (*record)->fields;
    if ((*record)->kind != RecordKind::kHello || fields.size() != 6 || !absl::SimpleAtoi(fields[0], &group) ||
        !absl::SimpleAtoi(fields[2], &rank) || !absl::SimpleAtoi(fields[3], &size)) {
      refusal = absl::InvalidArgumentError("a broken record");
    } else if (group > options.group) {
      guest->elsewhere = true;
      return false;
    } else if (group < options.group) {
      refusal = OverStatus(group, options.group);
    } else if (!SameToken(fields[1], options.token)) {
      refusal = absl::PermissionDeniedError(
          absl::StrCat("group ", options.group, " has another token than this member"));
    } else if (fields[5] != options.channel) {
      guest->elsewhere = true;
      return false;
    } else if (size != options.size || rank < 1 || rank >= options.size) {
      refusal = absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", size, " is not in group ",
                                                        options.group, ", which has ", options.size));
    }
  }
  if (!refusal.ok()) {
    Refuse(guest->socket, refusal);
    guest->socket.Close();
    return false;
  }
  meeting->parts[rank] = std::move((*record)->fields[4]);
  meeting->links[rank] = std::move(guest->socket);
  return true;
}

absl::StatusOr<Socket> TcpRendezvous::ConnectToHost(const ConnectOptions& options, absl::Time deadline) {
  const std::string& address = options.address.empty() ? address_ : options.address;
  if (first_.open() && address == address_) return std::move(first_);
  const absl::StatusOr<HostAndPort> where = Parse(address);
  if (!where.ok()) return where.status();
  for (;;) {
    if (absl::Status over = CheckNotOver(options.group); !over.ok()) return over;
    absl::StatusOr<Socket> connected = ConnectTo(where->host, where->port, deadline, wake_.fd());
    if (!absl::IsCancelled(connected.status())) return connected;
    TakeWake();
  }
}

absl::StatusOr<TcpRendezvous::Meeting> TcpRendezvous::Visit(const ConnectOptions& options,
                                                            const std::string& part) {
  const absl::Time deadline = SteadyNow() + options.ConnectTimeout();
  absl::StatusOr<Socket> connected = ConnectToHost(options, deadline);
  if (!connected.ok()) return connected.status();
  Socket socket = *std::move(connected);
  const std::string& address = options.address.empty() ? address_ : options.address;
  const std::string forming = absl::StrCat("forming group ", options.group, " of ", options.size);
  const absl::Status lost =
      absl::UnavailableError(absl::StrCat(forming, ": rank 0 at ", address, " is lost"));
  const std::string hello =
      Encode(RecordKind::kHello, {absl::StrCat(options.group), options.token, absl::StrCat(options.rank),
                                  absl::StrCat(options.size), part, options.channel});
  if (!SendAll(socket, hello, deadline).ok()) return lost;
  std::string missing = absl::StrCat("rank 0 at ", address, " has not arrived");
  Meeting meeting;
  bool here = true;
  for (;;) {
    absl::StatusOr<std::optional<Record>> record = Decode(&meeting.received);
    if (!record.ok()) return record.status();
    if (!record->has_value()) {
      if (!here) return lost;
      if (absl::Status over = CheckNotOver(options.group); !over.ok()) return over;
      if (!AwaitReadable(socket.fd(), deadline, wake_.fd())) {
        return absl::DeadlineExceededError(
            absl::StrCat(forming, ": ", missing, " within ", absl::FormatDuration(options.ConnectTimeout())));
      }
      TakeWake();
      here = ReceiveSome(socket, &meeting.received);
      continue;
    }
    std::vector<std::string>& fields = (*record)->fields;
    if ((*record)->kind == RecordKind::kRefused) return StatusOf(fields);
    if ((*record)->kind == RecordKind::kWaiting && fields.size() == 1) missing = std::move(fields[0]);
    if ((*record)->kind == RecordKind::kComplete) {
      if (fields.size() != static_cast<size_t>(options.size)) {
        return absl::InternalError(absl::StrCat(forming, ": rank 0 sent ", fields.size(), " parts"));
      }
      meeting.parts = std::move(fields);
      meeting.links.push_back(std::move(socket));
      return meeting;
    }
  }
}

}  // namespace adaptdl::comm
