#include "services/worker/replica_accounts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;

TEST(UidRangeTest, TakesRangesWithoutRoot) {
  AccountOptions options;
  ASSERT_TRUE(ParseUidRange("300-400", &options).ok());
  EXPECT_EQ(options.first, 300u);
  EXPECT_EQ(options.last, 400u);
  for (const char* text : {"", "5", "0-10", "10-5", "a-b", "-1-5", "1-4294967295", "1-99999999999"}) {
    EXPECT_EQ(ParseUidRange(text, &options).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

class ReplicaAccountsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanChangeUsers()) GTEST_SKIP() << "NOT TESTED: only root can run jobs as different users";
    chmod(folder_.path().c_str(), 0711);
  }
  ReplicaAccounts Create(uid_t first = 200'000, uid_t last = 265'535) {
    auto accounts =
        ReplicaAccounts::Create({.user = "per-job", .first = first, .last = last}, folder_.path());
    EXPECT_TRUE(accounts.ok()) << accounts.status();
    return *std::move(accounts);
  }
  std::string Job(const std::string& name) {
    std::filesystem::create_directories(folder_ / ("default/" + name));
    return "default/" + name;
  }
  uid_t UidOf(const ReplicaAccounts& accounts, const std::string& job) {
    const auto account = accounts.Find(job);
    EXPECT_TRUE(account.ok()) << account.status();
    return account.ok() ? (*account)->uid : 0;
  }

  TempFolder folder_;
};

TEST_F(ReplicaAccountsTest, AJobHasOneNumberAndNoOtherHasIt) {
  const ReplicaAccounts accounts = Create(200'000, 200'049);
  std::set<uid_t> uids;
  for (int i = 0; i < 50; ++i) {
    const std::string job = Job(absl::StrCat("job-", i));
    const uid_t uid = UidOf(accounts, job);
    EXPECT_TRUE(uids.insert(uid).second) << uid;
    EXPECT_GE(uid, 200'000u);
    EXPECT_LE(uid, 200'049u);
    EXPECT_EQ(UidOf(accounts, job), uid);
    EXPECT_EQ(UidOf(Create(), job), uid) << "another range changes nothing for jobs that have a number";
  }
  EXPECT_EQ(accounts.Find(Job("one-more")).status().code(), absl::StatusCode::kResourceExhausted);
  accounts.Release("default/job-7", *accounts.Known("default/job-7"));
  EXPECT_TRUE(accounts.Find(Job("one-more")).ok());
}

TEST_F(ReplicaAccountsTest, NodesThatStartAJobTogetherAgree) {
  for (int round = 0; round < 20; ++round) {
    // A small range makes them meet.
    const uid_t first = 200'000 + 100 * round;
    std::vector<uid_t> uids(8);
    for (int job = 0; job < 2; ++job) Job(absl::StrCat("job-", round, "-", job));
    const ReplicaAccounts accounts = Create(first, first + 1);
    std::vector<std::thread> nodes;
    for (size_t node = 0; node < uids.size(); ++node) {
      nodes.emplace_back(
          [&, node] { uids[node] = UidOf(accounts, absl::StrCat("default/job-", round, "-", node % 2)); });
    }
    for (std::thread& node : nodes) node.join();
    for (size_t node = 2; node < uids.size(); ++node) EXPECT_EQ(uids[node], uids[node % 2]);
    EXPECT_NE(uids[0], uids[1]);
  }
}

TEST_F(ReplicaAccountsTest, RootIsNeverTakenFromALink) {
  const ReplicaAccounts accounts = Create();
  for (const char* text : {"0", "-1", "4294967295", "root", "../../etc/passwd"}) {
    const std::string job = Job(absl::StrCat("job-", std::string(text).size()));
    unlink((folder_ / (job + "/user")).c_str());
    std::filesystem::create_symlink(text, folder_ / (job + "/user"));
    EXPECT_FALSE(accounts.Known(job).has_value()) << text;
    EXPECT_EQ(accounts.Find(job).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

TEST_F(ReplicaAccountsTest, SaysWhatIsWrongWithAnAccount) {
  const auto create = [&](const std::string& user) {
    return ReplicaAccounts::Create({.user = user}, folder_.path()).status();
  };
  EXPECT_THAT(std::string(create("no-such-account").message()), HasSubstr("no-such-account"));
  EXPECT_TRUE(create("nobody").ok()) << create("nobody");
  EXPECT_TRUE(create("root").ok()) << create("root");
  chmod(folder_.path().c_str(), 0700);
  EXPECT_THAT(std::string(create("nobody").message()), HasSubstr("chmod o+x"));
  EXPECT_EQ(create("self"), absl::OkStatus());
}

}  // namespace
}  // namespace adaptdl::worker
