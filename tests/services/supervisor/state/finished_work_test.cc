#include "services/supervisor/state/finished_work.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

v1::Job Running(const std::vector<std::string>& words, const std::string& name_space = "default",
                const std::string& image = "") {
  v1::Job job;
  job.set_namespace_(name_space);
  v1::ReplicaTemplate* replica = job.mutable_spec()->mutable_template_();
  for (const std::string& word : words) replica->add_command(word);
  replica->set_image(image);
  return job;
}

// Of 100 samples per step.
JobRecord Record(int64_t sequence, const v1::Job& job, double steps,
                 jobs::Phase phase = jobs::Phase::kSucceeded) {
  JobRecord record = MakeJob(sequence);
  v1::Job named = job;
  named.set_name(record.job->name());
  named.set_uid(record.uid());
  record.job = std::make_shared<const v1::Job>(named);
  record.state.phase = phase;
  record.hints.emplace().set_init_batch_size(100);
  record.progress.emplace().set_scale_invariant_steps(steps);
  return record;
}

JobRecord Asking(const v1::Job& job) { return Record(1000, job, 5, jobs::Phase::kRunning); }

TEST(JobKindTest, IsNamespaceImageAndCommand) {
  const v1::Job job = Running({"python", "train.py", "--lr", "0.1"});
  EXPECT_EQ(CommandKind(job), CommandKind(Running({"python", "train.py", "--lr", "0.1"})));
  EXPECT_NE(CommandKind(job), CommandKind(Running({"python", "train.py", "--lr", "0.2"})));
  EXPECT_NE(CommandKind(job), CommandKind(Running({"python", "train.py", "--lr", "0.1"}, "other")));
  EXPECT_NE(CommandKind(job), CommandKind(Running({"python", "train.py", "--lr", "0.1"}, "default", "new")));
  EXPECT_NE(CommandKind(Running({"ab", "c"})), CommandKind(Running({"a", "bc"})));
  v1::Job split = Running({"python"});
  for (const char* word : {"train.py", "--lr", "0.1"})
    split.mutable_spec()->mutable_template_()->add_args(word);
  EXPECT_EQ(CommandKind(job), CommandKind(split));
}

TEST(JobKindTest, ProgramsAreKnownByWhatTheyRun) {
  const size_t script = ProgramKind(Running({"python", "-u", "train.py", "--lr", "0.1"}));
  EXPECT_EQ(script, ProgramKind(Running({"python", "train.py", "--lr", "3", "more.py"})));
  EXPECT_NE(script, ProgramKind(Running({"python", "test.py", "--lr", "0.1"})));
  EXPECT_NE(script, ProgramKind(Running({"python3", "train.py"})));
  EXPECT_NE(script, ProgramKind(Running({"python", "train.py"}, "other")));
  EXPECT_EQ(ProgramKind(Running({"python", "-m", "a", "1"})),
            ProgramKind(Running({"python", "-m", "a", "2"})));
  EXPECT_NE(ProgramKind(Running({"python", "-m", "a"})), ProgramKind(Running({"python", "-m", "b"})));
  EXPECT_NE(ProgramKind(Running({"sh", "-c", "train"})), ProgramKind(Running({"sh", "-c", "test"})));
  EXPECT_EQ(ProgramKind(Running({"/bin/train", "--epochs", "3"})), ProgramKind(Running({"/bin/train"})));
  EXPECT_EQ(ProgramKind(Running({"sh", "-c"})), ProgramKind(Running({"sh"}))) << "and nothing to run";
  EXPECT_EQ(ProgramKind(Running({})), ProgramKind(Running({})));
}

