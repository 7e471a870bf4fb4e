// A network whose hosts have network namespaces of their own, and whose packets are carried by a thread of
// the test: it can lose them, in one direction or both, and delay them.
//
//   auto network = FaultyNetwork::Create(3);       // hosts 0, 1 and 2; the caller is on host 0 from now on
//   Process::Start({...}, log, (*network)->fd(1));
//   (*network)->SetLink(1, 0, {.cut = true});      // what host 1 sends no longer arrives at host 0
//
// Namespaces and devices are held by file descriptors of this process, and by what runs in them: nothing is
// left behind, however the test ends. Needs /dev/net/tun, and root or user namespaces.
//
// Thread-safety: thread-safe once it was created.

#ifndef ADAPTDL_TESTS_INTEGRATION_FAULTS_FAULTY_NETWORK_H_
#define ADAPTDL_TESTS_INTEGRATION_FAULTS_FAULTY_NETWORK_H_

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::integration {

class FaultyNetwork {
 public:
  // One direction between two hosts.
  struct Link {
    bool cut = false;
    // Part of the packets that are lost, in [0, 1].
    double loss = 0;
    absl::Duration delay = absl::ZeroDuration();
  };

  // Moves the calling thread, and all that it starts from now on, to host 0. UNAVAILABLE: this machine does
  // not allow it. INTERNAL: something else failed.
  static absl::StatusOr<std::unique_ptr<FaultyNetwork>> Create(int hosts);
  ~FaultyNetwork();

  static std::string Address(int host);
  // The host's network namespace.
  int fd(int host) const { return namespaces_[host]; }
  // Whether the process is on that host.
  bool IsOn(int host, pid_t pid) const;

  void SetLink(int from, int to, const Link& link);
  // All links to the host, or from it.
  void SetLinksTo(int host, const Link& link);
  void SetLinksFrom(int host, const Link& link);
  // As new.
  void Mend();

 private:
  struct Packet {
    absl::Time due;
    int to = 0;
    std::string bytes;
  };

  FaultyNetwork() = default;
  void Carry();
  void Take(int from, absl::Time now);
  // Returns when the next packet is due.
  absl::Time Deliver(absl::Time now);

  std::vector<int> namespaces_;
  std::vector<int> devices_;
  int wake_[2] = {-1, -1};
  std::thread thread_;
  // Of the thread, by link, each in the order of sending.
  std::vector<std::deque<Packet>> on_the_way_;
  std::mt19937 random_{1};

  Mutex mutex_;
  std::vector<Link> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_FAULTS_FAULTY_NETWORK_H_
