#include "services/supervisor/kubernetes/logs/log_lines.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "libs/kube/json/json.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {
namespace {

// Of an entry, with its time.
constexpr size_t kMaxEntry = 16 << 10;

}  // namespace

void LogLines::Feed(absl::string_view part, v1::StreamReplicaLogsResponse* lines) {
  while (!part.empty()) {
    const size_t end = part.find('\n');
    const absl::string_view piece = part.substr(0, std::min(end, kMaxEntry - unfinished_.size()));
    unfinished_.append(piece.data(), piece.size());
    part.remove_prefix(piece.size());
    const bool is_whole = !part.empty() && part.front() == '\n';
    if (!is_whole && unfinished_.size() < kMaxEntry) return;
    if (is_whole) part.remove_prefix(1);
    AddEntry(unfinished_, !is_whole, lines);
    unfinished_.clear();
  }
}

void LogLines::Finish(v1::StreamReplicaLogsResponse* lines) {
  if (!unfinished_.empty() || has_begun_) AddEntry(unfinished_, false, lines);
  unfinished_.clear();
}

void LogLines::AddEntry(absl::string_view text, bool is_partial, v1::StreamReplicaLogsResponse* lines) {
  if (!has_begun_) {
    const size_t space = text.find(' ');
    const absl::StatusOr<absl::Time> time = kube::TimeFromText(std::string(text.substr(0, space)));
    if (time.ok()) {
      last_ = *time;
      text.remove_prefix(space == absl::string_view::npos ? text.size() : space + 1);
    }
    is_old_ = time.ok() && *time <= after_;
  }
  has_begun_ = is_partial;
  if (is_old_) return;
  v1::LogLine* line = lines->add_lines();
  *line->mutable_time() = messages::ToProto(last_);
  line->set_text(text.data(), text.size());
  line->set_partial(is_partial);
}

}  // namespace adaptdl::supervisor