TEST(FinishedWorkTest, KnowsWhatJobsOfTheKindTook) {
  FinishedWork finished;
  const v1::Job job = Running({"train"});
  EXPECT_EQ(finished.Of(Asking(job)), std::nullopt);
  finished.Put(Record(1, job, 50));
  finished.Put(Record(2, job, 200));
  finished.Put(Record(2, job, 200));
  const std::optional<pastwork::PastWork> past = finished.Of(Asking(job));
  ASSERT_TRUE(past.has_value());
  EXPECT_EQ(past->jobs, 2);
  EXPECT_NEAR(past->mean_log, std::log(100 * 100), 1e-9);
  EXPECT_EQ(finished.Of(Asking(Running({"other"}))), std::nullopt);
}

TEST(FinishedWorkTest, LearnsOnlyFromJobsThatCameToTheirEnd) {
  FinishedWork finished;
  const v1::Job job = Running({"train"});
  finished.Put(Record(1, job, 50, jobs::Phase::kFailed));
  finished.Put(Record(2, job, 50, jobs::Phase::kCancelled));
  finished.Put(Record(3, job, 0));
  finished.Put(Record(4, job, std::nan("")));
  JobRecord silent = Record(5, job, 50);
  silent.progress.reset();
  finished.Put(silent);
  JobRecord plain = Record(6, job, 50);
  plain.hints.reset();
  finished.Put(plain);
  EXPECT_EQ(finished.Of(Asking(job)), std::nullopt);
  EXPECT_EQ(finished.size(), 0u);
}

TEST(FinishedWorkTest, TheLastStepsCountThoughTheyWereNotTold) {
  FinishedWork finished;
  const v1::Job job = Running({"train"});
  JobRecord known = Record(1, job, 290);
  known.progress->set_total_scale_invariant_steps(300);
  finished.Put(known);
  EXPECT_NEAR(finished.Of(Asking(job))->mean_log, std::log(300 * 100), 1e-9);
}

TEST(FinishedWorkTest, WhoKnowsItsWorkOrHasToldNothingNeedsNoHint) {
  FinishedWork finished;
  const v1::Job job = Running({"train"});
  finished.Put(Record(1, job, 50));
  JobRecord knows = Asking(job);
  knows.progress->set_total_scale_invariant_steps(300);
  EXPECT_EQ(finished.Of(knows), std::nullopt);
  JobRecord fresh = Asking(job);
  fresh.progress.reset();
  EXPECT_EQ(finished.Of(fresh), std::nullopt);
}

TEST(FinishedWorkTest, TheSameCommandSaysMoreThanTheProgramOnceThereIsEnoughOfIt) {
  FinishedWork finished;
  const v1::Job small = Running({"python", "train.py", "--model", "small"});
  const v1::Job large = Running({"python", "train.py", "--model", "large"});
  finished.Put(Record(1, small, 10));
  finished.Put(Record(2, large, 1000));
  finished.Put(Record(3, large, 1000));
  EXPECT_EQ(finished.Of(Asking(large))->jobs, 3) << "too few of the command: all of the program";
  finished.Put(Record(4, large, 1000));
  EXPECT_EQ(finished.Of(Asking(large))->jobs, 3);
  EXPECT_NEAR(finished.Of(Asking(large))->mean_log, std::log(1000 * 100), 1e-9);
  EXPECT_EQ(finished.Of(Asking(small))->jobs, 4);
}

TEST(FinishedWorkTest, TheNewestCountAndTheDeletedDoNot) {
  FinishedWork finished;
  const v1::Job job = Running({"train"});
  for (int i = 1; i <= 100; ++i) finished.Put(Record(i, job, i <= 36 ? 1 : 1000));
  EXPECT_EQ(finished.Of(Asking(job))->jobs, 64);
  EXPECT_NEAR(finished.Of(Asking(job))->mean_log, std::log(1000 * 100), 1e-9);
  for (int i = 1; i <= 99; ++i) finished.Erase(Record(i, job, 0));
  EXPECT_EQ(finished.Of(Asking(job))->jobs, 1);
  finished.Erase(Record(100, job, 0));
  EXPECT_EQ(finished.Of(Asking(job)), std::nullopt);
  EXPECT_EQ(finished.size(), 0u);
}

}  // namespace
}  // namespace adaptdl::supervisor
