#include "services/worker/port_reserve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <vector>

namespace adaptdl::worker {
namespace {

// A socket that holds the port on all addresses; -1: it is taken.
int Hold(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

PortReserve::PortReserve(const Options& options) : options_(options), random_(std::random_device{}()) {
  MutexLock lock(&mutex_);
  Fill();
}

PortReserve::~PortReserve() {
  MutexLock lock(&mutex_);
  for (const auto& [port, fd] : sockets_) close(fd);
}

std::vector<int> PortReserve::Ports() const {
  MutexLock lock(&mutex_);
  std::vector<int> ports;
  for (const auto& [port, fd] : sockets_) ports.push_back(port);
  return ports;
}

bool PortReserve::Release(int port) {
  MutexLock lock(&mutex_);
  const auto it = sockets_.find(port);
  if (it == sockets_.end()) return false;
  const int released = it->second;
  sockets_.erase(it);
  Fill();  // While the port is still held, so that it is not found again.
  close(released);
  return true;
}

void PortReserve::Fill() {
  std::uniform_int_distribution<int> choose(options_.first, options_.last);
  for (int tries = 0; tries < 16 * options_.count && static_cast<int>(sockets_.size()) < options_.count;
       ++tries) {
    const int port = choose(random_);
    if (sockets_.contains(port)) continue;
    if (const int fd = Hold(port); fd >= 0) sockets_[port] = fd;
  }
}

}  // namespace adaptdl::worker
