// Where the members of a group find each other: rank 0 listens, the others connect to it.
//
//   auto rendezvous = TcpRendezvous::Host("10.0.0.7");              // rank 0: binds a free port
//   auto rendezvous = TcpRendezvous::Join("10.0.0.7:40123");        // the others
//
// The address travels through the control plane; standalone it is ADAPTDL_MASTER_ADDR:ADAPTDL_MASTER_PORT.
// What is exchanged are fixed records of lengths and bytes (addresses, NCCL's unique id), bounded in size;
// nothing that is received is executed. Whoever does not know the group's token is turned away.
//
// A rendezvous serves any number of groups, one after the other, and has no thread.

#ifndef ADAPTDL_LIBS_COMM_TCP_RENDEZVOUS_H_
#define ADAPTDL_LIBS_COMM_TCP_RENDEZVOUS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/socket.h"

namespace adaptdl::comm {

// What every kind of communicator between processes asks for.
struct ConnectOptions {
  int rank = 0;
  int size = 1;
  // Name of the group; groups with different names can share a rendezvous.
  std::string group = "0";
  // Secret of the group's members. Empty: whoever reaches the rendezvous may take part.
  std::string token = "";
  // Host name or address of this machine, on whose interface to listen. Empty: the machine's host name.
  std::string host = "";
  // Longest that connecting and any single collective may take.
  absl::Duration timeout = absl::Minutes(5);
};

// Thread-safe; Meet() of different groups wait for each other.
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

  // Blocks until all members of the group are here, and tells each what the others brought.
  // DEADLINE_EXCEEDED names those that are missing; UNAVAILABLE: rank 0 is lost; PERMISSION_DENIED: another
  // token; INVALID_ARGUMENT: another size of the group, or a rank outside of it.
  absl::StatusOr<Meeting> Meet(const ConnectOptions& options, const std::string& part);

 private:
  // A connection that has come in, and what it has said so far.
  struct Guest {
    Socket socket;
    std::string received;
    bool elsewhere = false;  // has asked for another group than the one that is forming
  };

  TcpRendezvous(Socket listener, Socket first, std::string address);

  absl::StatusOr<Meeting> Receive(const ConnectOptions& options, const std::string& part)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Meeting> Visit(const ConnectOptions& options, const std::string& part)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitGuests(const Meeting& meeting, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Seat(const ConnectOptions& options, Guest* guest, Meeting* meeting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  const Socket listener_;                              // of rank 0
  Socket first_ ABSL_GUARDED_BY(mutex_);               // of the others: the connection that Join() made
  std::vector<Guest> guests_ ABSL_GUARDED_BY(mutex_);  // not yet seated, or of another group
  const std::string address_;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_TCP_RENDEZVOUS_H_
