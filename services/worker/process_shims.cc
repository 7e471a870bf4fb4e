#include "services/worker/process_shims.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/process/process_identity.h"
#include "libs/base/process/process_list.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"
#include "libs/base/unique_fd.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

constexpr int kSearchPeriodMs = 50;
// As Spawn() numbers them.
constexpr int kLockFdInShim = 3;
constexpr int kControlFdInShim = 4;

// The locked lock file; -1 if somebody else has it.
int TakeLock(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kLockFile);
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0 || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return -1;
  return fd.Release();
}

// Whether a shim lives. When in doubt, yes: the folder may be gone, but then so is the lock.
bool IsLocked(const std::string& folder) {
  const UniqueFd fd(open(absl::StrCat(folder, "/", kLockFile).c_str(), O_RDWR | O_CLOEXEC));
  if (fd.get() < 0) return errno != ENOENT;
  return flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

// A connection to the shim's socket, or -1. Through the folder's descriptor, because socket paths are limited
// to 107 bytes.
int ConnectTo(const std::string& folder) {
  const UniqueFd folder_fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder_fd.get() < 0) return -1;
  const std::string path = absl::StrCat("/proc/self/fd/", folder_fd.get(), "/", kControlSocket);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0 || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return -1;
  }
  return fd.Release();
}

absl::StatusOr<ExitRecord> ReadExitRecord(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadWholeFile(absl::StrCat(folder, "/", kExitFile));
  if (!text.ok()) return text.status();
  return ExitRecordFromJson(*text);
}

// What a shim needs of our environment: nothing, but for finding shared libraries and for the sanitizers.
std::vector<std::string> ShimEnvironment() {
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = getenv(name); value != nullptr) {
      environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  return environment;
}

}  // namespace

int KillProcessesOfReplica(const std::string& replica_id) {
  int killed = 0;
  for (const ProcessIdentity& process : FindProcessesWith(absl::StrCat("ADAPTDL_REPLICA_ID=", replica_id))) {
    if (SignalProcess(process, SIGKILL).ok()) ++killed;
  }
  return killed;
}

absl::StatusOr<std::unique_ptr<ProcessShims>> ProcessShims::Create(Options options, const Clock* clock) {
  if (access(options.shim_program.c_str(), X_OK) != 0) {
    return ErrnoStatus(errno, absl::StrCat("the shim \"", options.shim_program, "\" can't be executed"));
  }
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return ErrnoStatus(errno, "eventfd");
  return std::unique_ptr<ProcessShims>(new ProcessShims(std::move(options), clock, wake_fd));
}

ProcessShims::ProcessShims(Options options, const Clock* clock, int wake_fd)
    : options_(std::move(options)), clock_(clock), wake_fd_(wake_fd) {}

ProcessShims::~ProcessShims() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
  for (const auto& [replica_id, connection] : connections_) {
    if (connection.fd >= 0) close(connection.fd);
  }
  close(wake_fd_);
}

void ProcessShims::SetListener(ShimListener* listener) {
  listener_ = listener;
  thread_ = std::thread([this] { Run(); });
}

absl::Status ProcessShims::Launch(const std::string& replica_id, const std::string& folder) {
  const UniqueFd lock_fd(TakeLock(folder));
  if (lock_fd.get() < 0) return absl::AlreadyExistsError(absl::StrCat(folder, " has a shim already"));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  if (absl::Status status = StartShim(folder, lock_fd.get(), theirs.get()); !status.ok()) return status;
  {
    MutexLock lock(&mutex_);
    Connection& connection = connections_[replica_id];
    connection.folder = folder;
    connection.fd = ours.Release();
  }
  Wake();
  return absl::OkStatus();
}

absl::Status ProcessShims::StartShim(const std::string& folder, int lock_fd, int control_fd) const {
  SpawnOptions options;
  options.command = {options_.shim_program, folder,
                     "--lock-fd",           absl::StrCat(kLockFdInShim),
                     "--control-fd",        absl::StrCat(kControlFdInShim),
                     "--orphan-timeout",    absl::FormatDuration(options_.orphan_timeout),
                     "--log-file-bytes",    absl::StrCat(options_.log_file_bytes),
                     "--log-files",         absl::StrCat(options_.log_files)};
  options.environment = ShimEnvironment();
  options.files = {lock_fd, control_fd};
  options.group = SpawnOptions::Group::kSession;
  const absl::StatusOr<pid_t> pid = Spawn(options);
  if (!pid.ok()) return pid.status();
  // It forks the real shim and ends at once. Somebody else may reap it where the worker is process 1.
  const ProcessEnd end = WaitForChild(*pid).value_or(ProcessEnd{});
  if (end.code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(options_.shim_program, " failed with exit code ", end.code));
}

void ProcessShims::Attach(const std::string& replica_id, const std::string& folder) {
  {
    MutexLock lock(&mutex_);
    connections_[replica_id].folder = folder;
  }
  Wake();
}

