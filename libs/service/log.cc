#include "libs/service/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "libs/base/file.h"
#include "libs/base/mutex.h"
#include "libs/service/log_writer.h"
#include "nlohmann/json.hpp"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/ansicolor_sink.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace adaptdl::log {
namespace {

// What records are written with; replaced as a whole by Initialize().
struct Output {
  bool json;
  std::shared_ptr<spdlog::logger> logger;
  // Of the file, if there is one.
  Options options;
};

// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Control characters made visible: whoever can put text into a log must not be able to forge lines, or to
// command the terminal.
std::string Printable(absl::string_view text) {
  std::string printable;
  for (const char c : text) {
    if (c == '\n') {
      printable += "\\n";
    } else if (c == '\t') {
      printable += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&printable, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      printable += c;
    }
  }
  return printable;
}

std::string JsonMembers(absl::string_view message, Fields fields) {
  std::string line = absl::StrCat("\"message\":", Quoted(message));
  for (const auto& [name, value] : fields) absl::StrAppend(&line, ",", Quoted(name), ":", Quoted(value));
  return line;
}

std::string ConsoleText(absl::string_view message, Fields fields) {
  std::string line = Printable(message);
  for (const auto& [name, value] : fields) {
    const bool quote = value.empty() || value.find_first_of(" \t\n\"=") != std::string::npos;
    absl::StrAppend(&line, " ", Printable(name), "=", quote ? Quoted(value) : Printable(value));
  }
  return line;
}

std::unique_ptr<spdlog::formatter> Formatter(const Options& options, bool json) {
  // A per cent sign begins a pattern's flag.
  const auto literal = [](const std::string& text) { return absl::StrReplaceAll(text, {{"%", "%%"}}); };
  const std::string pattern =
      json ? absl::StrCat("{\"time\":\"%Y-%m-%dT%H:%M:%S.%eZ\",\"level\":\"%l\",\"service\":",
                          literal(Quoted(options.service)), ",%v}")
           : absl::StrCat("%Y-%m-%d %H:%M:%S.%eZ %^%-7l%$ ", literal(Printable(options.service)), ": %v");
  return std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc);
}

std::shared_ptr<const Output> MakeOutput(const Options& options, spdlog::level::level_enum level) {
  const bool json = options.format == "json";
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = json || (no_color != nullptr && *no_color != '\0');
  // "automatic": colours if stderr is a terminal that knows them.
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(plain ? spdlog::color_mode::never
                                                                          : spdlog::color_mode::automatic);
  auto logger = std::make_shared<spdlog::logger>(options.service, std::move(sink));
  logger->set_formatter(Formatter(options, json));
  logger->set_level(level);
  logger->flush_on(spdlog::level::debug);
  return std::make_shared<const Output>(Output{json, std::move(logger), options});
}

// Makes the file stderr and stdout, also for those who write there without asking us.
absl::Status OpenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool opened = fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  return opened ? absl::OkStatus() : ErrnoStatus(error, absl::StrCat("--log-file ", path));
}

struct State {
  Mutex mutex;
  std::shared_ptr<const Output> output ABSL_GUARDED_BY(mutex);
};

// Begins a new file if this one is full. What can't be moved goes on.
void RotateIfFull(const Options& options) {
  struct stat file {};
  if (options.file.empty() || fstat(STDERR_FILENO, &file) != 0 || file.st_size < options.max_file_bytes)
    return;
  for (int i = options.max_old_files; i > 0; --i) {
    const std::string from = i == 1 ? options.file : absl::StrCat(options.file, ".", i - 1);
    (void)rename(from.c_str(), absl::StrCat(options.file, ".", i).c_str());
  }
  if (options.max_old_files == 0) unlink(options.file.c_str());
  OpenFile(options.file).IgnoreError();
}

State& ProcessState() {
  // Never destroyed: threads may log until the process is gone.
  static State* const state = new State{{}, MakeOutput(Options{}, spdlog::level::info)};
  return *state;
}

std::shared_ptr<const Output> CurrentOutput() {
  State& state = ProcessState();
  MutexLock lock(&state.mutex);
  return state.output;
}

void WriteNow(const Output& output, spdlog::log_clock::time_point time, spdlog::level::level_enum level,
              const std::string& text) {
  output.logger->log(time, spdlog::source_loc{}, level, spdlog::string_view_t(text.data(), text.size()));
  RotateIfFull(output.options);
}

void SayDropped(int64_t records) {
  const std::shared_ptr<const Output> output = CurrentOutput();
  const std::string message =
      absl::StrCat(records, " records of the log were dropped: they could not be written");
  WriteNow(*output, spdlog::log_clock::now(), spdlog::level::warn,
           output->json ? JsonMembers(message, {}) : ConsoleText(message, {}));
}

Writer& ProcessWriter() {
  static Writer* const writer = [] {
    auto* made = new Writer(SayDropped);  // never destroyed: as the state
    std::atexit([] { Flush(); });
    return made;
  }();
  return *writer;
}

void Write(spdlog::level::level_enum level, absl::string_view message, Fields fields) {
  std::shared_ptr<const Output> output = CurrentOutput();
  if (!output->logger->should_log(level)) return;
  std::string text = output->json ? JsonMembers(message, fields) : ConsoleText(message, fields);
  ProcessWriter().Post([output = std::move(output), time = spdlog::log_clock::now(), level,
                        text = std::move(text)] { WriteNow(*output, time, level, text); });
}

}  // namespace

absl::Status Initialize(const Options& options) {
  if (options.format != "console" && options.format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-format \"", options.format, "\" does not exist: use console or json"));
  }
  const spdlog::level::level_enum level = spdlog::level::from_str(options.level);
  if (options.level != "debug" && options.level != "info" && options.level != "warning" &&
      options.level != "error") {
    return absl::InvalidArgumentError(absl::StrCat("--log-level \"", options.level,
                                                   "\" does not exist: use debug, info, warning or error"));
  }
  if (!options.file.empty()) {
    if (const absl::Status status = OpenFile(options.file); !status.ok()) return status;
  }
  std::shared_ptr<const Output> output = MakeOutput(options, level);
  State& state = ProcessState();
  MutexLock lock(&state.mutex);
  state.output = std::move(output);
  return absl::OkStatus();
}

bool Flush(absl::Duration patience) { return ProcessWriter().Flush(patience); }

void Debug(absl::string_view message, Fields fields) { Write(spdlog::level::debug, message, fields); }
void Info(absl::string_view message, Fields fields) { Write(spdlog::level::info, message, fields); }
void Warning(absl::string_view message, Fields fields) { Write(spdlog::level::warn, message, fields); }
void Error(absl::string_view message, Fields fields) { Write(spdlog::level::err, message, fields); }

}  // namespace adaptdl::log
