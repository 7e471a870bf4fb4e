// Two processes that broadcast memory to each other over the communicator of real groups: what this machine's
// loopback carries. Prints the bytes per second of each round, one per line.
//
//   broadcast_job BYTES ROUNDS

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/comm/tcp_communicator.h"
#include "libs/comm/tcp_rendezvous.h"

namespace adaptdl::comm {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::Status Broadcast(TcpRendezvous& rendezvous, int rank, int64_t bytes, int rounds) {
  auto communicator =
      ConnectTcp(rendezvous, {.rank = rank, .size = 2, .host = "127.0.0.1", .timeout = absl::Minutes(1)});
  if (!communicator.ok()) return communicator.status();
  // Touched, so that no page is new in the first round.
  std::vector<uint8_t> memory(static_cast<size_t>(bytes), static_cast<uint8_t>(rank));
  for (int round = 0; round < rounds; ++round) {
    if (absl::Status status = (*communicator)->Barrier(); !status.ok()) return status;
    const double start = Seconds();
    absl::Status status = (*communicator)->Broadcast(BufferOf(absl::MakeSpan(memory)), 0);
    // Not before the receiver has all of it.
    if (status.ok()) status = (*communicator)->Barrier();
    if (!status.ok()) return status;
    if (rank == 0) std::printf("%.0f\n", static_cast<double>(bytes) / (Seconds() - start));
  }
  return absl::OkStatus();
}

absl::Status RunRank1(int address_pipe, int64_t bytes, int rounds) {
  std::string address;
  char next = 0;
  while (read(address_pipe, &next, 1) == 1) address.push_back(next);
  auto rendezvous = TcpRendezvous::Join(address);
  if (!rendezvous.ok()) return rendezvous.status();
  return Broadcast(**rendezvous, 1, bytes, rounds);
}

absl::Status RunRank0(int address_pipe, int64_t bytes, int rounds) {
  auto rendezvous = TcpRendezvous::Host("127.0.0.1");
  if (!rendezvous.ok()) return rendezvous.status();
  const std::string& address = (*rendezvous)->address();
  if (write(address_pipe, address.data(), address.size()) < 0)
    return absl::InternalError("the pipe is closed");
  close(address_pipe);
  return Broadcast(**rendezvous, 0, bytes, rounds);
}

int Main(int64_t bytes, int rounds) {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  // Before there are threads.
  const pid_t child = fork();
  if (child < 0) return 1;
  close(ends[child == 0 ? 1 : 0]);
  const absl::Status status =
      child == 0 ? RunRank1(ends[0], bytes, rounds) : RunRank0(ends[1], bytes, rounds);
  if (!status.ok()) std::fprintf(stderr, "broadcast_job: %s\n", status.ToString().c_str());
  if (child == 0) return status.ok() ? 0 : 1;
  int code = 0;
  waitpid(child, &code, 0);
  return status.ok() && code == 0 ? 0 : 1;
}

}  // namespace
}  // namespace adaptdl::comm

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return adaptdl::comm::Main(std::strtoll(argv[1], nullptr, 10), std::atoi(argv[2]));
}
