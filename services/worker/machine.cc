#include "services/worker/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::worker {
namespace {

std::string ReadCgroupFile(const char* name) {
  return ReadWholeFile(std::string("/sys/fs/cgroup/") + name, 4096).value_or("");
}

int64_t Lower(int64_t amount, int64_t limit) { return limit > 0 ? std::min(amount, limit) : amount; }

std::string AddressText(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || absl::StartsWith(host, "127.");
}

bool IsAnyAddress(absl::string_view host) {
  return host.empty() || host == "0.0.0.0" || host == "::" || host == "[::]" || host == "*";
}

std::string AddressOfName(const std::string& name) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return "";
  std::string address;
  for (const addrinfo* entry = found; entry != nullptr && address.empty(); entry = entry->ai_next) {
    const std::string text = AddressText(entry->ai_addr);
    if (!IsLoopback(text)) address = text;
  }
  freeaddrinfo(found);
  return address;
}

std::string FirstInterfaceAddress() {
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return "";
  std::string address;
  for (const ifaddrs* entry = interfaces; entry != nullptr && address.empty(); entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0) continue;
    address = AddressText(entry->ifa_addr);
  }
  freeifaddrs(interfaces);
  return address;
}

}  // namespace

int64_t CpuMillisOfCgroup(absl::string_view cpu_max) {
  const std::vector<absl::string_view> parts = absl::StrSplit(absl::StripAsciiWhitespace(cpu_max), ' ');
  int64_t quota = 0;
  int64_t period = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &quota) || !absl::SimpleAtoi(parts[1], &period))
    return 0;
  return quota > 0 && period > 0 ? quota * 1000 / period : 0;
}

int64_t MemoryBytesOfCgroup(absl::string_view memory_max) {
  int64_t bytes = 0;
  return absl::SimpleAtoi(memory_max, &bytes) && bytes > 0 ? bytes : 0;
}

int64_t MachineCpuMillis() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const int count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0
                        ? CPU_COUNT(&cpus)
                        : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return Lower(int64_t{1000} * std::max(count, 1), CpuMillisOfCgroup(ReadCgroupFile("cpu.max")));
}

int64_t MachineMemoryBytes() {
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return Lower(memory, MemoryBytesOfCgroup(ReadCgroupFile("memory.max")));
}

std::string MachineName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return absl::AsciiStrToLower(name);
}

absl::StatusOr<std::string> FindAdvertiseHost(const std::string& listen_host, const std::string& in_cloud) {
  if (IsLoopback(listen_host)) return std::string("127.0.0.1");
  if (!IsAnyAddress(listen_host)) return listen_host;
  std::string address = in_cloud.empty() ? AddressOfName(MachineName()) : in_cloud;
  if (address.empty()) address = FirstInterfaceAddress();
  if (address.empty()) {
    return absl::FailedPreconditionError(
        "this machine has no address but the loopback's: give one with --advertise-host");
  }
  return address;
}

}  // namespace adaptdl::worker
