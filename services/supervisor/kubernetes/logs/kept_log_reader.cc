#include "services/supervisor/kubernetes/logs/kept_log_reader.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/logs/line_filter.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kPiece = 16 << 10;

}  // namespace

KeptLogReader::KeptLogReader(KeptLogFile file, int tail_lines, absl::Time after, const std::string& pattern)
    : file_(std::move(file)), parser_(after) {
  // Whoever has read a part, or wants a few lines, does not miss the beginning.
  const bool has_all = tail_lines > 0 && Seek(tail_lines, pattern);
  misses_beginning_ = file_.beginning_is_missing && !has_all && after == absl::InfinitePast();
  Read();
}

bool KeptLogReader::Seek(int tail_lines, const std::string& pattern) {
  const std::unique_ptr<logs::LineFilter> filter =
      logs::LineFilter::Create(absl::InfinitePast(), pattern).value_or(nullptr);
  const std::streamoff begin = file_.text.tellg();
  std::deque<std::streamoff> starts;
  std::string line;
  std::streamoff start = begin;
  while (std::getline(file_.text, line)) {
    // After its time.
    const absl::string_view text = absl::string_view(line).substr(std::min(line.find(' ') + 1, line.size()));
    if (filter == nullptr || filter->Wants(absl::InfiniteFuture(), text)) starts.push_back(start);
    if (starts.size() > static_cast<size_t>(tail_lines)) starts.pop_front();
    start += static_cast<std::streamoff>(line.size()) + 1;
  }
  file_.text.clear();
  file_.text.seekg(starts.empty() ? begin : starts.front());
  return starts.size() == static_cast<size_t>(tail_lines);
}

void KeptLogReader::Read() {
  next_.Clear();
  while (next_.lines().empty() && !is_done_) {
    char piece[kPiece];
    file_.text.read(piece, sizeof(piece));
    parser_.Feed(absl::string_view(piece, static_cast<size_t>(file_.text.gcount())), &next_);
    if (file_.text) continue;
    parser_.Finish(&next_);
    is_done_ = next_.lines().empty();
    if (!is_done_) return;
  }
}

v1::StreamReplicaLogsResponse KeptLogReader::Take() {
  v1::StreamReplicaLogsResponse taken = std::move(next_);
  Read();
  return taken;
}

grpc::Status KeptLogReader::status() const {
  std::string missing;
  if (misses_beginning_) missing = "only its last part was kept";
  if (!file_.error.empty()) {
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", "its end could not be kept: ", file_.error);
  }
  return missing.empty() ? grpc::Status::OK : grpc::Status(grpc::StatusCode::DATA_LOSS, missing);
}

}  // namespace adaptdl::supervisor
