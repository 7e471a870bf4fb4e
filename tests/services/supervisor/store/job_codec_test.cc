// What the store keeps of a job: every field was looked at, what is to survive does, and what earlier versions
// wrote is read.
// A field that is added breaks the build (full_record.h), until somebody has said whether it survives, in
// job_codec.cc or in WithoutWhatIsNotStored() below.

#include "services/supervisor/store/job_codec.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "services/supervisor/store/convert.h"
#include "services/supervisor/store/memory_job_store.h"
#include "services/supervisor/store/migrations.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "tests/services/supervisor/full_record.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

// As it is read: a restart begins these anew, or makes them of what was stored (job_codec.h).
JobRecord WithoutWhatIsNotStored(JobRecord record) {
  const jobs::Job none;
  record.state.faults = none.faults;
  record.state.starting_since = none.starting_since;
  record.state.retry_time = none.retry_time;
  record.state.start_time = none.start_time;
  record.state.completion_time = none.completion_time;
  return record;
}

void ExpectEqual(const JobRecord& read, const JobRecord& expected) {
  const auto& [sequence, job, state, decision, times, hints, progress, checkpoint_error, tokens] = read;
  EXPECT_EQ(sequence, expected.sequence);
  EXPECT_EQ(job->SerializeAsString(), expected.job->SerializeAsString());
  EXPECT_TRUE(state == expected.state) << ToStored(read).DebugString();
  EXPECT_TRUE(decision == expected.decision) << ToStored(read).DebugString();
  EXPECT_TRUE(times == expected.times) << ToStored(read).DebugString();
  ASSERT_EQ(hints.has_value(), expected.hints.has_value());
  if (hints.has_value()) {
    EXPECT_EQ(hints->SerializeAsString(), expected.hints->SerializeAsString());
  }
  ASSERT_EQ(progress.has_value(), expected.progress.has_value());
  if (progress.has_value()) {
    EXPECT_EQ(progress->SerializeAsString(), expected.progress->SerializeAsString());
  }
  EXPECT_EQ(checkpoint_error, expected.checkpoint_error);
  EXPECT_EQ(tokens, expected.tokens);
}

class JobCodecTest : public testing::Test {
 protected:
  JobCodecTest() : folder_(absl::StrCat(testing::TempDir(), "/codec-", RandomHex(8))) {
    std::filesystem::create_directories(folder_);
  }
  ~JobCodecTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<SqliteJobStore> Open() const {
    SqliteJobStoreOptions options;
    options.folder = folder_;
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // In a database that no supervisor has open.
  std::string Run(const std::string& sql) const {
    absl::StatusOr<Database> database = Database::Open(folder_ + "/supervisor.db");
    if (!database.ok()) return database.status().ToString();
    return database->Query(sql).value_or("failed");
  }

  const std::string folder_;
};

TEST_F(JobCodecTest, EverythingThatIsToSurviveDoes) {
  const JobRecord record = FullRecord();
  WriteBatch batch;
  batch.put_jobs = {record, MakeJob(8)};
  MemoryJobStore memory;
  ASSERT_TRUE(memory.Commit(batch).ok());
  ASSERT_TRUE(Open()->Commit(batch).ok());
  const auto store = Open();
  for (JobStore* read : {static_cast<JobStore*>(&memory), static_cast<JobStore*>(store.get())}) {
    const absl::StatusOr<StoreContents> contents = read->Load(absl::Now());
    ASSERT_TRUE(contents.ok()) << contents.status();
    ASSERT_EQ(contents->jobs.size(), 2u);
    ExpectEqual(contents->jobs[0], WithoutWhatIsNotStored(record));
    ExpectEqual(contents->jobs[1], MakeJob(8));
  }
}

TEST_F(JobCodecTest, EveryPhaseIsReadAsItWasWritten) {
  for (const auto phase :
       {jobs::Phase::kPending, jobs::Phase::kStarting, jobs::Phase::kRunning, jobs::Phase::kStopping,
        jobs::Phase::kSucceeded, jobs::Phase::kFailed, jobs::Phase::kCancelled, jobs::Phase::kRescaling}) {
    JobRecord record = MakeJob(1);
    record.state.phase = phase;
    JobRecord read = MakeJob(1);
    FromStored(ToStored(record), &read);
    EXPECT_EQ(read.state.phase, phase);
  }
}

// --- Jobs that an earlier version wrote

// The last schema without the stored form of a job, and the status that was stored instead.
constexpr int64_t kLegacySchema = 10;

v1::JobStatus LegacyStatus(const JobRecord& record) {
  v1::JobStatus status;
  status.set_phase(ToProto(record.state.phase));
  status.set_reason(record.state.reason);
  status.set_message(record.state.message);
  status.set_group(record.state.group);
  for (const std::string& node : record.state.allocation) status.add_allocation(node);
  status.set_restarts(record.state.restarts);
  status.set_failures(record.state.failures);
  *status.mutable_retry_time() = ToProto(record.times.retry);
  *status.mutable_submit_time() = ToProto(record.times.submitted);
  *status.mutable_start_time() = ToProto(record.times.started);
  *status.mutable_completion_time() = ToProto(record.times.completed);
  *status.mutable_running_time() = ToProto(record.state.running_time);
  *status.mutable_hints() = *record.hints;
  *status.mutable_progress() = *record.progress;
  status.set_cancel_requested(record.state.cancel_requested);
  *status.mutable_estimated_completion_time() = ToProto(record.times.estimated_completion);
  for (const std::string& node : record.decision.nodes) status.add_desired_allocation(node);
  status.set_allocation_reason(record.decision.reason);
  for (const std::string& text : record.decision.explanation) status.add_allocation_explanation(text);
  *status.mutable_rescale_duration() = ToProto(record.state.rescale_duration);
  status.set_rescales(record.state.rescales);
  status.set_checkpoint_error(record.checkpoint_error);
  return status;
}

std::string Hex(const std::string& bytes) { return absl::StrCat("x'", absl::BytesToHexString(bytes), "'"); }

class LegacyJobTest : public JobCodecTest {
 protected:
  void SetUp() override {
    record_ = WithoutWhatIsNotStored(FullRecord());
    // It was found in the tokens.
    record_.state.last_group = record_.tokens.rbegin()->first;
    record_.state.phase = jobs::Phase::kStopping;
    record_.state.reason = "StartDeadlineExceeded";
    absl::StatusOr<Database> database = Database::Open(folder_ + "/supervisor.db");
    ASSERT_TRUE(database.ok()) << database.status();
    const std::vector<std::string>& steps = SchemaSteps();
    ASSERT_TRUE(Migrate(&*database, {steps.begin(), steps.begin() + kLegacySchema}).ok());
    const jobs::Job& state = record_.state;
    std::vector<std::string> rows = {absl::StrCat(
        "INSERT INTO jobs (sequence, uid, namespace, name, phase, grp, spec, status, running_since, "
        "unschedulable, rescaling_since, rescale_note, newcomer_failures) VALUES (7, 'uid-7', 'default', "
        "'job-7', ",
        static_cast<int>(ToProto(state.phase)), ", ", state.group, ", ",
        Hex(record_.job->SerializeAsString()), ", ", Hex(LegacyStatus(record_).SerializeAsString()), ", ",
        ToMicros(state.running_since), ", 1, ", ToMicros(state.rescaling_since), ", '", state.rescale_note,
        "', ", state.newcomer_failures, ")")};
    for (const auto& [group, token] : record_.tokens) {
      rows.push_back(absl::StrCat("INSERT INTO tokens (job_uid, grp, token) VALUES ('uid-7', ", group, ", '",
                                  token, "')"));
    }
    for (const jobs::Plan& plan : state.plans) {
      for (size_t rank = 0; rank < plan.members.size(); ++rank) {
        rows.push_back(absl::StrCat(
            "INSERT INTO plans (job_uid, grp, rank, replica_id, node_id, firm, offered, since, ready_after, "
            "broken) VALUES ('uid-7', ",
            plan.group, ", ", rank, ", '", plan.members[rank].replica_id, "', '", plan.members[rank].node,
            "', 1, 1, ", ToMicros(plan.since), ", ", absl::ToInt64Microseconds(plan.ready_after), ", 1)"));
      }
    }
    for (const std::string& row : rows) {
      const absl::Status status = database->Execute(row);
      ASSERT_TRUE(status.ok()) << row << ": " << status;
    }
  }

