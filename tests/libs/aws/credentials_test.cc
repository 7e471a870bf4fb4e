#include "libs/aws/credentials.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/aws/credential_chain.h"
#include "libs/aws/profile_credentials.h"
#include "tests/libs/aws/aws_fixture.h"

namespace adaptdl::aws {
namespace {

using ::testing::HasSubstr;

// Gives what the test says, and counts.
class ScriptedPlace final : public CredentialPlace {
 public:
  ScriptedPlace(std::function<absl::StatusOr<Credentials>()> fetch, std::atomic<int>* fetches)
      : fetch_(std::move(fetch)), fetches_(fetches) {}
  std::string name() const override { return "the script"; }
  absl::StatusOr<Credentials> Fetch(const std::stop_token& /*stop*/) override {
    ++*fetches_;
    return fetch_();
  }

 private:
  std::function<absl::StatusOr<Credentials>()> fetch_;
  std::atomic<int>* fetches_;
};

class KeptCredentialsTest : public ::testing::Test {
 protected:
  // Those that are given out last so long.
  void Make() {
    std::vector<std::unique_ptr<CredentialPlace>> places;
    places.push_back(std::make_unique<ScriptedPlace>(
        [this]() -> absl::StatusOr<Credentials> {
          if (!error_.ok()) return error_;
          return Credentials{.access_key_id = absl::StrCat("key-", fetches_.load()),
                             .expires = clock_.Now() + absl::Hours(1)};
        },
        &fetches_));
    kept_ = std::make_unique<KeptCredentials>(std::move(places), &clock_);
  }
  std::string Key() {
    const auto got = kept_->Get({});
    return got.ok() ? got->access_key_id : got.status().ToString();
  }

