#include "services/supervisor/kubernetes/logs/log_tail.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {

void LogTail::Add(const v1::StreamReplicaLogsResponse& lines) {
  for (const v1::LogLine& line : lines.lines()) {
    Entry entry = {.text = "", .goes_on = is_open_};
    if (!entry.goes_on) {
      entry.text =
          absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ ", messages::ToTime(line.time()), absl::UTCTimeZone());
    }
    absl::StrAppend(&entry.text, line.text(), line.partial() ? "" : "\n");
    is_open_ = line.partial();
    if (!is_open_) ++lines_;
    bytes_ += entry.text.size();
    entries_.push_back(std::move(entry));
  }
  Shorten();
}

void LogTail::Shorten() {
  if (bytes_ <= max_bytes_) return;
  is_cut_ = true;
  // The rest of a line whose beginning has gone goes too.
  while (!entries_.empty() && (bytes_ > max_bytes_ || entries_.front().goes_on)) {
    bytes_ -= entries_.front().text.size();
    entries_.pop_front();
  }
}

std::string LogTail::Text() const {
  std::string text;
  text.reserve(bytes_);
  for (const Entry& entry : entries_) text += entry.text;
  return text;
}

}  // namespace adaptdl::supervisor
