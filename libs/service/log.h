// Structured logs of the servers: one line per record, as JSON for machines or as text for people.
//
//   log::Info("replica launched", {{"job", "default/mnist"}, {"node", "local-0"}, {"group", "3"}});
//
// Field names in use: job ("namespace/name"), node, group, replica, method, code. Secrets never go into a
// log. Thread-safe. Records go to stderr. The sink is process-wide, as the process's stderr is.
//
// A service that runs by itself has a file for its stderr and stdout, which must not grow for ever: when it
// is full it becomes FILE.1, that one FILE.2, and so on, and the last one goes.

#ifndef ADAPTDL_LIBS_SERVICE_LOG_H_
#define ADAPTDL_LIBS_SERVICE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adaptdl::log {

struct Options {
  // "console" or "json".
  std::string format = "console";
  // "debug", "info", "warning" or "error": the least severe level that is written.
  std::string level = "info";
  // Name of the program, the field "service" of every record.
  std::string service;
  // What stderr and stdout are from now on. Empty: what they are.
  std::string file;
  // Size at which a new file is begun, in bytes, and old files that are kept.
  int64_t max_file_bytes = int64_t{16} << 20;
  int max_old_files = 4;
};

using Fields = std::initializer_list<std::pair<absl::string_view, std::string>>;

// Applies to all records from now on. INVALID_ARGUMENT names a format or level that does not exist; other
// errors, a file that can't be opened.
absl::Status Initialize(const Options& options);

void Debug(absl::string_view message, Fields fields = {});
void Info(absl::string_view message, Fields fields = {});
void Warning(absl::string_view message, Fields fields = {});
void Error(absl::string_view message, Fields fields = {});

}  // namespace adaptdl::log

#endif  // ADAPTDL_LIBS_SERVICE_LOG_H_
