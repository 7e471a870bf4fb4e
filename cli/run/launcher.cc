#include "cli/run/launcher.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/run/line_prefixer.h"
#include "cli/run/local_replica.h"
#include "cli/run/outcome.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

// The others find out by themselves that a replica is lost, and end; those that do not are asked, then
// killed.
constexpr absl::Duration kFailureGrace = absl::Seconds(5);
constexpr absl::Duration kTerminateGrace = absl::Seconds(30);
// A replica that was stopped by somebody else takes the others along; rank 0 may have a checkpoint to write.
constexpr absl::Duration kStopGrace = absl::Seconds(60);
// What processes that a replica left behind may still write.
constexpr absl::Duration kDrainTimeout = absl::Seconds(1);

constexpr int kStoppedCode = 143;
constexpr int kForcedCode = 130;

// A port that nobody else is given while this object lives. A program of ours can listen on it all the same,
// since both sides allow addresses to be used again and this one does not listen.
class ReservedPort {
 public:
  static absl::StatusOr<std::unique_ptr<ReservedPort>> Create() {
    // As the rendezvous does: IPv6 sockets take IPv4 too; without IPv6 in the kernel, plain IPv4.
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool v6 = fd >= 0;
    if (!v6) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in6 any = {};
    any.sin6_family = v6 ? AF_INET6 : AF_INET;
    socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    auto* address = reinterpret_cast<sockaddr*>(&any);
    if (fd < 0 || bind(fd, address, size) != 0 || getsockname(fd, address, &size) != 0) {
      const absl::Status status = ErrnoStatus(errno, "find a free port");
      if (fd >= 0) close(fd);
      return status;
    }
    // The port stands at the same place in both kinds of address.
    return std::unique_ptr<ReservedPort>(new ReservedPort(fd, ntohs(any.sin6_port)));
  }
  ~ReservedPort() { close(fd_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int port() const { return port_; }

 private:
  ReservedPort(int fd, int port) : fd_(fd), port_(port) {}

  const int fd_;
  const int port_;
};

// Signals to this process, as something to poll.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    // A reader that goes away must not end this process before its replicas have saved.
    ::signal(SIGPIPE, SIG_IGN);
    fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~SignalQueue() { close(fd_); }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_; }
  // 0: none is there.
  int Take() const {
    signalfd_siginfo info;
    return read(fd_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int fd_ = -1;
};

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// False: nobody reads any more.
bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd ready = {fd, POLLOUT, 0};
      poll(&ready, 1, -1);
      continue;
    }
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Of the terminal: one colour per rank, again and again.
std::string RankPrefix(int rank, int replicas, bool colours) {
  if (replicas == 1) return "";
  std::string text = absl::StrCat("[", rank, "]");
  constexpr int kColours[] = {36, 33, 32, 35, 34, 31};
  if (!colours) return absl::StrCat(text, " ");
  return absl::StrCat("\x1b[", kColours[rank % std::size(kColours)], "m", text, "\x1b[0m ");
}

// One group, from its start to the end of all of its replicas.
class Group {
 public:
  Group(const LauncherOptions& options, const SignalQueue& signals,
        const std::function<void(absl::string_view)>& note)
      : options_(options), signals_(signals), note_(note) {}

  absl::Status Start(int port, int restarts) {
    const std::string token = RandomHex(16);
    for (int rank = 0; rank < options_.replicas; ++rank) {
      absl::StatusOr<std::unique_ptr<LocalReplica>> replica = LocalReplica::Start(
          rank, options_.command, ReplicaEnvironment(options_, rank, port, token, restarts));
      if (!replica.ok()) return replica.status();
      replicas_.push_back(*std::move(replica));
      for (const bool colours : options_.colours) {
        prefixers_.push_back(LinePrefixer(RankPrefix(rank, options_.replicas, colours)));
      }
    }
    return absl::OkStatus();
  }

