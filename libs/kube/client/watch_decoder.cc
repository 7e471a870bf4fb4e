#include "libs/kube/client/watch_decoder.h"

#include <map>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/client/errors.h"

namespace adaptdl::kube {
namespace {

std::optional<WatchEventKind> KindOf(const std::string& type) {
  if (type == "ADDED") return WatchEventKind::kAdded;
  if (type == "MODIFIED") return WatchEventKind::kModified;
  if (type == "DELETED") return WatchEventKind::kDeleted;
  if (type == "BOOKMARK") return WatchEventKind::kBookmark;
  return std::nullopt;
}

}  // namespace

absl::Status WatchDecoder::Feed(absl::string_view part) {
  size_t end;
  while ((end = part.find('\n')) != absl::string_view::npos) {
    rest_.append(part.data(), end);
    part.remove_prefix(end + 1);
    const std::string line = std::move(rest_);
    rest_.clear();
    if (const absl::Status status = Line(line); !status.ok()) return status;
  }
  if (rest_.size() + part.size() > kMaxLine) {
    return absl::UnknownError(absl::StrCat("an event of a watch is larger than ", kMaxLine, " bytes"));
  }
  rest_.append(part.data(), part.size());
  return absl::OkStatus();
}

absl::Status WatchDecoder::Line(absl::string_view line) {
  if (line.empty()) return absl::OkStatus();
  absl::StatusOr<Json> event = ParseJson(line);
  if (!event.ok()) return event.status();
  const std::string type = TextAt(*event, {"type"});
  if (!At(*event, {"object"}).is_object()) return absl::UnknownError("an event of a watch has no object");
  Json& object = (*event)["object"];
  if (type == "ERROR") return ErrorOfStatus(object);
  const std::optional<WatchEventKind> kind = KindOf(type);
  // A kind that is newer than this code tells of something that it can't use.
  if (kind.has_value()) take_({*kind, std::move(object)});
  return absl::OkStatus();
}

}  // namespace adaptdl::kube
