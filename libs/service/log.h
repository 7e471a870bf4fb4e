// Structured logs of the servers: one line per record, as JSON for machines or as text for people.
//
//   log::Info("replica launched", {{"job", "default/mnist"}, {"node", "local-0"}, {"group", "3"}});
//
// Field names in use: job ("namespace/name"), node, group, replica, method, code. Secrets never go into a
// log. Thread-safe. Records go to stderr. The sink is process-wide, as the process's stderr is.

#ifndef ADAPTDL_LIBS_SERVICE_LOG_H_
#define ADAPTDL_LIBS_SERVICE_LOG_H_

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
};

using Fields = std::initializer_list<std::pair<absl::string_view, std::string>>;

// Applies to all records from now on. INVALID_ARGUMENT names a format or level that does not exist.
absl::Status Initialize(const Options& options);

void Debug(absl::string_view message, Fields fields = {});
void Info(absl::string_view message, Fields fields = {});
void Warning(absl::string_view message, Fields fields = {});
void Error(absl::string_view message, Fields fields = {});

}  // namespace adaptdl::log

#endif  // ADAPTDL_LIBS_SERVICE_LOG_H_