  // Returns when all have ended and all they wrote is printed.
  GroupOutcome Follow() {
    while (ends_.size() < replicas_.size()) {
      Poll(deadline_);
      TakeSignals();
      Escalate();
    }
    // What a replica has left running ends with it.
    for (const auto& replica : replicas_) replica->Signal(SIGKILL);
    const absl::Time drained = SteadyNow() + kDrainTimeout;
    while (AnyOutput() && SteadyNow() < drained) Poll(drained);
    for (size_t i = 0; i < prefixers_.size(); ++i) Write(i % 2, prefixers_[i].Finish());
    return Judge(ends_, stop_signal_);
  }

  bool forced() const { return forced_; }
  bool stop_requested() const { return stop_signal_ != 0; }

 private:
  bool AnyOutput() const {
    return std::any_of(replicas_.begin(), replicas_.end(), [](const auto& replica) {
      return replica->output_fd(0) >= 0 || replica->output_fd(1) >= 0;
    });
  }

  // Waits until something has happened, or `until`; takes what the replicas wrote, and their ends.
  void Poll(absl::Time until) {
    std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
    for (const auto& replica : replicas_) {
      fds.push_back({replica->ended() ? -1 : replica->end_fd(), POLLIN, 0});
      fds.push_back({replica->output_fd(0), POLLIN, 0});
      fds.push_back({replica->output_fd(1), POLLIN, 0});
    }
    int timeout = -1;
    if (until != absl::InfiniteFuture()) {
      timeout = static_cast<int>(
          std::clamp<int64_t>(absl::ToInt64Milliseconds(until - SteadyNow()) + 1, 0, 60'000));
    }
    if (poll(fds.data(), fds.size(), timeout) <= 0) return;
    for (size_t i = 0; i < replicas_.size(); ++i) {
      const pollfd* of_replica = &fds[1 + 3 * i];
      for (int stream = 0; stream < 2; ++stream) {
        if (of_replica[1 + stream].revents != 0) ReadOutput(i, stream);
      }
      if (of_replica[0].revents != 0) OnEnd(*replicas_[i]);
    }
  }

  void ReadOutput(size_t index, int stream) {
    char buffer[1 << 16];
    const ssize_t got = read(replicas_[index]->output_fd(stream), buffer, sizeof(buffer));
    if (got > 0) {
      Write(stream,
            prefixers_[2 * index + static_cast<size_t>(stream)].Add({buffer, static_cast<size_t>(got)}));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      replicas_[index]->CloseOutput(stream);
    }
  }

  void Write(size_t stream, const std::string& lines) {
    if (lines.empty() || output_lost_) return;
    if (WriteAll(stream == 0 ? STDOUT_FILENO : STDERR_FILENO, lines)) return;
    output_lost_ = true;
    Stop(SIGTERM);
  }

  void OnEnd(LocalReplica& replica) {
    const ReplicaEnd& end = replica.Reap();
    ends_.push_back(end);
    if (end.code == 0) return;
    // A peer that was lost is another replica's story.
    const bool tells = end.code != kStoppedCode && end.code != 75 && !forced_;
    if (tells && stop_signal_ == 0) note_(absl::StrCat("rank ", end.rank, " ", EndText(end)));
    if (stop_signal_ != 0) return;
    const absl::Duration grace = end.code == kStoppedCode ? kStopGrace : kFailureGrace;
    if (!terminated_) deadline_ = std::min(deadline_, SteadyNow() + grace);
  }

  void Stop(int signal) {
    if (stop_signal_ != 0) return;
    stop_signal_ = signal;
    deadline_ = absl::InfiniteFuture();
    SignalAll(signal);
  }

  void TakeSignals() {
    while (const int signal = signals_.Take()) {
      if (stop_signal_ == 0) {
        note_(signal == SIGINT ? "stopping after the step in progress; Ctrl-C again ends it at once"
                               : "stopping after the step in progress");
        Stop(signal == SIGHUP ? SIGTERM : signal);
      } else if (signal == SIGINT) {
        forced_ = true;
        SignalAll(SIGKILL);
      }
    }
  }

  void Escalate() {
    if (SteadyNow() < deadline_) return;
    if (terminated_) {
      note_("killing the replicas that have not ended");
      SignalAll(SIGKILL);
      deadline_ = absl::InfiniteFuture();
      return;
    }
    terminated_ = true;
    deadline_ = SteadyNow() + kTerminateGrace;
    SignalAll(SIGTERM);
  }

  void SignalAll(int signal) {
    for (const auto& replica : replicas_) {
      if (!replica->ended()) replica->Signal(signal);
    }
  }

  const LauncherOptions& options_;
  const SignalQueue& signals_;
  const std::function<void(absl::string_view)>& note_;
  std::vector<std::unique_ptr<LocalReplica>> replicas_;
  // Of standard output and standard error, by rank.
  std::vector<LinePrefixer> prefixers_;
  std::vector<ReplicaEnd> ends_;
  // What was passed on. 0: nothing.
  int stop_signal_ = 0;
  bool forced_ = false;
  bool terminated_ = false;
  bool output_lost_ = false;
  // When the replicas that are left are asked to end, or killed.
  absl::Time deadline_ = absl::InfiniteFuture();
};

}  // namespace

std::map<std::string, std::string> ReplicaEnvironment(const LauncherOptions& options, int rank, int port,
                                                      const std::string& token, int restarts) {
  std::map<std::string, std::string> variables;
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables["OMP_NUM_THREADS"] = absl::StrCat(std::max(1, UsableCores() / options.replicas));
  }
  for (const auto& [name, value] : options.environment) variables[name] = value;
  const std::pair<const char*, std::string> own[] = {
      {"ADAPTDL_REPLICA_RANK", absl::StrCat(rank)},
      {"ADAPTDL_NUM_REPLICAS", absl::StrCat(options.replicas)},
      {"ADAPTDL_NUM_NODES", absl::StrCat(1)},
      {"ADAPTDL_NUM_RESTARTS", absl::StrCat(restarts)},
      {"ADAPTDL_MASTER_ADDR", "127.0.0.1"},
      {"ADAPTDL_MASTER_PORT", absl::StrCat(port)},
      {"ADAPTDL_GROUP_TOKEN", token},
      // A supervisor that the user's other commands talk to has no part in this.
      {"ADAPTDL_SUPERVISOR_ADDRESS", ""},
      {"ADAPTDL_REPLICA_ID", ""},
      {"ADAPTDL_GROUP", ""},
      {"ADAPTDL_REPLICA_HOST", ""}};
  for (const auto& [name, value] : own) variables[name] = value;
  if (!options.checkpoint.empty()) variables["ADAPTDL_CHECKPOINT_PATH"] = options.checkpoint;
  return variables;
}

absl::StatusOr<int> Launch(const LauncherOptions& options,
                           const std::function<void(absl::string_view)>& note) {
  const SignalQueue signals;
  for (int restarts = 0;; ++restarts) {
    const absl::StatusOr<std::unique_ptr<ReservedPort>> port = ReservedPort::Create();
    if (!port.ok()) return port.status();
    Group group(options, signals, note);
    if (absl::Status status = group.Start((*port)->port(), restarts); !status.ok()) return status;
    const GroupOutcome outcome = group.Follow();
    if (group.forced()) {
      note("ended at once; what was done since the last checkpoint is lost");
      return kForcedCode;
    }
    if (outcome.result == GroupResult::kStopped)
      note("stopped; the same command goes on from the checkpoint");
    if (outcome.result != GroupResult::kFailed) return outcome.code;
    const std::string what =
        absl::StrCat("failed: rank ", outcome.culprit.rank, " ", EndText(outcome.culprit));
    if (restarts >= options.max_restarts || group.stop_requested()) {
      note(what);
      return outcome.code;
    }
    note(absl::StrCat(what, "; starting again from the checkpoint (restart ", restarts + 1, " of ",
                      options.max_restarts, ")"));
  }
}

}  // namespace adaptdl::cli
