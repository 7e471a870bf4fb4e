#include "tests/integration/faults/faulty_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace adaptdl::integration {
namespace {

constexpr char kDevice[] = "link";
constexpr size_t kLargestPacket = 2048;
// Of an IPv4 packet: where its destination's last byte is.
constexpr size_t kDestination = 19;

absl::Status Failed(absl::string_view what) { return absl::ErrnoToStatus(errno, what); }

// In a user namespace, where we are not root.
absl::Status BecomeRoot() {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (user == 0) return absl::OkStatus();
  if (unshare(CLONE_NEWUSER) != 0) return absl::UnavailableError("no user namespaces, and not root");
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << absl::StrCat("0 ", user, " 1");
  std::ofstream("/proc/self/gid_map") << absl::StrCat("0 ", group, " 1");
  return absl::OkStatus();
}

absl::Status Configure(int control, unsigned long request, ifreq* of) {
  return ioctl(control, request, of) == 0 ? absl::OkStatus() : Failed("a network device");
}

absl::Status SetAddress(int control, unsigned long request, const std::string& address) {
  ifreq of = {};
  std::strncpy(of.ifr_name, kDevice, IFNAMSIZ - 1);
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &in.sin_addr);
  std::memcpy(&of.ifr_addr, &in, sizeof(in));
  return Configure(control, request, &of);
}

absl::Status SetUp(int control, const char* device) {
  ifreq of = {};
  std::strncpy(of.ifr_name, device, IFNAMSIZ - 1);
  of.ifr_flags = IFF_UP;
  return Configure(control, SIOCSIFFLAGS, &of);
}

// Moves this thread to a network of its own, with one device; what is sent there is read from `device`.
absl::Status OpenHost(const std::string& address, int* space, int* device) {
  if (unshare(CLONE_NEWNET) != 0) return absl::UnavailableError("no network namespaces for this user");
  *space = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  *device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (*space < 0 || *device < 0) return absl::UnavailableError("no /dev/net/tun");
  ifreq of = {};
  std::strncpy(of.ifr_name, kDevice, IFNAMSIZ - 1);
  of.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (absl::Status status = Configure(*device, TUNSETIFF, &of); !status.ok()) return status;
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  absl::Status status = SetAddress(control, SIOCSIFADDR, address);
  status.Update(SetAddress(control, SIOCSIFNETMASK, "255.255.255.0"));
  status.Update(SetUp(control, kDevice));
  status.Update(SetUp(control, "lo"));
  close(control);
  return status;
}

}  // namespace

std::string FaultyNetwork::Address(int host) { return absl::StrCat("10.77.0.", host + 1); }

absl::StatusOr<std::unique_ptr<FaultyNetwork>> FaultyNetwork::Create(int hosts) {
  if (absl::Status status = BecomeRoot(); !status.ok()) return status;
  std::unique_ptr<FaultyNetwork> network(new FaultyNetwork());
  network->namespaces_.assign(hosts, -1);
  network->devices_.assign(hosts, -1);
  network->on_the_way_.resize(static_cast<size_t>(hosts) * hosts);
  {
    MutexLock lock(&network->mutex_);
    network->links_.resize(static_cast<size_t>(hosts) * hosts);
  }
  absl::Status status;
  const auto open_host = [&](int host) {
    status.Update(OpenHost(Address(host), &network->namespaces_[host], &network->devices_[host]));
  };
  for (int host = hosts - 1; host > 0; --host) std::thread(open_host, host).join();
  open_host(0);
  if (!status.ok()) return status;
  if (pipe2(network->wake_, O_CLOEXEC) != 0) return Failed("pipe");
  network->thread_ = std::thread([raw = network.get()] { raw->Carry(); });
  return network;
}

FaultyNetwork::~FaultyNetwork() {
  close(wake_[1]);
  if (thread_.joinable()) thread_.join();
  close(wake_[0]);
  for (const int fd : namespaces_) close(fd);
  for (const int fd : devices_) close(fd);
}

bool FaultyNetwork::IsOn(int host, pid_t pid) const {
  struct stat here = {};
  struct stat there = {};
  return fstat(namespaces_[host], &here) == 0 &&
         stat(absl::StrCat("/proc/", pid, "/ns/net").c_str(), &there) == 0 && here.st_ino == there.st_ino;
}

void FaultyNetwork::SetLink(int from, int to, const Link& link) {
  MutexLock lock(&mutex_);
  links_[from * devices_.size() + to] = link;
}

void FaultyNetwork::SetLinksTo(int host, const Link& link) {
  for (size_t other = 0; other < devices_.size(); ++other) SetLink(static_cast<int>(other), host, link);
}

void FaultyNetwork::SetLinksFrom(int host, const Link& link) {
  for (size_t other = 0; other < devices_.size(); ++other) SetLink(host, static_cast<int>(other), link);
}

void FaultyNetwork::Mend() {
  for (size_t host = 0; host < devices_.size(); ++host) SetLinksTo(static_cast<int>(host), {});
}

void FaultyNetwork::Carry() {
  for (;;) {
    const absl::Duration wait = std::min(Deliver(absl::Now()) - absl::Now(), absl::Seconds(1));
    std::vector<pollfd> entries = {{wake_[0], POLLIN, 0}};
    for (const int device : devices_) entries.push_back({device, POLLIN, 0});
    const absl::Duration left = std::max(wait, absl::ZeroDuration());
    (void)poll(entries.data(), entries.size(),
               static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    if (entries[0].revents != 0) return;
    for (size_t host = 0; host < devices_.size(); ++host) {
      if (entries[host + 1].revents != 0) Take(static_cast<int>(host), absl::Now());
    }
  }
}

void FaultyNetwork::Take(int from, absl::Time now) {
  char buffer[kLargestPacket];
  for (;;) {
    const ssize_t bytes = read(devices_[from], buffer, sizeof(buffer));
    if (bytes <= 0) return;
    const bool is_ipv4 = (buffer[0] >> 4) == 4;
    if (!is_ipv4 || static_cast<size_t>(bytes) <= kDestination) continue;
    const size_t to = static_cast<unsigned char>(buffer[kDestination]) - size_t{1};
    if (to >= devices_.size()) continue;
    Link link;
    {
      MutexLock lock(&mutex_);
      link = links_[from * devices_.size() + to];
    }
    if (link.cut || std::uniform_real_distribution<double>()(random_) < link.loss) continue;
    on_the_way_[from * devices_.size() + to].push_back(
        {now + link.delay, static_cast<int>(to), std::string(buffer, bytes)});
  }
}

absl::Time FaultyNetwork::Deliver(absl::Time now) {
  absl::Time next = absl::InfiniteFuture();
  for (std::deque<Packet>& link : on_the_way_) {
    while (!link.empty() && link.front().due <= now) {
      // What does not fit into the host's queue is lost, as on any network.
      (void)!write(devices_[link.front().to], link.front().bytes.data(), link.front().bytes.size());
      link.pop_front();
    }
    if (!link.empty()) next = std::min(next, link.front().due);
  }
  return next;
}

}  // namespace adaptdl::integration
