// Members that are processes, on CPUs: Gloo over TCP.
//
// Rank 0 hosts the rendezvous and tells its address to the others, by whatever means; then all connect:
//
//   auto rendezvous = TcpRendezvous::Host("10.0.0.7");              // rank 0: binds a free port
//   auto rendezvous = TcpRendezvous::Join("10.0.0.7:40123");        // the others
//   auto communicator = ConnectGloo(**rendezvous, {.rank = 1, .size = 4, .host = "10.0.0.8"});
//
// A rendezvous must outlive the communicators that were connected through it.

#ifndef ADAPTDL_LIBS_COMM_GLOO_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_GLOO_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/comm/communicator.h"

namespace adaptdl::comm {

// A key-value store at a known address, through which the members learn each other's. Thread-safe.
class TcpRendezvous {
 public:
  // Binds `port` (0: any free one) on all interfaces. `host` is how peers reach this machine.
  // UNAVAILABLE: the port is taken.
  static absl::StatusOr<std::unique_ptr<TcpRendezvous>> Host(const std::string& host, int port = 0);

  // UNAVAILABLE: nobody answers at `address` ("host:port") within `timeout`.
  static absl::StatusOr<std::unique_ptr<TcpRendezvous>> Join(const std::string& address,
                                                             absl::Duration timeout = absl::Minutes(1));

  ~TcpRendezvous();
  TcpRendezvous(const TcpRendezvous&) = delete;
  TcpRendezvous& operator=(const TcpRendezvous&) = delete;

  // "host:port" for Join().
  const std::string& address() const { return address_; }

  struct Store;
  const Store& store() const { return *store_; }

 private:
  TcpRendezvous(std::unique_ptr<Store> store, std::string address);

  const std::unique_ptr<Store> store_;
  const std::string address_;
};

struct ConnectOptions {
  int rank = 0;
  int size = 1;
  // Name of the group; groups with different names can share a rendezvous.
  std::string group = "0";
  // Host name or address of this machine, on whose interface to listen. Empty: the machine's host name.
  std::string host;
  // Longest that connecting and any single collective may take.
  absl::Duration timeout = absl::Minutes(5);
};

// Blocks until all members are connected. Codes as those of collectives.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectGloo(const TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_GLOO_COMMUNICATOR_H_