  JobRecord record_;
};

TEST_F(LegacyJobTest, IsReadWithAllThatItHas) {
  const absl::StatusOr<StoreContents> contents = Open()->Load(absl::Now());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_TRUE(contents->damaged.empty());
  ASSERT_EQ(contents->jobs.size(), 1u);
  ExpectEqual(contents->jobs[0], record_);
}

TEST_F(LegacyJobTest, IsWrittenAnewWithItsNextChange) {
  record_.state.restarts = 99;
  record_.state.plans.pop_back();
  WriteBatch batch;
  batch.put_jobs = {record_};
  ASSERT_TRUE(Open()->Commit(batch).ok());
  EXPECT_EQ(Run("SELECT length(state) > 0 AND length(status) = 0 FROM jobs"), "1");
  const absl::StatusOr<StoreContents> contents = Open()->Load(absl::Now());
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->jobs.size(), 1u);
  ExpectEqual(contents->jobs[0], record_);
}

TEST_F(LegacyJobTest, IsMendedOrSetAsideWhereItStands) {
  v1::JobStatus status = LegacyStatus(record_);
  status.set_message("half a character: \xC3");
  EXPECT_EQ(Run(absl::StrCat("UPDATE jobs SET status = ", Hex(status.SerializeAsString()))), "");
  absl::StatusOr<StoreContents> contents = Open()->Load(absl::Now());
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->jobs.size(), 1u);
  EXPECT_EQ(contents->jobs[0].state.message, "half a character: \xEF\xBF\xBD");
  EXPECT_EQ(contents->jobs[0].state.plans, record_.state.plans);
  ASSERT_EQ(contents->damaged.size(), 1u);
  EXPECT_TRUE(contents->damaged[0].mended);
  EXPECT_TRUE(Open()->Load(absl::Now())->damaged.empty()) << "it was written back";

  EXPECT_EQ(Run("UPDATE jobs SET status = x'FFFFFFFF'"), "");
  contents = Open()->Load(absl::Now());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_TRUE(contents->jobs.empty());
  ASSERT_EQ(contents->set_aside.size(), 1u);
  EXPECT_EQ(contents->set_aside[0].name, "job-7");
}

}  // namespace
}  // namespace adaptdl::supervisor
