#include "libs/kube/control/cache.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Json Object(const std::string& name, const std::string& version, const std::string& job = "j",
            const std::string& uid = "u") {
  return {{"metadata",
           {{"namespace", "n"},
            {"name", name},
            {"uid", uid},
            {"resourceVersion", version},
            {"labels", {{"job", job}}}}}};
}

struct Pod {
  std::string name;
  std::string version;
  std::string job;
};

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() {
    cache_.AddHandler([this](const Cache<Pod>::Change& change) {
      changes_.push_back(absl::StrCat(change.key.name, " ",
                                      change.before == nullptr ? "-" : change.before->version, " ",
                                      change.after == nullptr ? "-" : change.after->version));
      // What is told can be seen.
      EXPECT_EQ(cache_.Find(change.key), change.after);
    });
  }
  static std::vector<std::string> NamesOf(const std::vector<Cache<Pod>::Value>& pods) {
    std::vector<std::string> names;
    for (const auto& pod : pods) names.push_back(pod->name);
    return names;
  }

  Cache<Pod> cache_{{.parse =
                         [](const Json& json) {
                           return Pod{KeyOf(json).name, ResourceVersionOf(json), LabelOf(json, "job")};
                         },
                     .index = [](const Pod& pod) { return pod.job; }}};
  std::vector<std::string> changes_;
};

TEST_F(CacheTest, TellsAndKeepsWhatHappens) {
  cache_.Put(Object("a", "1"));
  cache_.Put(Object("a", "2"));
  cache_.Put(Object("b", "3"));
  cache_.Remove(Object("a", "4"));
  EXPECT_THAT(changes_, ElementsAre("a - 1", "a 1 2", "b - 3", "a 2 -"));
  EXPECT_THAT(NamesOf(cache_.All()), ElementsAre("b"));
  EXPECT_EQ(cache_.Find({"n", "a"}), nullptr);
  EXPECT_EQ(cache_.Find({"n", "b"})->version, "3");
}

TEST_F(CacheTest, WhatIsKnownAlreadyIsNoNews) {
  cache_.Put(Object("a", "1"));
  cache_.Put(Object("a", "1"));
  cache_.Remove(Object("b", "1"));
  EXPECT_THAT(changes_, ElementsAre("a - 1"));
}

TEST_F(CacheTest, AnotherObjectOfTheSameNameIsAnother) {
  cache_.Put(Object("a", "1"));
  cache_.Put(Object("a", "5", "j", "another"));
  EXPECT_THAT(changes_, ElementsAre("a - 1", "a 1 -", "a - 5"));
}

TEST_F(CacheTest, WhatANewListLacksIsGone) {
  cache_.Put(Object("a", "1"));
  cache_.Put(Object("b", "1"));
  cache_.Put(Object("b", "7"));
  cache_.Put(Object("c", "8"));
  cache_.Listed({{"n", "b"}, {"n", "c"}});
  EXPECT_THAT(NamesOf(cache_.All()), ElementsAre("b", "c"));
  EXPECT_EQ(changes_.back(), "a 1 -");
}

TEST_F(CacheTest, FindsByItsIndex) {
  cache_.Put(Object("a", "1", "x"));
  cache_.Put(Object("b", "1", "x"));
  cache_.Put(Object("c", "1", "y"));
  EXPECT_THAT(NamesOf(cache_.ByIndex("x")), ElementsAre("a", "b"));
  cache_.Put(Object("a", "2", "y"));
  EXPECT_THAT(NamesOf(cache_.ByIndex("x")), ElementsAre("b"));
  EXPECT_THAT(NamesOf(cache_.ByIndex("y")), ElementsAre("a", "c"));
  cache_.Remove(Object("b", "2", "x"));
  EXPECT_THAT(cache_.ByIndex("x"), IsEmpty());
}

TEST_F(CacheTest, WhoHoldsAValueKeepsIt) {
  cache_.Put(Object("a", "1"));
  const auto held = cache_.Find({"n", "a"});
  cache_.Put(Object("a", "2"));
  EXPECT_EQ(held->version, "1");
}

TEST_F(CacheTest, IsSyncedByTheFirstWholeList) {
  cache_.Put(Object("a", "1"));
  EXPECT_FALSE(cache_.synced());
  std::thread waits([&] { EXPECT_TRUE(cache_.AwaitSynced({})); });
  cache_.Listed({{"n", "a"}});
  waits.join();
  EXPECT_TRUE(cache_.synced());
}

TEST_F(CacheTest, AStopRequestEndsTheWaitForIt) {
  std::stop_source stop;
  std::thread waits([&] { EXPECT_FALSE(cache_.AwaitSynced(stop.get_token())); });
  stop.request_stop();
  waits.join();
}

}  // namespace
}  // namespace adaptdl::kube
