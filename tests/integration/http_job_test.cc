// Programs that know no library of ours, over the supervisor's HTTP side: they meet, are re-scaled by
// restarts, and what goes wrong with them ends as the state machine says. tests/integration/python/meet.py is
// the program.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::HasSubstr;

class HttpJobTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  v1::Job MeetJob(const std::vector<std::string>& arguments) {
    v1::Job job = cluster_.CommandJob(
        "job", {"/usr/bin/python3", absl::StrCat(ADAPTDL_SOURCE_DIR, "/tests/integration/python/meet.py")});
    for (const std::string& argument : arguments) job.mutable_spec()->mutable_template_()->add_args(argument);
    return job;
  }
  // The job once it has met as the group with this number.
  v1::Job WaitForMeeting(int64_t group, int replicas) {
    const auto job = cluster_.WaitForJob(
        "job",
        [=](const v1::Job& job) {
          const v1::JobStatus& status = job.status();
          int joined = 0;
          for (const v1::Replica& replica : status.replicas()) joined += replica.joined() ? 1 : 0;
          return status.phase() == v1::JOB_PHASE_RUNNING && status.group() == group && joined == replicas;
        },
        absl::Minutes(1));
    EXPECT_TRUE(job.ok()) << job.status() << cluster_.Logs("job");
    return job.value_or(v1::Job());
  }

  TestCluster cluster_{{.workers = 2, .allocator = false, .adaptdl_http = true}};
};

TEST_F(HttpJobTest, IsRescaledByRestarts) {
  ASSERT_TRUE(cluster_.Submit(MeetJob({})).ok());
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0"}).ok());
  WaitForMeeting(1, 1);
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0", "node-1"}).ok());
  WaitForMeeting(2, 2);
  EXPECT_TRUE(
      cluster_.WaitForLog("job", "start 1: rank 0 of 2 on 2 nodes has met the others", absl::Minutes(1)))
      << cluster_.Logs("job");
  ASSERT_TRUE(cluster_.Allocate("job", {"node-1"}).ok());
  const v1::Job job = WaitForMeeting(3, 1);
  EXPECT_EQ(job.status().restarts(), 2);
  EXPECT_EQ(job.status().failures(), 0);
}

TEST_F(HttpJobTest, AHungRendezvousEndsWithTheGracePeriod) {
  v1::Job job = MeetJob({"hang"});
  job.mutable_spec()->mutable_template_()->mutable_termination_grace_period()->set_seconds(1);
  ASSERT_TRUE(cluster_.Submit(job).ok());
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0", "node-1"}).ok());
  // Rank 0 waits for rank 1, which never comes.
  const v1::Job hung = WaitForMeeting(1, 1);
  EXPECT_TRUE(hung.status().replicas(0).joined());
  EXPECT_FALSE(hung.status().replicas(1).joined());
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0"}).ok());
  const v1::Job next = WaitForMeeting(2, 1);
  EXPECT_EQ(next.status().failures(), 0) << "it was told to stop, and killed for being slow";
}

TEST_F(HttpJobTest, LeavingUnaskedIsAFailure) {
  v1::Job job = MeetJob({"leave"});
  job.mutable_spec()->set_max_restarts(1);
  ASSERT_TRUE(cluster_.Submit(job).ok());
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0"}).ok());
  const auto ended = cluster_.WaitForJob("job", Finished, absl::Minutes(1));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->status().phase(), v1::JOB_PHASE_FAILED);
  EXPECT_EQ(ended->status().failures(), 2);
  EXPECT_THAT(ended->status().message(), HasSubstr("143 though nobody had asked it to stop"));
}

}  // namespace
}  // namespace adaptdl::integration
