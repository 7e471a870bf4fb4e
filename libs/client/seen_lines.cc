#include "libs/client/seen_lines.h"

#include "absl/strings/str_cat.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::client {

void SeenLines::Restart() {
  for (auto& [replica, position] : positions_) position.to_skip = position.at_time;
}

bool SeenLines::IsNew(const v1::LogLine& line) {
  Position& position = positions_[absl::StrCat(line.replica_id(), "/", line.source())];
  const absl::Time time = messages::ToTime(line.time());
  if (time < position.time) return false;
  if (time == position.time && position.to_skip > 0) {
    --position.to_skip;
    return false;
  }
  position.at_time = time == position.time ? position.at_time + 1 : 1;
  position.time = time;
  position.to_skip = 0;
  return true;
}

}  // namespace adaptdl::client