void ProcessShims::Stop(const std::string& replica_id, absl::Duration grace_period,
                        const std::string& reason) {
  MutexLock lock(&mutex_);
  const auto it = connections_.find(replica_id);
  if (it == connections_.end()) return;
  it->second.unsent += StopCommandToLine({.grace_period = grace_period, .reason = reason});
  SendUnsent(&it->second);
}

void ProcessShims::SendUnsent(Connection* connection) {
  if (connection->fd < 0 || connection->unsent.empty()) return;
  const ssize_t sent =
      send(connection->fd, connection->unsent.data(), connection->unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  // If not: the connection is broken, the reader will see it, and the command goes with the next one.
  if (sent == static_cast<ssize_t>(connection->unsent.size())) connection->unsent.clear();
}

void ProcessShims::Wake() {
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof(one)) < 0) return;  // full: it is awake anyway
}

void ProcessShims::Run() {
  while (true) {
    for (const Notice& notice : WaitForNotices()) {
      if (notice.event.kind == ShimEvent::Kind::kRunning) {
        listener_->OnRunning(notice.replica_id, notice.event.running);
      } else {
        listener_->OnExited(notice.replica_id, notice.event.exit);
      }
    }
    MutexLock lock(&mutex_);
    if (stopping_) return;
  }
}

std::vector<ProcessShims::Notice> ProcessShims::WaitForNotices() {
  std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
  bool searching = false;
  {
    MutexLock lock(&mutex_);
    for (const auto& [replica_id, connection] : connections_) {
      searching = searching || connection.fd < 0;
      if (connection.fd >= 0) fds.push_back({connection.fd, POLLIN, 0});
    }
  }
  poll(fds.data(), fds.size(), searching ? kSearchPeriodMs : -1);
  uint64_t count;
  if (read(wake_fd_, &count, sizeof(count)) < 0) count = 0;

  std::vector<Notice> notices;
  {
    MutexLock lock(&mutex_);
    for (auto& [replica_id, connection] : connections_) {
      if (connection.fd >= 0) Read(replica_id, &connection, &notices);
    }
    Forget(notices);
  }
  std::vector<Notice> found;
  SearchAll(&found);
  for (Notice& notice : found) notices.push_back(std::move(notice));
  return notices;
}

void ProcessShims::Forget(const std::vector<Notice>& notices) {
  for (const Notice& notice : notices) {
    if (notice.event.kind != ShimEvent::Kind::kExited) continue;
    const auto it = connections_.find(notice.replica_id);
    if (it->second.fd >= 0) close(it->second.fd);
    connections_.erase(it);
  }
}

void ProcessShims::Read(const std::string& replica_id, Connection* connection, std::vector<Notice>* notices) {
  char buffer[4096];
  while (true) {
    const ssize_t count = read(connection->fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      close(connection->fd);
      connection->fd = -1;
      connection->received.clear();
      return;
    }
    connection->received.append(buffer, count);
    size_t line_end;
    while ((line_end = connection->received.find('\n')) != std::string::npos) {
      absl::StatusOr<ShimEvent> event = ShimEventFromLine(connection->received.substr(0, line_end));
      connection->received.erase(0, line_end + 1);
      if (!event.ok()) {
        log::Warning("a shim sent something unknown", {{"replica", replica_id}});
        continue;
      }
      const bool exited = event->kind == ShimEvent::Kind::kExited;
      notices->push_back({replica_id, *std::move(event)});
      if (exited) return;
    }
  }
}

void ProcessShims::SearchAll(std::vector<Notice>* notices) {
  std::map<std::string, std::string> folders;
  {
    MutexLock lock(&mutex_);
    for (const auto& [replica_id, connection] : connections_) {
      if (connection.fd < 0) folders[replica_id] = connection.folder;
    }
  }
  // Nobody but this thread takes connections away.
  std::map<std::string, Finding> findings;
  for (const auto& [replica_id, folder] : folders) findings[replica_id] = Search(replica_id, folder);
  MutexLock lock(&mutex_);
  for (auto& [replica_id, finding] : findings) {
    Connection& connection = connections_.at(replica_id);
    if (finding.exit.has_value()) {
      notices->push_back({replica_id, {.kind = ShimEvent::Kind::kExited, .exit = *finding.exit}});
    } else if (finding.fd >= 0) {
      connection.fd = finding.fd;
      SendUnsent(&connection);
    }
  }
  Forget(*notices);
}

ProcessShims::Finding ProcessShims::Search(const std::string& replica_id, const std::string& folder) const {
  // The order matters: a shim writes its record before it lets go of the lock.
  const bool locked = IsLocked(folder);
  if (absl::StatusOr<ExitRecord> record = ReadExitRecord(folder); record.ok()) return {.exit = *record};
  if (locked) return {.fd = ConnectTo(folder)};
  const int killed = KillProcessesOfReplica(replica_id);
  ExitRecord record;
  record.lost = true;
  record.cause = Cause::kNode;
  record.message = "its shim ended without leaving a record of what happened";
  record.start_time = absl::UnixEpoch();
  record.end_time = clock_->Now();
  if (killed > 0) absl::StrAppend(&record.message, "; ", killed, " processes of it were left and killed");
  return {.exit = record};
}

}  // namespace adaptdl::worker
