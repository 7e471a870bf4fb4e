#include "services/worker/objects/data_cache.h"

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "tests/services/worker/objects/fixture.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;

class DataCacheTest : public ::testing::Test {
 protected:
  DataCacheTest() { Restart("boot1"); }

  // As a worker that is started again.
  void Restart(const std::string& boot_id) {
    cache_ = std::make_unique<DataCache>(
        DataCacheOptions{.folder = folder_ / "data",
                         .max_bytes = 10,
                         .boot_id = boot_id,
                         .jobs = objectstore::S3Location{.bucket = "models", .prefix = "adaptdl"}},
        [this](const std::string&) { return &store_; }, &clock_);
  }
  absl::StatusOr<std::string> Acquire(const std::string& replica, const std::string& url,
                                      const std::string& job_namespace = "ns") {
    clock_.Advance(absl::Seconds(1));
    return cache_->Acquire({.job_namespace = job_namespace, .replica_id = replica, .sets = {{"train", url}}},
                           [] {});
  }
  void Use(const std::string& replica, const std::string& url) {
    const auto view = Acquire(replica, url);
    ASSERT_TRUE(view.ok()) << view.status();
    cache_->Release(replica);
  }

  TempFolder folder_;
  ManualClock clock_;
  objectstore::MemoryStore store_;
  std::unique_ptr<DataCache> cache_;
};

TEST_F(DataCacheTest, AReplicaFindsItsDataByName) {
  store_.Set("a/x", "12");
  store_.Set("a/deep/y", "3");
  store_.Set("a/deep/", "");
  store_.Set("ab", "another");
  const auto view = Acquire("r-1", "s3://data/a");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(ReadFile(*view + "/train/x"), "12");
  EXPECT_EQ(ReadFile(*view + "/train/deep/y"), "3");
  cache_->Release("r-1");
  EXPECT_FALSE(std::filesystem::exists(*view));
}

TEST_F(DataCacheTest, OneFetchServesAllOfANamespaceAndNoOther) {
  store_.Set("a/x", "12");
  ASSERT_TRUE(Acquire("r-1", "s3://data/a").ok());
  ASSERT_TRUE(Acquire("r-2", "s3://data/a").ok());
  EXPECT_EQ(store_.calls("get"), 1);
  Restart("boot1");
  ASSERT_TRUE(Acquire("r-3", "s3://data/a").ok());
  EXPECT_EQ(store_.calls("get"), 1);
  ASSERT_TRUE(Acquire("r-4", "s3://data/a", "other").ok());
  EXPECT_EQ(store_.calls("get"), 2);
}

TEST_F(DataCacheTest, WhatHasChangedIsFetchedAnewAndTheOldStaysWhileItIsUsed) {
  store_.Set("a/x", "old");
  const auto old = Acquire("r-1", "s3://data/a");
  store_.Set("a/x", "new");
  const auto changed = Acquire("r-2", "s3://data/a");
  ASSERT_TRUE(old.ok() && changed.ok());
  EXPECT_EQ(ReadFile(*old + "/train/x"), "old");
  EXPECT_EQ(ReadFile(*changed + "/train/x"), "new");
}

TEST_F(DataCacheTest, TheOneThatWasAskedForLongestAgoGoesButNoneInUse) {
  for (const std::string name : {"a", "b", "c", "d"}) store_.Set(name + "/x", "1234");
  const auto used = Acquire("r-1", "s3://data/a");
  Use("r-2", "s3://data/b");
  Use("r-2", "s3://data/c");
  EXPECT_EQ(store_.calls("get"), 3);
  EXPECT_EQ(ReadFile(*used + "/train/x"), "1234");
  Use("r-2", "s3://data/c");
  EXPECT_EQ(store_.calls("get"), 3) << "still there";
  Use("r-2", "s3://data/b");
  EXPECT_EQ(store_.calls("get"), 4) << "it had gone";
}

TEST_F(DataCacheTest, SaysThatThereIsNoRoom) {
  store_.Set("a/x", "123456");
  store_.Set("b/x", "123456");
  ASSERT_TRUE(Acquire("r-1", "s3://data/a").ok());
  const absl::Status status = Acquire("r-2", "s3://data/b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("--data-cache-bytes"));
  cache_->Release("r-1");
  EXPECT_TRUE(Acquire("r-2", "s3://data/b").ok());
}

TEST_F(DataCacheTest, ReplicasOfAnEarlierWorkerKeepTheirData) {
  store_.Set("a/x", "123456");
  store_.Set("b/x", "123456");
  ASSERT_TRUE(Acquire("r-1", "s3://data/a").ok());
  Restart("boot1");
  cache_->Adopt("r-1");
  EXPECT_FALSE(Acquire("r-2", "s3://data/b").ok());
}

TEST_F(DataCacheTest, GoesOnWhereAFetchBroke) {
  store_.Set("a/1", "1234");
  store_.Set("a/2", "5678");
  store_.SetFault([](const std::string& call, const std::string& key) {
    return call == "get" && key == "a/2" ? absl::UnavailableError("away") : absl::OkStatus();
  });
  EXPECT_EQ(Acquire("r-1", "s3://data/a").status().code(), absl::StatusCode::kUnavailable);
  Restart("boot1");
  store_.SetFault(nullptr);
  const auto view = Acquire("r-1", "s3://data/a");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(ReadFile(*view + "/train/1") + ReadFile(*view + "/train/2"), "12345678");
}

TEST_F(DataCacheTest, DistrustsWhatWasHalfWrittenBeforeTheMachineStarted) {
  store_.Set("a/1", "1234");
  store_.Set("a/2", "5678");
  store_.SetFault([](const std::string& call, const std::string& key) {
    return call == "get" && key == "a/2" ? absl::UnavailableError("away") : absl::OkStatus();
  });
  EXPECT_FALSE(Acquire("r-1", "s3://data/a").ok());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "data")) {
    if (entry.path().filename() == "1") WriteFile(entry.path().string(), std::string(4, '\0'));
  }
  store_.SetFault(nullptr);
  Restart("boot2");
  const auto view = Acquire("r-1", "s3://data/a");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(ReadFile(*view + "/train/1"), "1234");
}

TEST_F(DataCacheTest, SharedFoldersAreLinked) {
  std::filesystem::create_directory(folder_ / "shared");
  WriteFile(folder_ / "shared/x", "1");
  const auto view = Acquire("r-1", "file://" + folder_ / "shared");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(ReadFile(*view + "/train/x"), "1");
  EXPECT_EQ(Acquire("r-2", "file:///no/such").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DataCacheTest, RefusesWhatIsNoDataOfTheJob) {
  store_.Set("adaptdl/other/job-1/share/secret", "s");
  for (const std::string url :
       {"s3://models/adaptdl/other/job-1/share", "s3://models", "s3://models/adaptdl"}) {
    EXPECT_EQ(Acquire("r-1", url).status().code(), absl::StatusCode::kPermissionDenied) << url;
  }
  EXPECT_EQ(Acquire("r-1", "s3://models/adaptdl2").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Acquire("r-1", "http://x").status().code(), absl::StatusCode::kInvalidArgument);
  store_.Set("bad/../../x", "1");
  EXPECT_EQ(Acquire("r-1", "s3://data/bad").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::worker
