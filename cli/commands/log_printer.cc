#include "cli/commands/log_printer.h"

#include <algorithm>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands/wait.h"
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

absl::StatusOr<std::vector<Attempt>> FindAttempts(Client& client, const JobReference& reference) {
  v1::ListEventsRequest request;
  request.set_namespace_(reference.name_space);
  request.set_name(reference.name);
  // The job comes first: if it is launched again in between, there are more events than restarts, which count then.
  const absl::StatusOr<v1::Job> job = GetJob(client, reference);
  if (!job.ok()) return job.status();
  const absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
  if (!events.ok()) return events.status();
  return AttemptsOf(*events, job->status().restarts());
}

absl::Status LogPrinter::PrintAll(Client& client, const v1::StreamLogsRequest& request) {
  const auto on_line = [&](const v1::LogLine& line) {
    const int attempt = AttemptOf(client, request, line);
    if (options_.attempt > 0 && attempt != options_.attempt) return;
    AnnounceAttempt(attempt);
    PrintLine(line);
  };
  const absl::Status status = StreamLogs(client, request, on_line, [](const std::string& warning) {
    Note(absl::StrCat("warning: ", Printable(warning)));
  });
  for (const auto& [key, text] : partial_) Print(absl::StrCat(text, "\n"));
  partial_.clear();
  return status;
}

int LogPrinter::AttemptOf(Client& client, const v1::StreamLogsRequest& request, const v1::LogLine& line) {
  // Who asks for a group knows where its lines belong, and so do programs.
  const bool wanted = options_.attempt > 0 || (request.group() == 0 && context_.format == Format::kTable);
  if (!wanted) return 0;
  if (line.group() > known_group_) {
    known_group_ = line.group();
    const JobReference job{request.namespace_(), request.name()};
    // Without the answer the lines are printed all the same.
    if (auto attempts = FindAttempts(client, job); attempts.ok()) attempts_ = *std::move(attempts);
  }
  const Attempt* attempt = FindAttempt(attempts_, line.group());
  if (attempt != nullptr) return attempt->number;
  return line.group() == 1 ? 1 : 0;
}

void LogPrinter::AnnounceAttempt(int attempt) {
  if (attempt == 0 || attempt == current_attempt_) return;
  current_attempt_ = attempt;
  if (options_.attempt > 0) return;
  const auto it = std::find_if(attempts_.begin(), attempts_.end(),
                               [&](const Attempt& known) { return known.number == attempt; });
  if (it == attempts_.end()) return;
  // Not among the program's own output, which may be read by another one.
  Note(absl::StrCat("--- attempt ", attempt, ", ", FormatSecond(it->begin), " UTC, ", Printable(it->what),
                    " ---"));
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

absl::Status FollowLogs(const Context& context, Client& client, const v1::Job& job) {
  v1::StreamLogsRequest request;
  request.set_namespace_(job.namespace_());
  request.set_name(job.name());
  request.set_follow(true);
  const std::jthread reasons([&](const std::stop_token& stop) {
    TellWhatItWaitsFor(client, {job.namespace_(), job.name()}, stop);
  });
  return LogPrinter(context, {.ranks = job.spec().max_replicas() != 1}).PrintAll(client, request);
}

}  // namespace adaptdl::cli
