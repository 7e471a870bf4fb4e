#include "libs/messages/proto_time.h"

#include <cstdint>

namespace adaptdl::messages {

google::protobuf::Timestamp ToProto(absl::Time time) {
  // Nanoseconds are never negative here, also before 1970.
  const timespec value = absl::ToTimespec(time);
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(value.tv_sec);
  timestamp.set_nanos(static_cast<int32_t>(value.tv_nsec));
  return timestamp;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  // Seconds and nanoseconds have the same sign.
  absl::Duration rest;
  google::protobuf::Duration message;
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return message;
}

absl::Time ToTime(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace adaptdl::messages
