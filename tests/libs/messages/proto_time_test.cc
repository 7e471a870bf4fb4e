#include "libs/messages/proto_time.h"

#include "gtest/gtest.h"

namespace adaptdl::messages {
namespace {

TEST(ProtoTime, TimesGoThereAndBack) {
  for (const absl::Time time :
       {absl::UnixEpoch(), absl::FromUnixNanos(1'500'000'000'123'456'789), absl::FromUnixNanos(-1)}) {
    const google::protobuf::Timestamp timestamp = ToProto(time);
    EXPECT_GE(timestamp.nanos(), 0);
    EXPECT_LT(timestamp.nanos(), 1'000'000'000);
    EXPECT_EQ(ToTime(timestamp), time);
  }
  const google::protobuf::Timestamp timestamp = ToProto(absl::FromUnixNanos(-1));
  EXPECT_EQ(timestamp.seconds(), -1);
  EXPECT_EQ(timestamp.nanos(), 999'999'999);
}

TEST(ProtoTime, DurationsGoThereAndBack) {
  for (const absl::Duration duration :
       {absl::ZeroDuration(), absl::Seconds(90) + absl::Nanoseconds(7), -absl::Milliseconds(1500)}) {
    EXPECT_EQ(ToDuration(ToProto(duration)), duration);
  }
  const google::protobuf::Duration negative = ToProto(-absl::Milliseconds(1500));
  EXPECT_EQ(negative.seconds(), -1);
  EXPECT_EQ(negative.nanos(), -500'000'000);
}

}  // namespace
}  // namespace adaptdl::messages
