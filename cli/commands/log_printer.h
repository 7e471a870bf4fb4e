// Prints log lines, with their rank before them where several replicas write, and says where the lines of a job's next
// attempt begin. Not thread-safe.

#ifndef ADAPTDL_CLI_COMMANDS_LOG_PRINTER_H_
#define ADAPTDL_CLI_COMMANDS_LOG_PRINTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.pb.h"
#include "cli/attempts.h"
#include "cli/client.h"
#include "cli/context.h"

namespace adaptdl::cli {

struct LogPrinterOptions {
  // "[rank] " before each line.
  bool ranks = true;
  // The time before each line.
  bool timestamps = false;
  // Only lines of this attempt. 0: of all.
  int attempt = 0;
};

class LogPrinter {
 public:
  LogPrinter(const Context& context, LogPrinterOptions options) : context_(context), options_(options) {}

  // Prints all that the request gives.
  absl::Status PrintAll(Client& client, const v1::StreamLogsRequest& request);
  // Whether there was anything.
  bool printed() const { return printed_; }

 private:
  // Where a line belongs to. 0: nobody knows.
  int AttemptOf(Client& client, const v1::StreamLogsRequest& request, const v1::LogLine& line);
  void AnnounceAttempt(int attempt);
  void PrintLine(const v1::LogLine& line);
  void PrintWhole(const v1::LogLine& line, const std::string& text);

  const Context& context_;
  const LogPrinterOptions options_;
  std::vector<Attempt> attempts_;
  // Groups up to this one are in `attempts_`. The first one is of the first attempt, and is not asked for.
  int64_t known_group_ = 1;
  int current_attempt_ = 1;
  // Beginnings of lines whose end has not come, by replica and source.
  std::map<std::string, std::string> partial_;
  bool printed_ = false;
};

// How often all replicas of the job were launched, and when.
absl::StatusOr<std::vector<Attempt>> FindAttempts(Client& client, const JobReference& job);

// Prints the job's output until the job has finished, and meanwhile says, on standard error, what it waits for.
absl::Status FollowLogs(const Context& context, Client& client, const v1::Job& job);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_LOG_PRINTER_H_
