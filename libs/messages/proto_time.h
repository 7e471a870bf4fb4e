// Times and durations as protobuf has them, and back. To the nanosecond; finite ones only.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_MESSAGES_PROTO_TIME_H_
#define ADAPTDL_LIBS_MESSAGES_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace adaptdl::messages {

google::protobuf::Timestamp ToProto(absl::Time time);
google::protobuf::Duration ToProto(absl::Duration duration);

// Of messages that nobody has checked too: what is out of their range is out of ours at most.
absl::Time ToTime(const google::protobuf::Timestamp& timestamp);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

}  // namespace adaptdl::messages

#endif  // ADAPTDL_LIBS_MESSAGES_PROTO_TIME_H_
