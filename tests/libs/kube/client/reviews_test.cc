#include "libs/kube/client/reviews.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReviewsTest : public ApiTest {
 protected:
  // Answers every review with this status, and keeps the last one that was asked.
  void Answer(const std::string& status) {
    Serve([=, this](Exchange& exchange) {
      path_ = exchange.request().Path();
      asked_ = *ParseJson(exchange.request().body);
      exchange.Answer(201, Dump({{"status", *ParseJson(status)}}));
    });
  }

  std::string path_;
  Json asked_;
};

TEST_F(ReviewsTest, SaysWhoHasAToken) {
  Answer(R"({"authenticated": true, "audiences": ["adaptdl"], "user": {
    "username": "system:serviceaccount:n:default", "uid": "u", "groups": ["g", "h"],
    "extra": {"authentication.kubernetes.io/pod-name": ["p"], "authentication.kubernetes.io/pod-uid": ["pu"]}}})");
  const auto answer = ReviewToken(*client_, "secret", "adaptdl");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->authenticated);
  EXPECT_EQ(answer->user.name, "system:serviceaccount:n:default");
  EXPECT_THAT(answer->user.groups, ElementsAre("g", "h"));
  EXPECT_EQ(answer->user.PodName(), "p");
  EXPECT_EQ(answer->user.PodUid(), "pu");
  EXPECT_EQ(path_, "/apis/authentication.k8s.io/v1/tokenreviews");
  EXPECT_EQ(asked_["kind"], "TokenReview");
  EXPECT_EQ(asked_["spec"], (Json{{"token", "secret"}, {"audiences", {"adaptdl"}}}));
}

TEST_F(ReviewsTest, ATokenForOthersCountsNothing) {
  for (const char* status :
       {R"({"authenticated": true, "user": {"username": "a"}})",
        R"({"authenticated": true, "audiences": ["other"], "user": {"username": "a"}})"}) {
    Answer(status);
    const auto answer = ReviewToken(*client_, "secret", "adaptdl");
    EXPECT_FALSE(answer->authenticated);
    EXPECT_EQ(answer->user.name, "");
    EXPECT_THAT(answer->reason, HasSubstr("not for \"adaptdl\""));
  }
  EXPECT_EQ(ReviewToken(*client_, "secret", "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ReviewsTest, ARefusedTokenHasAReason) {
  Answer(R"({"authenticated": false, "error": "token has expired"})");
  EXPECT_EQ(ReviewToken(*client_, "secret", "adaptdl")->reason, "token has expired");
  Answer("{}");
  EXPECT_FALSE(ReviewToken(*client_, "secret", "adaptdl")->authenticated);
}

TEST_F(ReviewsTest, OurOwnRefusalIsAnErrorAndNoAnswer) {
  Serve([](Exchange& exchange) { exchange.Answer(403, "not you"); });
  EXPECT_EQ(ReviewToken(*client_, "secret", "adaptdl").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ReviewsTest, SaysWhatSomebodyMayDo) {
  Answer(R"({"allowed": true, "reason": "a role"})");
  const AccessQuestion question = {
      .user = {.name = "ann", .uid = "u", .groups = {"g"}, .extra = {{"k", {"v"}}}},
      .verb = "create",
      .target = ObjectOf(Pods(), {"n", "p"}).Sub("log")};
  const auto answer = ReviewAccess(*client_, question);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->allowed);
  EXPECT_EQ(answer->reason, "a role");
  EXPECT_EQ(path_, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
  EXPECT_EQ(asked_["spec"], *ParseJson(R"({"user": "ann", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]},
    "resourceAttributes": {"verb": "create", "group": "", "version": "v1", "resource": "pods", "subresource": "log",
                           "namespace": "n", "name": "p"}})"));
}

TEST_F(ReviewsTest, WhatIsNotAllowedIsDenied) {
  for (const char* status :
       {"{}", R"({"allowed": false, "evaluationError": "broken"})", R"({"allowed": true, "denied": true})"}) {
    Answer(status);
    EXPECT_FALSE(
        ReviewAccess(*client_, {.user = {.name = "ann"}, .verb = "get", .target = Collection(Pods())})
            ->allowed)
        << status;
  }
}

TEST_F(ReviewsTest, SaysWhatWeMayDoOurselves) {
  Answer(R"({"allowed": false})");
  const auto answer = ReviewOwnAccess(*client_, "create", Collection(PodTemplates(), "n"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->allowed);
  EXPECT_EQ(path_, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
  EXPECT_EQ(asked_["spec"]["resourceAttributes"]["resource"], "podtemplates");
  EXPECT_EQ(asked_["spec"]["resourceAttributes"]["namespace"], "n");
}

}  // namespace
}  // namespace adaptdl::kube
