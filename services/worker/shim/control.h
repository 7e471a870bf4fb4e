// The shim's end of the connections to workers: a listening UNIX socket in the replica's folder, and the
// connection that it was born with. A connected worker is a living worker.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_SHIM_CONTROL_H_
#define ADAPTDL_SERVICES_WORKER_SHIM_CONTROL_H_

#include <poll.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {

class ControlServer {
 public:
  ControlServer() = default;
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Listens on `path`, at most 107 bytes long; an old socket there is replaced.
  absl::Status Listen(const std::string& path);

  // Adds a connection (owned from now on).
  void Adopt(int fd);

  // Appends what to poll for.
  void AddPollFds(std::vector<pollfd>* fds) const;

  // Takes new connections and reads the readable ones, whatever poll said. Returns the commands that came in;
  // a connection that sends something else is closed. New connections get `greeting`.
  std::vector<StopCommand> Process(absl::string_view greeting);

  // Sends `line` to all connections.
  void Broadcast(absl::string_view line);

  bool connected() const { return !connections_.empty(); }

 private:
  struct Connection {
    int fd;
    std::string received;
  };

  void Accept(absl::string_view greeting);
  // Whether the connection is to be kept.
  bool Read(Connection* connection, std::vector<StopCommand>* commands);

  int listening_fd_ = -1;
  std::string path_;
  std::vector<Connection> connections_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIM_CONTROL_H_
