#include "libs/logs/last_lines.h"

#include <algorithm>
#include <utility>

namespace adaptdl::logs {

void LastLines::Add(v1::LogLine line) {
  bytes_ += line.text().size() + sizeof(v1::LogLine);
  lines_ += line.partial() ? 0 : 1;
  entries_.push_back(std::move(line));
  while (lines_ > max_lines_ || (bytes_ > max_bytes_ && entries_.size() > 1)) DropFirst();
}

void LastLines::DropFirst() {
  const v1::LogSource source = entries_.front().source();
  // Its parts stand together, but for lines of the other source between them.
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->source() != source) {
      ++entry;
      continue;
    }
    const bool has_ended = !entry->partial();
    bytes_ -= entry->text().size() + sizeof(v1::LogLine);
    lines_ -= has_ended ? 1 : 0;
    entry = entries_.erase(entry);
    if (has_ended) return;
  }
}

void LastLines::TakeAll(Lines* lines) {
  for (v1::LogLine& entry : entries_) *lines->Add() = std::move(entry);
  entries_.clear();
  lines_ = 0;
  bytes_ = 0;
}

}  // namespace adaptdl::logs
