// TCP ports that this node keeps free for replicas of rank 0 to listen on: each is bound, so that nobody else
// gets it, until the replica that it was promised to is about to start.
//
// The ports lie below the range from which the kernel takes those of outgoing connections: the moment between
// Release() and the replica's own bind is a risk only among programs that ask for that very port.
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_PORT_RESERVE_H_
#define ADAPTDL_SERVICES_WORKER_PORT_RESERVE_H_

#include <map>
#include <random>
#include <vector>

#include "libs/base/mutex.h"

namespace adaptdl::worker {

class PortReserve {
 public:
  struct Options {
    // Where ports are looked for, both ends included.
    int first = 20000;
    int last = 29999;
    // How many to hold, if there are so many.
    int count = 32;
  };

  explicit PortReserve(const Options& options);
  ~PortReserve();

  // Those that are held now, ascending.
  std::vector<int> Ports() const;

  // Gives the port away, and holds another one in its place. False: it was not held.
  bool Release(int port);

 private:
  // Looks for more at random until there are enough, for a while.
  void Fill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  // Several workers may share a machine: they must not all look in the same order.
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_);
  std::map<int, int> sockets_ ABSL_GUARDED_BY(mutex_);  // By port.
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_PORT_RESERVE_H_