  ManualClock clock_;
  absl::Status error_;
  std::atomic<int> fetches_ = 0;
  std::unique_ptr<KeptCredentials> kept_;
};

TEST_F(KeptCredentialsTest, AreFetchedAnewBeforeTheyExpire) {
  Make();
  EXPECT_EQ(Key(), "key-1");
  clock_.Advance(absl::Minutes(54));
  EXPECT_EQ(Key(), "key-1");
  clock_.Advance(absl::Minutes(2));
  EXPECT_EQ(Key(), "key-2");
}

TEST_F(KeptCredentialsTest, OldOnesServeWhileNewOnesAreNotToBeHad) {
  Make();
  EXPECT_EQ(Key(), "key-1");
  error_ = absl::UnavailableError("away");
  clock_.Advance(absl::Minutes(57));
  EXPECT_EQ(Key(), "key-1");
  EXPECT_EQ(Key(), "key-1");
  EXPECT_EQ(fetches_, 2);  // not at each call
  clock_.Advance(absl::Minutes(3));
  EXPECT_EQ(kept_->Get({}).status().code(), absl::StatusCode::kUnavailable);
  error_ = absl::OkStatus();
  EXPECT_EQ(Key(), "key-4");
}

TEST_F(KeptCredentialsTest, RefusedOnesAreFetchedAnew) {
  Make();
  const Credentials first = kept_->Get({}).value();
  kept_->Refused(first);
  EXPECT_EQ(Key(), "key-2");
  kept_->Refused(first);  // by somebody who is late
  EXPECT_EQ(Key(), "key-2");
}

TEST_F(KeptCredentialsTest, AreFetchedOnceForManyThreads) {
  Make();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([this] { EXPECT_EQ(Key(), "key-1"); });
  threads.clear();
  EXPECT_EQ(fetches_, 1);
}

class CredentialChainTest : public AwsTest {
 protected:
  CredentialChainTest() {
    char folder[] = "/tmp/adaptdl-aws-XXXXXX";
    folder_ = mkdtemp(folder);
    variables_ = {{"HOME", folder_}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  }
  ~CredentialChainTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  void UseMetadata() {
    variables_.erase("AWS_EC2_METADATA_DISABLED");
    variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server_->url();
  }
  absl::StatusOr<Credentials> Get() {
    return MakeCredentialChain({.environment = variables_}, &http_, &clock_, &pauses_)->Get({});
  }

  std::string folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(CredentialChainTest, SaysWhereItHasLooked) {
  const absl::Status status = Get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("AWS_ACCESS_KEY_ID is not set"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/.aws/credentials: there is no such file"));
}

TEST_F(CredentialChainTest, TakesThoseOfTheEnvironmentFirst) {
  Write(".aws/credentials", "[default]\naws_access_key_id = file\naws_secret_access_key = s\n");
  EXPECT_EQ(Get()->access_key_id, "file");
  variables_.insert(
      {{"AWS_ACCESS_KEY_ID", "env"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", "t"}});
  EXPECT_EQ(Get().value(), (Credentials{"env", "s", "t", absl::InfiniteFuture()}));
  variables_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr("set both or none"));
}

TEST_F(CredentialChainTest, ReadsTheProfileThatIsAskedFor) {
  Write(".aws/credentials",
        "# comment\n[default]\naws_access_key_id = d\naws_secret_access_key = s\n\n[ work ]\n; more\n"
        "aws_access_key_id=w\nAWS_SECRET_ACCESS_KEY = s2 \naws_session_token=t\n[sso]\nsso_session = x\n");
  variables_["AWS_PROFILE"] = "work";
  EXPECT_EQ(Get().value(), (Credentials{"w", "s2", "t", absl::InfiniteFuture()}));
  variables_["AWS_PROFILE"] = "sso";
  EXPECT_THAT(std::string(Get().status().message()),
              HasSubstr("has sso_session, which this program can't follow"));
  variables_["AWS_PROFILE"] = "none";
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr("no profile [none]"));
}

TEST_F(CredentialChainTest, AsksStsForTheRoleOfAWebIdentity) {
  ServeInTurn(
      {Fails(503, "Throttling"),
       Answers(200,
               "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
               "<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
               "<SessionToken>t</SessionToken><Expiration>2001-09-09T02:46:40Z</Expiration>"
               "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")});
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = Write("token", "a.b.c\n");
  variables_["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  variables_["AWS_ENDPOINT_URL_STS"] = server_->url();
  const auto got = Get();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, (Credentials{"ASIA", "s", "t", absl::FromUnixSeconds(1'000'003'600)}));
  const ServedRequest request = requests().at(1);
  EXPECT_FALSE(request.headers.contains("authorization"));
  EXPECT_EQ(request.body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&"
            "RoleSessionName=adaptdl&WebIdentityToken=a.b.c");
}

TEST_F(CredentialChainTest, AsksTheMetadataServiceForTheMachinesRole) {
  ServeInTurn(
      {Answers(200, "tok"), Answers(200, "role\n"),
       Answers(200, R"({"Code": "Success", "AccessKeyId": "ASIA", "SecretAccessKey": "s", "Token": "t",
                                "Expiration": "2001-09-09T02:46:40Z"})")});
  UseMetadata();
  const auto got = Get();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, (Credentials{"ASIA", "s", "t", clock_.Now() + absl::Hours(1)}));
  EXPECT_EQ(requests().at(0).method, "PUT");
  EXPECT_EQ(requests().at(0).headers.at("x-aws-ec2-metadata-token-ttl-seconds"), "300");
  EXPECT_EQ(requests().at(2).target, "/latest/meta-data/iam/security-credentials/role");
  EXPECT_EQ(requests().at(2).headers.at("x-aws-ec2-metadata-token"), "tok");
}

TEST_F(CredentialChainTest, StrangeAnswersOfTheMetadataServiceAreErrors) {
  for (const char* answer :
       {"", "[]", "{}", R"({"Code": "Failed"})", R"({"Code": "Success", "AccessKeyId": 1})"}) {
    ServeInTurn({Answers(200, answer)});
    UseMetadata();
    EXPECT_EQ(Get().status().code(), absl::StatusCode::kUnauthenticated) << answer;
  }
  ServeInTurn({Answers(404, "")});
  UseMetadata();
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr("this machine has no role"));
}

TEST_F(CredentialChainTest, ThoseThatHaveExpiredAreSaidToBe) {
  ServeInTurn(
      {Answers(200, R"({"Code": "Success", "AccessKeyId": "A", "SecretAccessKey": "s", "Token": "t", )"
                    R"("Expiration": "2001-09-09T01:46:40Z"})")});
  UseMetadata();
  EXPECT_THAT(std::string(Get().status().message()),
              HasSubstr("have expired; is this machine's clock right?"));
}

TEST(IniTest, TakesWhateverComes) {
  EXPECT_FALSE(IniSection("", "a").has_value());
  EXPECT_FALSE(IniSection("[b]\nx=1", "a").has_value());
  EXPECT_TRUE(IniSection("[a]\n===\n[\n]\nno\n", "a").has_value());
}

}  // namespace
}  // namespace adaptdl::aws
