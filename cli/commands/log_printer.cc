#include "cli/commands/log_printer.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/output.h"

namespace adaptdl::cli {
namespace {

// A line longer than this is printed in pieces: nothing may grow without bound.
constexpr size_t kLongestLine = 1 << 20;

std::string TimeText(const v1::LogLine& line) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", ToTime(line.time()), absl::UTCTimeZone());
}

}  // namespace

absl::Status LogPrinter::PrintAll(Client& client, const v1::StreamLogsRequest& request) {
  const absl::Status status = StreamLogs(
      client, request, [&](const v1::LogLine& line) { PrintLine(line); },
      [](const std::string& warning) { Note(absl::StrCat("warning: ", Printable(warning))); });
  for (const auto& [key, text] : partial_) Print(absl::StrCat(text, "\n"));
  partial_.clear();
  return status;
}

void LogPrinter::PrintLine(const v1::LogLine& line) {
  printed_ = true;
  const std::string key = absl::StrCat(line.replica_id(), "/", line.source());
  std::string text = std::move(partial_[key]);
  absl::StrAppend(&text, line.text());
  if (line.partial() && text.size() < kLongestLine) {
    partial_[key] = std::move(text);
    return;
  }
  partial_.erase(key);
  PrintWhole(line, text);
}

void LogPrinter::PrintWhole(const v1::LogLine& line, const std::string& text) {
  if (context_.format != Format::kTable) {
    PrintStreamed(context_, {{"time", TimeText(line)},
                             {"source", line.source() == v1::LOG_SOURCE_STDERR ? "stderr" : "stdout"},
                             {"replica", line.replica_id()},
                             {"group", line.group()},
                             {"rank", line.rank()},
                             {"text", text}});
    return;
  }
  Print(absl::StrCat(options_.timestamps ? TimeText(line) + " " : "",
                     options_.ranks ? absl::StrCat("[", line.rank(), "] ") : "", text, "\n"));
}

}  // namespace adaptdl::cli
