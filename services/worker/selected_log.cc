#include "services/worker/selected_log.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::worker {
namespace {

v1::LogLine LineOf(LogEntry entry) {
  v1::LogLine line;
  *line.mutable_time() = messages::ToProto(entry.time);
  line.set_source(entry.is_stderr ? v1::LOG_SOURCE_STDERR : v1::LOG_SOURCE_STDOUT);
  line.set_text(std::move(entry.text));
  line.set_partial(entry.partial);
  return line;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SelectedLog>> SelectedLog::Open(const std::string& folder,
                                                               const v1::StreamReplicaLogsRequest& request) {
  if (request.tail_lines() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tail_lines ", request.tail_lines(), " is negative: give 0 for all lines"));
  }
  std::unique_ptr<logs::LineFilter> filter;
  if (request.has_since() || !request.pattern().empty()) {
    auto created = logs::LineFilter::Create(
        request.has_since() ? messages::ToTime(request.since()) : absl::InfinitePast(), request.pattern());
    if (!created.ok()) return created.status();
    filter = *std::move(created);
  }
  return absl::WrapUnique(new SelectedLog(folder, request, std::move(filter)));
}

SelectedLog::SelectedLog(const std::string& folder, const v1::StreamReplicaLogsRequest& request,
                         std::unique_ptr<logs::LineFilter> filter)
    : cursor_(folder, request.pattern().empty() ? request.tail_lines() : 0), filter_(std::move(filter)) {
  if (!request.pattern().empty() && request.tail_lines() > 0) last_.emplace(request.tail_lines());
}

bool SelectedLog::Read(size_t max_bytes, bool is_complete, logs::Lines* wanted) {
  std::vector<LogEntry> entries = cursor_.Read(max_bytes);
  const bool has_read = !entries.empty();
  logs::Lines found;
  logs::Lines* const to = last_.has_value() ? &found : wanted;
  for (LogEntry& entry : entries) {
    v1::LogLine line = LineOf(std::move(entry));
    if (filter_ != nullptr) {
      filter_->Add(std::move(line), to);
    } else {
      *to->Add() = std::move(line);
    }
  }
  if (!has_read && is_complete && filter_ != nullptr) filter_->Finish(to);
  if (!last_.has_value()) return has_read;
  for (v1::LogLine& line : found) last_->Add(std::move(line));
  if (!has_read) {
    last_->TakeAll(wanted);
    last_.reset();
  }
  return has_read;
}

}  // namespace adaptdl::worker
