// What worker and shim tell each other through files and the control socket of a replica's folder.
//
// The folder of a replica holds:
//   launch.json    written by the worker before the shim starts, which reads its "process" part. Mode 0600.
//   lock           held (flock) by the shim for its life, and by nobody else.
//   control.sock   where a worker connects to the shim.
//   running.json   written by the shim once the process runs (RunningRecord).
//   replica.log    the output, with rotated files replica.log.1 (newest) and so on.
//   exit.json      written by the shim when all is over (ExitRecord).
//
// All functions are thread-safe. Times are written as RFC 3339 in UTC with nanoseconds.

#ifndef ADAPTDL_SERVICES_WORKER_SHIM_RECORDS_H_
#define ADAPTDL_SERVICES_WORKER_SHIM_RECORDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::worker {

inline constexpr char kLaunchFile[] = "launch.json";
inline constexpr char kLockFile[] = "lock";
inline constexpr char kControlSocket[] = "control.sock";
inline constexpr char kRunningFile[] = "running.json";
inline constexpr char kExitFile[] = "exit.json";
inline constexpr char kLogFile[] = "replica.log";

// Exit codes of a process that could not be started, as shells use them.
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;
// Of programs that use the training library: it was stopped in order; a peer was lost.
inline constexpr int kExitStopped = 143;
inline constexpr int kExitPeerLost = 75;

// The process to start: the "process" part of launch.json.
struct ProcessSpec {
  // Program and arguments; the program is looked up in the PATH of `env` when it holds no slash.
  std::vector<std::string> argv;
  // The whole environment.
  std::vector<std::pair<std::string, std::string>> env;
  // Absolute.
  std::string working_directory;
  // Time between SIGTERM and SIGKILL when the shim stops the replica on its own account.
  absl::Duration grace_period = absl::Seconds(30);
  // Account that it runs as, with this group and `groups`, and no other ones. -1: that of the shim.
  int64_t uid = -1;
  int64_t gid = -1;
  std::vector<int64_t> groups = {};
  // Most processes and threads that the account may have on this machine. 0: no bound but the machine's own.
  int64_t max_processes = 0;
  // Folder of the control group that it runs in (shim/cgroup.h), and bytes of memory that this allows. Empty:
  // that of the shim; 0: as many as the machine has.
  std::string cgroup = {};
  int64_t memory_bytes = 0;
  // Whether argv only prepares the program and then becomes it: it gets a pipe as descriptor 3, into which it writes
  // a StartFailure if it can't, and which is closed when the program begins.
  bool prepares = false;
};

// Descriptor of that pipe.
inline constexpr int kReportFd = 3;

struct RunningRecord {
  int64_t pid = 0;
  absl::Time start_time;
};

// Whose fault an end was, as far as the node can tell (EndCause of the protocol).
enum class Cause { kUnknown, kJob, kNode, kStorage, kPreemption, kImage };

// Why a program was not begun.
struct StartFailure {
  Cause cause = Cause::kUnknown;
  // As a shell would have it.
  int exit_code = 0;
  std::string message;
};

struct ExitRecord {
  // 0 to 255. Meaningful while signal is 0.
  int exit_code = 0;
  // Signal that ended the process. 0: none.
  int signal = 0;
  // What went wrong, for people. Empty: nothing.
  std::string message = {};
  // Whether nobody knows how the process ended, or it was never started through no fault of its own.
  bool lost = false;
  Cause cause = Cause::kUnknown;
  // Bytes of output that could not be written.
  int64_t dropped_log_bytes = 0;
  absl::Time start_time = absl::UnixEpoch();
  absl::Time end_time = absl::UnixEpoch();
};

// "succeeded", "stopped" (143 or SIGTERM), "peer_lost" (75), "failed", "killed" (a signal), "lost".
std::string KindOfEnd(const ExitRecord& record);

// Whether the process has failed, and its end does not say why.
bool IsUnexplainedFailure(const ExitRecord& record);

// JSON of each, on one line. Bytes that are not UTF-8 become U+FFFD.
std::string ProcessSpecToJson(const ProcessSpec& spec);
std::string RunningRecordToJson(const RunningRecord& record);
std::string ExitRecordToJson(const ExitRecord& record);
std::string StartFailureToJson(const StartFailure& failure);

// The reverse. INVALID_ARGUMENT if the text is no such JSON.
absl::StatusOr<ProcessSpec> ProcessSpecFromLaunchFile(absl::string_view launch_json);
absl::StatusOr<RunningRecord> RunningRecordFromJson(absl::string_view json);
absl::StatusOr<ExitRecord> ExitRecordFromJson(absl::string_view json);
absl::StatusOr<StartFailure> StartFailureFromJson(absl::string_view json);

// "2026-01-02T03:04:05.123456789Z".
std::string FormatTimestamp(absl::Time time);

// What a shim sends to a connected worker, one JSON object per line.
struct ShimEvent {
  enum class Kind { kRunning, kExited };
  Kind kind = Kind::kRunning;
  RunningRecord running = {};  // of kRunning
  ExitRecord exit = {};        // of kExited
};
std::string ShimEventToLine(const ShimEvent& event);
absl::StatusOr<ShimEvent> ShimEventFromLine(absl::string_view line);

// What a worker sends to a shim, one JSON object per line: SIGTERM, the grace period, SIGKILL.
struct StopCommand {
  absl::Duration grace_period;
  // Why, for people.
  std::string reason;
};
std::string StopCommandToLine(const StopCommand& command);
absl::StatusOr<StopCommand> StopCommandFromLine(absl::string_view line);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIM_RECORDS_H_
