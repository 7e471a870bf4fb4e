// A job on its way to the store and back: what a transaction gives to the store, and what a start makes of it.

#include "services/supervisor/state/load.h"

#include <string>

#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "libs/messages/text.h"
#include "services/supervisor/state/transaction.h"
#include "services/supervisor/store/job_codec.h"
#include "services/supervisor/store/memory_job_store.h"
#include "tests/services/supervisor/full_record.h"

namespace adaptdl::supervisor {
namespace {

// What the record is after a restart at this moment of another process, whose steady time is another one.
JobRecord Restart(const JobRecord& record, const Moment& before, const Moment& after) {
  const Tables tables;
  Transaction transaction(tables, before);
  transaction.AddJob(record);
  MemoryJobStore store;
  EXPECT_TRUE(store.Commit(transaction.Finish(UnitOfCommit::kTransaction)[0].batch).ok());
  Invariants invariants;
  LoadOptions options;
  options.policy.max_retry_backoff = absl::Minutes(1);
  const absl::StatusOr<LoadedState> state = LoadState(&store, options, after, &invariants);
  EXPECT_TRUE(state.ok()) << state.status();
  return state->tables.jobs.at(record.uid())->record;
}

class LoadTest : public testing::Test {
 protected:
  // What the wall shows then is in the future of all that the record tells.
  const Moment before_ = {absl::FromUnixSeconds(5000), At(50)};
  const Moment after_ = {absl::FromUnixSeconds(70), At(50) + absl::Seconds(20)};

  // The steady time of the process before, of what the wall showed.
  absl::Time Steady(absl::Time wall) const { return before_.ToSteady(wall); }
};

TEST_F(LoadTest, SteadyTimesAreThoseOfTheNewProcess) {
  JobRecord record = FullRecord();
  record.times.retry = before_.wall + absl::Seconds(50);
  jobs::Job& state = record.state;
  jobs::Job expected = state;
  const auto move = [&](absl::Time jobs::Job::*time, absl::Time wall) {
    state.*time = before_.ToSteady(wall);
    expected.*time = after_.ToSteady(wall);
  };
  move(&jobs::Job::running_since, At(1));
  move(&jobs::Job::rescaling_since, At(2));
  move(&jobs::Job::start_time, record.times.started);
  move(&jobs::Job::completion_time, record.times.completed);
  move(&jobs::Job::retry_time, record.times.retry);
  for (size_t i = 0; i < state.plans.size(); ++i) {
    state.plans[i].since = before_.ToSteady(At(3));
    expected.plans[i].since = after_.ToSteady(At(3));
  }
  // Soft: a restart begins them anew.
  expected.faults = 0;
  expected.starting_since = absl::InfinitePast();
  const JobRecord read = Restart(record, before_, after_);
  EXPECT_TRUE(read.state == expected) << ToStored(read).DebugString();
  EXPECT_TRUE(read.decision == record.decision);
  EXPECT_TRUE(read.times == record.times);
}

TEST_F(LoadTest, AGroupThatStartsGetsTheWholeTimeAgain) {
  JobRecord record = MakeJob(1);
  record.state.phase = jobs::Phase::kStarting;
  record.state.starting_since = before_.steady - absl::Hours(1);
  EXPECT_EQ(Restart(record, before_, after_).state.starting_since, after_.steady);
}

TEST_F(LoadTest, NoTimeIsInTheFutureAndNoWaitIsLongerThanItCanBe) {
  JobRecord record = MakeJob(1);
  record.state.running_since = before_.steady + absl::Hours(1);
  record.times.retry = before_.wall + absl::Hours(1);
  const JobRecord read = Restart(record, before_, after_);
  EXPECT_EQ(read.state.running_since, after_.steady);
  EXPECT_EQ(read.state.retry_time, after_.steady + absl::Minutes(1));
  EXPECT_EQ(read.times.retry, record.times.retry) << "what people read stays";
}

// Puts a text that is no UTF-8 into every string of the message, at any depth.
void FillWithBadText(google::protobuf::Message* message) {
  const google::protobuf::Reflection* reflection = message->GetReflection();
  const std::string bad = "half a character: \xC3";
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (field->is_map()) continue;
    if (field->type() == google::protobuf::FieldDescriptor::TYPE_STRING) {
      field->is_repeated() ? reflection->AddString(message, field, bad)
                           : reflection->SetString(message, field, bad);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      FillWithBadText(field->is_repeated() ? reflection->AddMessage(message, field)
                                           : reflection->MutableMessage(message, field));
    }
  }
}

TEST_F(LoadTest, EveryTextOfARecordIsBoundedBeforeItIsStored) {
  JobRecord record = MakeJob(1);
  StoredJob bad;
  FillWithBadText(&bad);
  FromStored(bad, &record);
  ASSERT_TRUE(messages::NeedsBound(1 << 20, ToStored(record)));
  const Tables tables;
  Transaction transaction(tables, before_);
  transaction.AddJob(record);
  const WriteBatch batch = transaction.Finish(UnitOfCommit::kTransaction)[0].batch;
  ASSERT_EQ(batch.put_jobs.size(), 1u);
  EXPECT_FALSE(messages::NeedsBound(1 << 20, ToStored(batch.put_jobs[0])));
  EXPECT_GT(transaction.texts_mended(), 0);
}

}  // namespace
}  // namespace adaptdl::supervisor
