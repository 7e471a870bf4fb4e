// The recorder on the managers, its thread and the hub's played by the test.

#include "services/supervisor/history/recorder.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/history/history_service.h"
#include "tests/services/supervisor/managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

class RecorderTest : public ManagersTest {
 protected:
  RecorderTest() : folder_(absl::StrCat(testing::TempDir(), "/recorder-", RandomHex(8))) {
    history_.folder = folder_;
  }
  ~RecorderTest() override {
    recorder_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    ManagersTest::SetUp();
    ASSERT_TRUE(AddNode("n1", 64'000).ok());
    StartRecorder();
  }

  void StartRecorder() {
    recorder_ = nullptr;
    recorder_ = std::make_unique<Recorder>(history_, cluster_->core());
  }
  // As the hub does after a commit.
  void Tell() {
    Changes changes;
    for (const std::string& uid : cluster_->jobs()->JobUids("*")) changes.jobs[uid] = JobChange();
    recorder_->OnChanges(changes);
  }
  v1::Job SubmitJob(const std::string& name) {
    const auto job = Submit(name);
    EXPECT_TRUE(job.ok()) << job.status();
    Tell();
    return *job;
  }
  // Its one replica runs from now on.
  v1::LaunchReplica Run(const v1::Job& job) {
    launcher_.launches.clear();
    EXPECT_TRUE(Allocate(job, {"n1"}).ok());
    EXPECT_EQ(launcher_.launches.size(), 1u);
    const v1::LaunchReplica launch = launcher_.launches.back().second;
    EXPECT_TRUE(Report(launch, "n1", v1::REPLICA_STATE_RUNNING).ok());
    Tell();
    return launch;
  }
  void End(const v1::LaunchReplica& launch) {
    EXPECT_TRUE(Report(launch, "n1", v1::REPLICA_STATE_EXITED, 0).ok());
    Tell();
  }
  void Say(const v1::Job& job, double throughput) {
    v1::TrainingProgress progress;
    progress.set_throughput(throughput);
    recorder_->Observe({{job.uid(), progress}});
  }
  void Pass(int seconds) {
    for (; seconds > 0; --seconds) {
      clock_.Advance(absl::Seconds(1));
      recorder_->Step();
    }
  }
  v1::GetJobHistoryResponse History(const std::string& name, int max_points = 2000) {
    v1::GetJobHistoryRequest request;
    request.set_name(name);
    request.set_max_points(max_points);
    const auto history = GetJobHistory(cluster_->core()->index(), *recorder_, request);
    EXPECT_TRUE(history.ok()) << history.status();
    return history.value_or(v1::GetJobHistoryResponse());
  }

  const std::string folder_;
  HistoryOptions history_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(RecorderTest, AJobIsFollowedFromItsSubmissionToItsEnd) {
  const v1::Job job = SubmitJob("a");
  Pass(10);
  const v1::LaunchReplica launch = Run(job);
  Say(job, 100);
  Pass(10);
  End(launch);
  const auto check = [&] {
    const v1::GetJobHistoryResponse history = History("a");
    EXPECT_EQ(history.job_uid(), job.uid());
    ASSERT_EQ(history.points_size(), 11) << "a wait and ten seconds";
    EXPECT_EQ(history.points(0).replicas(), 0);
    EXPECT_EQ(history.points(1).throughput(), 100);
    EXPECT_EQ(history.changes(0).phase(), v1::JOB_PHASE_PENDING);
    EXPECT_EQ(history.changes(0).replicas(), 0);
    const auto& changes = history.changes();
    EXPECT_EQ(changes[changes.size() - 2].replicas(), 1);
    EXPECT_EQ(changes[changes.size() - 2].nodes(), 1);
    EXPECT_EQ(changes[changes.size() - 1].phase(), v1::JOB_PHASE_SUCCEEDED);
    EXPECT_EQ(changes[changes.size() - 1].replicas(), 0);
  };
  check();
  recorder_->Flush();
  Pass(2);
  recorder_->Flush();
  check();
  StartRecorder();
  check();
}

TEST_F(RecorderTest, AnActiveJobGoesOnAfterARestart) {
  const v1::Job job = SubmitJob("a");
  Run(job);
  Say(job, 100);
  Pass(10);
  const size_t changes = History("a").changes_size();
  recorder_ = nullptr;
  clock_.Advance(absl::Seconds(5));
  StartRecorder();
  EXPECT_EQ(History("a").points_size(), 10) << "before anything was written";
  Pass(3);
  recorder_->Flush();
  Pass(2);
  EXPECT_EQ(History("a").points_size(), 15);
  EXPECT_EQ(History("a").changes_size(), static_cast<int>(changes)) << "nothing has changed";
  const v1::GetJobHistoryResponse history = History("a");
  EXPECT_GE(messages::ToTime(history.points(10).begin()) - messages::ToTime(history.points(9).end()),
            absl::Seconds(5))
      << "nobody was there";
}

// The process is killed between two flushes.
TEST_F(RecorderTest, ACrashLosesWhatWasNotWritten) {
  const v1::Job job = SubmitJob("a");
  Run(job);
  Pass(10);
  recorder_->Flush();
  const std::string copy = folder_ + "-copy";
  std::filesystem::copy(folder_, copy);
  Pass(3);
  recorder_ = nullptr;
  history_.folder = copy;
  StartRecorder();
  EXPECT_EQ(History("a").points_size(), 10);
  recorder_ = nullptr;
  std::filesystem::remove_all(copy);
}

TEST_F(RecorderTest, ALongHistoryStaysWithinItsBoundOnDisk) {
  const v1::Job job = SubmitJob("a");
  Run(job);
  for (int i = 0; i < 3000; i += 60) {
    Say(job, 100);
    Pass(60);
    recorder_->Flush();
  }
  const v1::GetJobHistoryResponse history = History("a");
  EXPECT_LE(history.points_size(), 512);
  EXPECT_GE(history.points_size(), 128);
  EXPECT_GE(history.resolution().seconds(), 8);
  EXPECT_EQ(messages::ToTime(history.points(0).begin()), clock_.Now() - absl::Seconds(3000));
  EXPECT_NEAR(history.points(history.points_size() - 1).throughput(), 100, 1e-9);
  EXPECT_EQ(History("a", 10).points_size(), 10);
  v1::GetJobHistoryRequest request;
  request.set_name("a");
  *request.mutable_after() = history.points(history.points_size() - 3).end();
  const auto news = GetJobHistory(cluster_->core()->index(), *recorder_, request);
  ASSERT_TRUE(news.ok());
  EXPECT_EQ(news->points_size(), 2);
}

TEST_F(RecorderTest, WhatIsDeletedGoesFromDisk) {
  const v1::Job job = SubmitJob("a");
  Pass(2);
  recorder_->Flush();
  const auto kept = [this] {
    const auto file = HistoryFile::Open(folder_);
    return (*file)->ListUids()->size();
  };
  EXPECT_EQ(kept(), 1u);
  Changes changes;
  changes.deleted[job.uid()] = job;
  recorder_->OnChanges(changes);
  recorder_->Flush();
  EXPECT_EQ(kept(), 0u);
}

TEST_F(RecorderTest, WhatWasDeletedWhileNobodyLookedGoesToo) {
  const auto file = HistoryFile::Open(folder_);
  HistoryFile::Part part;
  part.uid = "of old";
  ASSERT_TRUE((*file)->Write({part}, {}).ok());
  SubmitJob("a");
  recorder_->Flush();
  ASSERT_EQ((*file)->ListUids()->size(), 1u);
  EXPECT_NE((*file)->ListUids()->at(0), "of old");
}

TEST_F(RecorderTest, ADiskThatFailsCostsNothingButWhatDoesNotFit) {
  recorder_ = nullptr;
  std::filesystem::remove_all(folder_);
  std::ofstream(folder_) << "a file is where the folder is to be";
  StartRecorder();
  const v1::Job job = SubmitJob("a");
  Run(job);
  for (int i = 0; i < 20; ++i) {
    Pass(5);
    recorder_->Flush();
  }
  EXPECT_EQ(History("a").points_size(), 100) << "it is in memory";
  std::filesystem::remove(folder_);
  recorder_->Flush();
  EXPECT_EQ(History("a").points_size(), 100);
  StartRecorder();
  EXPECT_EQ(History("a").points_size(), 100) << "it was written when it could be";
}

TEST_F(RecorderTest, ADamagedFileIsBegunAnew) {
  const v1::Job job = SubmitJob("a");
  Run(job);
  Pass(100);
  recorder_->Flush();
  const std::string path = folder_ + "/history.sqlite";
  std::ofstream(path, std::ios::binary | std::ios::in) << std::string(std::filesystem::file_size(path), 'x');
  Pass(5);
  recorder_->Flush();
  recorder_->Flush();
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/history.sqlite.damaged"));
  EXPECT_EQ(History("a").points_size(), 5);
  EXPECT_GT(History("a").changes_size(), 1) << "changes are known still";
}

TEST_F(RecorderTest, WithoutADiskMemoryIsBounded) {
  history_.folder = "";
  history_.memory_bytes = 200'000;
  StartRecorder();
  std::vector<v1::Job> jobs;
  for (int i = 0; i < 20; ++i) {
    jobs.push_back(SubmitJob(absl::StrCat("job-", i)));
    const v1::LaunchReplica launch = Run(jobs.back());
    if (i > 0) continue;
    Pass(20);
    End(launch);
  }
  EXPECT_EQ(History("job-0").points_size(), 20);
  Pass(400);
  recorder_->Flush();
  EXPECT_EQ(History("job-0").points_size(), 0) << "the oldest one that has finished";
  EXPECT_LE(History("job-1").points_size(), 64);
  EXPECT_GE(History("job-1").points_size(), 8);
  EXPECT_EQ(messages::ToTime(History("job-1").points(0).begin()), clock_.Now() - absl::Seconds(400));
}

TEST_F(RecorderTest, OfAJobThatNobodyKeptAHistoryOfTheEventsTell) {
  const v1::Job job = SubmitJob("a");
  Run(job);
  Pass(5);
  recorder_ = nullptr;
  std::filesystem::remove_all(folder_);
  clock_.Advance(absl::Hours(1));
  StartRecorder();
  recorder_->Flush();
  const v1::GetJobHistoryResponse history = History("a");
  ASSERT_GE(history.changes_size(), 2);
  EXPECT_LE(messages::ToTime(history.changes(0).time()), clock_.Now() - absl::Hours(1));
}

TEST_F(RecorderTest, TheEndOfAJobIsKnownFromItsRecord) {
  const v1::Job job = SubmitJob("a");
  const v1::LaunchReplica launch = Run(job);
  Pass(5);
  recorder_->Flush();
  ASSERT_TRUE(Report(launch, "n1", v1::REPLICA_STATE_EXITED, 0).ok());
  StartRecorder();  // it has not heard of that
  const v1::GetJobHistoryResponse history = History("a");
  EXPECT_EQ(history.changes(history.changes_size() - 1).phase(), v1::JOB_PHASE_SUCCEEDED);
}

TEST_F(RecorderTest, TimelinesComeInPagesAndOfASpan) {
  std::vector<v1::Job> jobs;
  for (int i = 0; i < 5; ++i) {
    jobs.push_back(SubmitJob(absl::StrCat("job-", i)));
    Pass(60);
  }
  v1::ListTimelinesRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    const auto page = ListTimelines(cluster_->core()->index(), *recorder_, request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->timelines_size(), 2);
    for (const auto& timeline : page->timelines()) names.push_back(timeline.name());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names, (std::vector<std::string>{"job-0", "job-1", "job-2", "job-3", "job-4"}));
  request = v1::ListTimelinesRequest();
  *request.mutable_end() = messages::ToProto(clock_.Now() - absl::Seconds(270));
  EXPECT_EQ(ListTimelines(cluster_->core()->index(), *recorder_, request)->timelines_size(), 1);
  request.set_page_token("nonsense");
  EXPECT_TRUE(
      absl::IsInvalidArgument(ListTimelines(cluster_->core()->index(), *recorder_, request).status()));
  request = v1::ListTimelinesRequest();
  request.set_namespace_("other");
  EXPECT_EQ(ListTimelines(cluster_->core()->index(), *recorder_, request)->timelines_size(), 0);
  request.set_namespace_("*");
  EXPECT_EQ(ListTimelines(cluster_->core()->index(), *recorder_, request)->timelines_size(), 5);
}

// Its thread writes as often as it can; the hub's, the step's and readers are at work.
TEST_F(RecorderTest, AllThatHappensAtOnceIsInOrder) {
  history_.flush_period = absl::ZeroDuration();
  StartRecorder();
  const v1::Job job = SubmitJob("a");
  Run(job);
  recorder_->Start();
  std::thread hub([&] {
    for (int i = 0; i < 300; ++i) Tell();
  });
  std::thread reader([&] {
    for (int i = 0; i < 100; ++i) {
      absl::Time end = absl::InfinitePast();
      const v1::GetJobHistoryResponse history = History("a");
      for (const v1::HistoryPoint& point : history.points()) {
        EXPECT_GE(messages::ToTime(point.begin()), end);
        end = messages::ToTime(point.end());
      }
    }
  });
  for (int i = 0; i < 300; ++i) {
    Say(job, i);
    Pass(1);
  }
  hub.join();
  reader.join();
  EXPECT_EQ(History("a").points_size(), 300);
}

TEST_F(RecorderTest, WhatIsAskedForMustMakeSense) {
  v1::GetJobHistoryRequest request;
  request.set_name("nobody");
  EXPECT_TRUE(absl::IsNotFound(GetJobHistory(cluster_->core()->index(), *recorder_, request).status()));
  request.set_max_points(-1);
  EXPECT_TRUE(
      absl::IsInvalidArgument(GetJobHistory(cluster_->core()->index(), *recorder_, request).status()));
}

}  // namespace
}  // namespace adaptdl::supervisor
