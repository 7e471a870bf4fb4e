#include "services/supervisor/state/read_index.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<const JobEntry> MakeEntry(int64_t sequence, const std::string& name_space,
                                          const std::string& name,
                                          jobs::Phase phase = jobs::Phase::kPending) {
  auto job = std::make_shared<v1::Job>();
  job->set_namespace_(name_space);
  job->set_name(name);
  job->set_uid("uid-" + std::to_string(sequence));
  auto entry = std::make_shared<JobEntry>();
  entry->record.sequence = sequence;
  entry->record.job = job;
  entry->record.state.phase = phase;
  return entry;
}

std::vector<int64_t> Sequences(const std::vector<std::shared_ptr<const JobEntry>>& jobs) {
  std::vector<int64_t> sequences;
  for (const auto& job : jobs) sequences.push_back(job->record.sequence);
  return sequences;
}

TEST(ReadIndexTest, ListsInBatchesByNamespace) {
  ReadIndex index;
  ReadIndex::Update update;
  for (int64_t i = 1; i <= 6; ++i) {
    update.jobs.push_back(MakeEntry(i, i % 2 == 0 ? "even" : "odd", "job-" + std::to_string(i)));
  }
  index.Publish(std::move(update));
  EXPECT_THAT(Sequences(index.JobsAfter("*", 0, 4)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Sequences(index.JobsAfter("*", 4, 4)), ElementsAre(5, 6));
  EXPECT_THAT(Sequences(index.JobsAfter("even", 2, 10)), ElementsAre(4, 6));
  EXPECT_THAT(Sequences(index.JobsAfter("none", 0, 10)), IsEmpty());
}

TEST(ReadIndexTest, ANameMayBeTakenAgain) {
  ReadIndex index;
  ReadIndex::Update first;
  first.jobs = {MakeEntry(1, "a", "x")};
  index.Publish(std::move(first));
  ReadIndex::Update second;
  second.gone_jobs = {"uid-1", "uid-of-nobody"};
  second.jobs = {MakeEntry(2, "a", "x")};
  index.Publish(std::move(second));
  EXPECT_EQ(index.FindJob("uid-1"), nullptr);
  ASSERT_NE(index.FindJob("a", "x"), nullptr);
  EXPECT_EQ(index.FindJob("a", "x")->record.sequence, 2);
  EXPECT_THAT(Sequences(index.JobsAfter("a", 0, 10)), ElementsAre(2));
}

TEST(ReadIndexTest, TheAllocatorSeesWhatHasNotFinished) {
  ReadIndex index;
  ReadIndex::Update update;
  update.version = 5;
  update.jobs = {MakeEntry(2, "a", "y"), MakeEntry(1, "a", "x"),
                 MakeEntry(3, "a", "done", jobs::Phase::kSucceeded)};
  index.Publish(std::move(update));
  EXPECT_THAT(Sequences(index.View().jobs), ElementsAre(1, 2));
  EXPECT_EQ(index.View().version, 5);
  ReadIndex::Update ended;
  ended.version = 6;
  ended.jobs = {MakeEntry(1, "a", "x", jobs::Phase::kFailed)};
  index.Publish(std::move(ended));
  EXPECT_THAT(Sequences(index.View().jobs), ElementsAre(2));
  ClusterNews news;
  news.jobs = {"uid-1", "uid-2", "uid-9"};
  const ClusterUpdate change = index.ViewOfChange(news);
  EXPECT_FALSE(change.whole);
  EXPECT_THAT(Sequences(change.jobs), ElementsAre(2));
  EXPECT_THAT(change.gone_jobs, ElementsAre("uid-1", "uid-9"));
}

}  // namespace
}  // namespace adaptdl::supervisor
