#include "libs/aws/query_api.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/aws/errors.h"
#include "tests/libs/aws/aws_fixture.h"

namespace adaptdl::aws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class QueryApiTest : public AwsTest {
 protected:
  absl::StatusOr<XmlElement> Call(bool may_repeat = false) {
    QueryApi api(
        {.service = "ec2", .version = "2016-11-15", .region = "eu-west-1", .endpoint = server_->url()},
        MakeWorld());
    return api.Call({.action = "DoIt", .parameters = {{"A.1", "x y&z"}}, .may_repeat = may_repeat});
  }
};

TEST_F(QueryApiTest, PostsASignedForm) {
  ServeInTurn({Answers(200, "<Done><ok>yes</ok></Done>")});
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->Text("ok"), "yes");
  const ServedRequest request = requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.body, "Action=DoIt&Version=2016-11-15&A.1=x%20y%26z");
  EXPECT_THAT(request.headers.at("authorization"),
              HasSubstr("Credential=AKID0/20010909/eu-west-1/ec2/aws4_request"));
}

TEST_F(QueryApiTest, WaitsWhereItIsThrottledAlsoForWhatMayNotBeRepeated) {
  ServeInTurn({Fails(503, "RequestLimitExceeded"), Fails(400, "Throttling"), Answers(200, "<a/>")});
  EXPECT_TRUE(Call().ok());
  EXPECT_THAT(pauses_.taken(), ElementsAre(absl::Milliseconds(500), absl::Seconds(1)));
}

TEST_F(QueryApiTest, IsPatientForSoLongAndNoLonger) {
  ServeInTurn({Fails(503, "RequestLimitExceeded")});
  const absl::Time begin = clock_.Steady();
  const absl::Status status = Call().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsThrottling(status));
  EXPECT_LE(clock_.Steady() - begin, absl::Seconds(30));
  EXPECT_GT(clock_.Steady() - begin, absl::Seconds(20));
}

TEST_F(QueryApiTest, RepeatsWhatMayBeRepeatedOnly) {
  ServeInTurn({Cuts(), Fails(500, "InternalError"), Answers(200, "<a/>")});
  EXPECT_EQ(Call().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(pauses_.taken(), IsEmpty());
  EXPECT_TRUE(Call(true).ok());
}

TEST_F(QueryApiTest, AsksForNewCredentialsOnce) {
  ServeInTurn({Fails(400, "RequestExpired"), Answers(200, "<a/>")});
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(credentials_.refused(), 1);
  EXPECT_THAT(requests().at(1).headers.at("authorization"), HasSubstr("Credential=AKID1/"));
  EXPECT_THAT(pauses_.taken(), IsEmpty());
}

TEST_F(QueryApiTest, GivesUpWhereNewCredentialsDoNotHelp) {
  ServeInTurn({Fails(401, "AuthFailure")});
  const absl::Status status = Call(true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(status), "AuthFailure");
  EXPECT_EQ(requests().size(), 2);
}

TEST_F(QueryApiTest, NamesAClockThatIsWrong) {
  const std::string body = "<Response><Errors><Error><Code>RequestExpired</Code></Error></Errors></Response>";
  // The manual clock says 01:46:40.
  ServeInTurn({Answers(400, body, {"Date: Sun, 09 Sep 2001 02:46:40 GMT"})});
  EXPECT_THAT(std::string(Call().status().message()),
              HasSubstr("clock is 1h behind the service's: set it right"));
}

TEST_F(QueryApiTest, ReadsAllPages) {
  ServeInTurn({Answers(200, "<A><nextToken>t/1</nextToken><id>1</id></A>"), Fails(503, "Unavailable"),
               Answers(200, "<A><id>2</id></A>")});
  QueryApi api({.service = "ec2", .version = "v", .region = "r", .endpoint = server_->url()}, MakeWorld());
  std::vector<std::string> ids;
  const absl::Status status = ForEachPage(api, {.call = {.action = "Describe"}},
                                          [&](const XmlElement& page) { ids.push_back(page.Text("id")); });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(ids, ElementsAre("1", "2"));
  EXPECT_EQ(requests().at(2).body, "Action=Describe&Version=v&NextToken=t%2F1");
}

TEST_F(QueryApiTest, ReadsNoPagesWithoutEnd) {
  ServeInTurn({Answers(200, "<A><nextToken>t</nextToken></A>")});
  QueryApi api({.service = "ec2", .version = "v", .region = "r", .endpoint = server_->url()}, MakeWorld());
  EXPECT_EQ(ForEachPage(api, {.call = {.action = "Describe"}}, [](const XmlElement&) {}).code(),
            absl::StatusCode::kOutOfRange);
}

TEST_F(QueryApiTest, AnswersThatAreNoneAreErrors) {
  ServeInTurn({Answers(200, "hello"), Answers(502, "<html>bad gateway"), Answers(403, "")});
  EXPECT_EQ(Call().status().code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(Call().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(ErrorsTest, HaveTheCodesOfTheTable) {
  const auto code = [](const char* name) { return ErrorOfCode(name, "").code(); };
  for (const char* name :
       {"InsufficientInstanceCapacity", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded", "InsufficientFreeAddressesInSubnet"}) {
    EXPECT_EQ(code(name), absl::StatusCode::kResourceExhausted) << name;
  }
  EXPECT_EQ(code("RequestLimitExceeded"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code("ExpiredToken"), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code("UnauthorizedOperation"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code("InvalidInstanceID.NotFound"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("InvalidLaunchTemplateName.AlreadyExistsException"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code("InvalidParameterValue"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("Surprise"), absl::StatusCode::kUnknown);
  EXPECT_EQ(CodeOf(absl::UnknownError("x")), "");
}

}  // namespace
}  // namespace adaptdl::aws
