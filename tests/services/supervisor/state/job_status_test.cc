#include "services/supervisor/state/job_status.h"

#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "services/supervisor/store/convert.h"
#include "tests/services/supervisor/full_record.h"

namespace adaptdl::supervisor {
namespace {

// Names of the fields that say nothing.
std::set<std::string> EmptyFields(const v1::JobStatus& status) {
  std::set<std::string> names;
  const google::protobuf::Descriptor* type = status.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type->field(i);
    const bool has = field->is_repeated() ? status.GetReflection()->FieldSize(status, field) > 0
                                          : status.GetReflection()->HasField(status, field);
    if (!has) names.insert(std::string(field->name()));
  }
  return names;
}

TEST(JobStatusTest, UsersAreToldEverything) {
  const JobRecord record = FullRecord();
  v1::JobStatus status;
  const absl::Time now = record.state.running_since + absl::Seconds(3);
  FillStatus(record, Audience::kUsers, now, &status);
  // What it has cost stands in the book of costs, and what others of its kind took is for allocators alone.
  EXPECT_EQ(EmptyFields(status), (std::set<std::string>{"cost", "past_work", "replicas"}));
  EXPECT_EQ(status.phase(), v1::JOB_PHASE_RESCALING);
  EXPECT_EQ(status.reason(), record.state.reason);
  EXPECT_EQ(status.message(), record.state.message);
  EXPECT_EQ(status.group(), record.state.group);
  EXPECT_EQ(status.allocation_size(), 3);
  EXPECT_EQ(status.restarts(), record.state.restarts);
  EXPECT_EQ(status.failures(), record.state.failures);
  EXPECT_EQ(status.rescales(), record.state.rescales);
  EXPECT_EQ(ToTime(status.submit_time()), record.times.submitted);
  EXPECT_EQ(ToTime(status.start_time()), record.times.started);
  EXPECT_EQ(ToTime(status.completion_time()), record.times.completed);
  EXPECT_EQ(ToTime(status.retry_time()), record.times.retry);
  EXPECT_EQ(ToTime(status.estimated_completion_time()), record.times.estimated_completion);
  EXPECT_EQ(ToDuration(status.running_time()), record.state.running_time + absl::Seconds(3));
  EXPECT_EQ(ToDuration(status.rescale_duration()), record.state.rescale_duration);
  EXPECT_EQ(status.desired_allocation_size(), 2);
  EXPECT_EQ(status.allocation_reason(), record.decision.reason);
  EXPECT_EQ(status.allocation_explanation_size(), 2);
  EXPECT_EQ(status.checkpoint_error(), record.checkpoint_error);
}

TEST(JobStatusTest, TheAllocatorIsNotToldWhatOnlyPeopleRead) {
  v1::JobStatus status;
  FillStatus(FullRecord(), Audience::kAllocator, absl::InfinitePast(), &status);
  EXPECT_EQ(EmptyFields(status), (std::set<std::string>{"cost", "estimated_completion_time", "message",
                                                        "past_work", "reason", "replicas", "retry_time"}));
}

TEST(JobStatusTest, WhatHasNotHappenedIsAbsent) {
  JobRecord record = MakeJob(1);
  v1::JobStatus status;
  FillStatus(record, Audience::kUsers, absl::UnixEpoch(), &status);
  v1::JobStatus pending;
  pending.set_phase(v1::JOB_PHASE_PENDING);
  EXPECT_EQ(status.DebugString(), pending.DebugString());
}

TEST(JobStatusTest, AJobIsDescribedWithTheMembersOfItsGroup) {
  JobEntry entry;
  entry.record = FullRecord();
  for (const int64_t group : {3, 4}) {
    auto replica = std::make_shared<ReplicaRecord>();
    replica->replica.set_group(group);
    entry.replicas.push_back(replica);
  }
  const v1::Job job = DescribeJob(entry, absl::UnixEpoch());
  EXPECT_EQ(job.uid(), entry.record.uid());
  ASSERT_EQ(job.status().replicas_size(), 1);
  EXPECT_EQ(job.status().replicas(0).group(), 3);
}

}  // namespace
}  // namespace adaptdl::supervisor
