// Prints log lines, with their rank before them where several replicas write. Not thread-safe.

#ifndef ADAPTDL_CLI_COMMANDS_LOG_PRINTER_H_
#define ADAPTDL_CLI_COMMANDS_LOG_PRINTER_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "adaptdl/v1/job_service.pb.h"
#include "cli/client.h"
#include "cli/context.h"

namespace adaptdl::cli {

struct LogPrinterOptions {
  // "[rank] " before each line.
  bool ranks = true;
  // The time before each line.
  bool timestamps = false;
};

class LogPrinter {
 public:
  LogPrinter(const Context& context, LogPrinterOptions options) : context_(context), options_(options) {}

  // Prints all that the request gives.
  absl::Status PrintAll(Client& client, const v1::StreamLogsRequest& request);
  // Whether there was anything.
  bool printed() const { return printed_; }

 private:
  void PrintLine(const v1::LogLine& line);
  void PrintWhole(const v1::LogLine& line, const std::string& text);

  const Context& context_;
  const LogPrinterOptions options_;
  // Beginnings of lines whose end has not come, by replica and source.
  std::map<std::string, std::string> partial_;
  bool printed_ = false;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_LOG_PRINTER_H_
