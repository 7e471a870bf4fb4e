#include "services/supervisor/replicas/replica_sessions.h"

#include <memory>

#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

class SilentStream final : public ReplicaStream {
 public:
  void Poke() override {}
  void End(const absl::Status& /*why*/) override {}
};

v1::HeartbeatRequest WaitingFor(int seconds) {
  v1::HeartbeatRequest request;
  request.mutable_activity()->mutable_waiting()->set_seconds(seconds);
  return request;
}

// While the state waits for its disk with one message, those that come meanwhile are signs of life. The one that
// it was at must not make the replica look as if it had been silent since.
TEST(ReplicaSessionsTest, AMessageThatTookLongDoesNotTakeBackNewerSignsOfLife) {
  ReplicaSessions sessions;
  const auto stream = std::make_shared<SilentStream>();
  sessions.Attach("r", stream);
  const absl::Time start = absl::FromUnixSeconds(1000);
  sessions.Heard("r", "job", WaitingFor(9), start + absl::Seconds(9));
  sessions.Heard("r", "job", WaitingFor(1), start + absl::Seconds(1));
  EXPECT_EQ(sessions.LastPulse("r").heard, start + absl::Seconds(9));
  EXPECT_EQ(sessions.LastPulse("r").activity.waiting().seconds(), 9);
  sessions.Heard("r", "job", WaitingFor(10), start + absl::Seconds(10));
  EXPECT_EQ(sessions.LastPulse("r").activity.waiting().seconds(), 10);
}

// What it says to have carried out counts all the same.
TEST(ReplicaSessionsTest, AnOlderMessageAcknowledgesCommands) {
  ReplicaSessions sessions;
  const auto stream = std::make_shared<SilentStream>();
  sessions.Attach("r", stream);
  sessions.Command("r", v1::REPLICA_COMMAND_CHECKPOINT, "");
  const v1::HeartbeatResponse command = sessions.Pending("r");
  EXPECT_EQ(command.command(), v1::REPLICA_COMMAND_CHECKPOINT);
  sessions.Heard("r", "job", WaitingFor(9), absl::FromUnixSeconds(1009));
  v1::HeartbeatRequest older;
  older.set_acknowledged_command_id(command.command_id());
  sessions.Heard("r", "job", older, absl::FromUnixSeconds(1001));
  EXPECT_EQ(sessions.Pending("r").command(), v1::REPLICA_COMMAND_NONE);
}

}  // namespace
}  // namespace adaptdl::supervisor
