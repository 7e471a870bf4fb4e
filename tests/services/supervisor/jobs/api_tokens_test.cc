#include "services/supervisor/jobs/api_tokens.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A job of namespace "vision" whose replica was launched in group 3 and is in group 4 now.
class ApiTokensTest : public testing::Test {
 protected:
  ApiTokensTest() {
    job_.set_namespace_("vision");
    job_.set_name("tuner");
    job_.set_uid("0123456789abcdef");
    job_.mutable_spec()->mutable_template_()->set_api_access(true);
    entry_.record.tokens = {{3, "launched"}, {4, "now"}};
    replica_.launch_group = 3;
    replica_.replica.set_group(4);
    replica_.replica.set_state(v1::REPLICA_STATE_RUNNING);
    tokens_.Attach(&index_);
    Publish();
  }
  void Publish() {
    entry_.record.job = std::make_shared<v1::Job>(job_);
    entry_.replicas = {std::make_shared<ReplicaRecord>(replica_)};
    ReadIndex::Update update;
    update.jobs.push_back(std::make_shared<JobEntry>(entry_));
    index_.Publish(std::move(update));
  }
  std::string Token() const { return ApiToken(job_.uid(), 3, "launched"); }

  v1::Job job_;
  JobEntry entry_;
  ReplicaRecord replica_;
  ReadIndex index_;
  ApiTokens tokens_;
};

TEST_F(ApiTokensTest, TellTheJobAsAUserOfItsNamespace) {
  const auto caller = tokens_.Find(Token());
  ASSERT_TRUE(caller.has_value());
  EXPECT_EQ(security::Describe(*caller), "job \"vision/tuner\"");
  EXPECT_EQ(caller->role, security::Role::kUser);
  EXPECT_THAT(caller->namespaces, ElementsAre("vision"));
  EXPECT_THAT(Token(), Not(HasSubstr("launched")));
}

TEST_F(ApiTokensTest, AreNobodysWhereTheJobHasNotAskedForIt) {
  job_.mutable_spec()->mutable_template_()->set_api_access(false);
  Publish();
  EXPECT_FALSE(tokens_.Find(Token()).has_value());
}

TEST_F(ApiTokensTest, EndWithTheReplicasOfTheirLaunch) {
  for (const auto state : {v1::REPLICA_STATE_EXITED, v1::REPLICA_STATE_LOST}) {
    replica_.replica.set_state(state);
    Publish();
    EXPECT_FALSE(tokens_.Find(Token()).has_value());
  }
  // The next launch has another.
  replica_.replica.set_state(v1::REPLICA_STATE_RUNNING);
  replica_.launch_group = 4;
  Publish();
  EXPECT_FALSE(tokens_.Find(Token()).has_value());
  EXPECT_TRUE(tokens_.Find(ApiToken(job_.uid(), 4, "now")).has_value());
}

TEST_F(ApiTokensTest, ThatAreMadeUpAreNobodys) {
  const std::string good = Token();
  for (const std::string& token : {std::string(), std::string("adaptdl_job."), std::string("adaptdl_job.."),
                                   std::string("launched"), good.substr(0, good.size() - 1), good + "0",
                                   ApiToken(job_.uid(), 3, "now"), ApiToken("other", 3, "launched"),
                                   ApiToken(job_.uid(), 5, ""), ApiToken(job_.uid(), -1, "launched")}) {
    EXPECT_FALSE(tokens_.Find(token).has_value()) << token;
  }
  tokens_.Attach(nullptr);
  EXPECT_FALSE(tokens_.Find(good).has_value());
}

}  // namespace
}  // namespace adaptdl::supervisor
