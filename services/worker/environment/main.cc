// adaptdl-environment: becomes a job's program, in the virtual environment that it asked for. Not for people;
// see docs/worker.md.
//
//   adaptdl-environment --folder DIR --interpreter PYTHON --install 0|1 --library DIR --timeout D --max-bytes N
//                       --report-fd N -- COMMAND...

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "services/worker/environment/environment.h"
#include "services/worker/shim/child.h"
#include "services/worker/shim/records.h"

namespace {

using adaptdl::worker::Cause;
using adaptdl::worker::EnvironmentOptions;
using adaptdl::worker::kExitCannotExecute;
using adaptdl::worker::kExitNotFound;
using adaptdl::worker::StartFailure;

constexpr int kExitUsage = 2;

struct Flags {
  EnvironmentOptions environment;
  int report_fd = -1;
  char** command = nullptr;
};

bool ParseFlag(const std::string& flag, const std::string& value, Flags* flags) {
  EnvironmentOptions& environment = flags->environment;
  if (flag == "--folder") environment.folder = value;
  if (flag == "--interpreter") environment.interpreter = value;
  if (flag == "--library") environment.library = value;
  if (flag == "--folder" || flag == "--interpreter" || flag == "--library") return true;
  if (flag == "--install") return absl::SimpleAtob(value, &environment.install);
  if (flag == "--timeout") return absl::ParseDuration(value, &environment.timeout);
  if (flag == "--max-bytes") return absl::SimpleAtoi(value, &environment.max_bytes);
  if (flag == "--report-fd") return absl::SimpleAtoi(value, &flags->report_fd);
  return false;
}

bool Parse(int argc, char** argv, Flags* flags) {
  int i = 1;
  for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
    if (!ParseFlag(argv[i], argv[i + 1], flags)) return false;
  }
  if (i + 1 >= argc || strcmp(argv[i], "--") != 0) return false;
  flags->command = argv + i + 1;
  return !flags->environment.folder.empty() && !flags->environment.interpreter.empty();
}

// NOLINTBEGIN(concurrency-mt-unsafe): there is one thread.

// Says why the program was not begun: to the shim, which tells the supervisor, and in the log.
int Fail(const Flags& flags, Cause cause, int exit_code, const std::string& message) {
  // It is shown in tables and lists, where a message is one line.
  const std::string report = adaptdl::worker::StartFailureToJson(
      {.cause = cause, .exit_code = exit_code, .message = absl::StrReplaceAll(message, {{"\n", " | "}})});
  // A pipe holds far more than this.
  if (flags.report_fd >= 0 &&
      write(flags.report_fd, report.data(), report.size()) != static_cast<ssize_t>(report.size())) {
    fprintf(stderr, "adaptdl-environment: the shim does not listen: %s\n", strerror(errno));
  }
  fprintf(stderr, "%s\n", message.c_str());
  return exit_code;
}

void Enter(const std::string& environment) {
  const char* const path = getenv("PATH");
  setenv("PATH", absl::StrCat(environment, "/bin:", path == nullptr ? "/usr/bin:/bin" : path).c_str(), 1);
  setenv("VIRTUAL_ENV", environment.c_str(), 1);
  unsetenv("PYTHONHOME");
}

// Returns only if that does not work.
int Become(const Flags& flags) {
  const std::string name = flags.command[0];
  const std::string program = adaptdl::worker::FindProgram(name, {{"PATH", getenv("PATH")}});
  if (program.empty()) {
    return Fail(flags, Cause::kImage, kExitNotFound,
                absl::StrCat("command '", name, "' not found in PATH (", getenv("PATH"), ")"));
  }
  execv(program.c_str(), flags.command);
  const int error = errno;
  return Fail(flags, Cause::kImage, error == ENOENT ? kExitNotFound : kExitCannotExecute,
              absl::StrCat("command '", name, "' can't be executed: ", strerror(error)));
}

// NOLINTEND(concurrency-mt-unsafe)

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.environment.output_fd = STDERR_FILENO;
  if (!Parse(argc, argv, &flags)) {
    fprintf(stderr,
            "usage: %s --folder DIR --interpreter PYTHON [--install 0|1] [--library DIR] [--timeout 8m] "
            "[--max-bytes N] [--report-fd N] -- COMMAND...\nIt is started by adaptdl-worker.\n",
            argv[0]);
    return kExitUsage;
  }
  // Neither pip nor the program gets it: that it is closed says that the program has begun.
  if (flags.report_fd >= 0) fcntl(flags.report_fd, F_SETFD, FD_CLOEXEC);
  const absl::StatusOr<std::string> environment =
      adaptdl::worker::ProvideEnvironment(flags.environment, adaptdl::RealClock());
  if (!environment.ok()) {
    return Fail(flags, Cause::kJob, kExitCannotExecute,
                absl::StrCat("the virtual environment can't be made: ", environment.status().message()));
  }
  Enter(*environment);
  return Become(flags);
}
