// Where the members of a group find each other: rank 0 listens, the others connect to it.
//
//   auto rendezvous = TcpRendezvous::Host("10.0.0.7");              // binds a free port
//   rendezvous->Meet({.rank = 0, .size = 2, .group = 1}, ...);      // rank 0 of group 1
//   rendezvous->Meet({.rank = 1, .size = 3, .group = 2, .address = "10.0.0.8:40123"}, ...);
//   auto guest = TcpRendezvous::Join("10.0.0.7:40123");             // never rank 0
//
// The address travels through the control plane; standalone it is ADAPTDL_MASTER_ADDR:ADAPTDL_MASTER_PORT.
// What is exchanged are fixed records of lengths and bytes (addresses, NCCL's unique id), bounded in size;
// nothing that is received is executed. Whoever does not know the group's token is turned away.
//
// A rendezvous serves any number of groups, one after the other in ascending order of their numbers, and has
// no thread: whoever comes while nobody is in Meet() waits.

#ifndef ADAPTDL_LIBS_COMM_TCP_RENDEZVOUS_H_
#define ADAPTDL_LIBS_COMM_TCP_RENDEZVOUS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/socket.h"

namespace adaptdl::comm {

// What every kind of communicator between processes asks for.
struct ConnectOptions {
  int rank = 0;
  int size = 1;
  // Number of the group. A group with a higher number follows those with lower ones, which are over then.
  int64_t group = 0;
  // Secret of the group's members. Empty: whoever reaches the rendezvous may take part.
  std::string token = {};
  // Host name or address of this machine, on whose interface to listen. Empty: the machine's host name.
  std::string host = {};
  // Longest that any single collective may take; see Communicator::SetTimeout().
  absl::Duration timeout = absl::Minutes(5);
  // Longest that each of the two parts of connecting may take: until all members are here, and until they are
  // connected to each other. Absent: as `timeout`.
  std::optional<absl::Duration> connect_timeout = std::nullopt;
  // "host:port" of rank 0's rendezvous, for the others. Empty: that which this rendezvous was made with.
  std::string address = {};
  // Of groups that meet more than once: which of these meetings it is. The same on all members.
  std::string channel = {};

  absl::Duration ConnectTimeout() const { return connect_timeout.value_or(timeout); }
};

// Thread-safe; several Meet() wait for each other.
class TcpRendezvous {
 public:
  // Binds `port` (0: any free one) on all interfaces. `host` is how peers reach this machine.
  // UNAVAILABLE: the port is taken.
  static absl::StatusOr<std::unique_ptr<TcpRendezvous>> Host(const std::string& host, int port = 0);

  // INVALID_ARGUMENT: `address` is not of the form "host:port". UNAVAILABLE: nobody answers there within
  // `timeout`.
  static absl::StatusOr<std::unique_ptr<TcpRendezvous>> Join(const std::string& address,
                                                             absl::Duration timeout = absl::Minutes(1));

  TcpRendezvous(const TcpRendezvous&) = delete;
  TcpRendezvous& operator=(const TcpRendezvous&) = delete;

  // "host:port" for Join().
  const std::string& address() const { return address_; }

  struct Meeting {
    std::vector<std::string> parts;  // what each member brought, by rank
    // Open connections: of rank 0 to each member, by rank; of the others to rank 0, at index 0.
    std::vector<Socket> links;
    std::string received;  // what has already come over the connection to rank 0
  };

  // Blocks until all members of the group are here, and tells each what the others brought. A group may be
  // tried again. Guests of a later group wait for their turn; those of an earlier one are turned away.
  // DEADLINE_EXCEEDED names those that are missing; UNAVAILABLE: rank 0 is lost or nobody answers there;
  // PERMISSION_DENIED: another token; INVALID_ARGUMENT: another size of the group, or a rank outside of it;
  // ABORTED: the group is over (a later one is forming or was the last to form, here or at rank 0), or
  // RefuseBelow() was called here or at rank 0.
  absl::StatusOr<Meeting> Meet(const ConnectOptions& options, const std::string& part);

  // Meet() of groups with a lower number than `group` returns ABORTED at once: those that wait now, and all
  // that come. At rank 0 the members that are here already are told. May be called from any thread;
  // non-blocking.
  void RefuseBelow(int64_t group);

 private:
  // A connection that has come in, and what it has said so far.
  struct Guest {
    Socket socket;
    std::string received;
    bool elsewhere = false;  // has asked for another meeting than the one that is going on
  };

  TcpRendezvous(Socket listener, Socket first, std::string address);

  // ABORTED if the group is over.
  absl::Status CheckNotOver(int64_t group) const;
  // After a wait that Wake() may have ended: the next one is not ended by the same call.
  void TakeWake();
  absl::StatusOr<Socket> ConnectToHost(const ConnectOptions& options, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Meeting> Receive(const ConnectOptions& options, const std::string& part)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Meeting> Visit(const ConnectOptions& options, const std::string& part)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitGuests(const Meeting& meeting, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Seat(const ConnectOptions& options, Guest* guest, Meeting* meeting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Socket wake_;  // an eventfd: RefuseBelow() has been called
  // Groups with lower numbers are over.
  std::atomic<int64_t> lowest_;
  Mutex mutex_;
  const Socket listener_;                              // of Host()
  Socket first_ ABSL_GUARDED_BY(mutex_);               // of Join(): the connection that it made
  std::vector<Guest> guests_ ABSL_GUARDED_BY(mutex_);  // not yet seated, or of another group
  const std::string address_;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_TCP_RENDEZVOUS_H_
