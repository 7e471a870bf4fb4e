// What the webhook lets in, and what it refuses with which words; and that over HTTPS.

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/http_client.h"
#include "services/supervisor/kubernetes/webhook/admission_review.h"
#include "services/supervisor/kubernetes/webhook/webhook_server.h"
#include "services/supervisor/state/invariants.h"
#include "tests/libs/http/test_identity.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::HasSubstr;

constexpr char kOperator[] = "system:serviceaccount:adaptdl:adaptdl-supervisor";

Json JobOf(const Json& changes = Json::object()) {
  Json object = {{"apiVersion", "adaptdl.petuum.com/v1"},
                 {"kind", "AdaptDLJob"},
                 {"metadata", {{"name", "a"}, {"namespace", "default"}}},
                 {"spec",
                  {{"maxReplicas", 4},
                   {"template", {{"spec", {{"containers", {{{"name", "main"}, {"image", "i"}}}}}}}}}}};
  object["spec"].merge_patch(changes);
  return object;
}

Json ReviewOf(const std::string& operation, const Json& before, const Json& after,
              const std::string& subresource = "", const std::string& user = "alice") {
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"request",
           {{"uid", "u1"},
            {"kind", {{"kind", "AdaptDLJob"}}},
            {"operation", operation},
            {"subResource", subresource},
            {"userInfo", {{"username", user}}},
            {"oldObject", before},
            {"object", after}}}};
}

class WebhookTest : public ::testing::Test {
 protected:
  // Why it is refused. Empty: it is not.
  std::string Refusal(const Json& review) {
    const auto answer = Answer(review, rules_);
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(kube::TextAt(*answer, {"response", "uid"}), "u1");
    if (kube::BoolAt(*answer, {"response", "allowed"})) return "";
    return absl::StrCat(kube::IntegerAt(*answer, {"response", "status", "code"}), " ",
                        kube::TextAt(*answer, {"response", "status", "message"}));
  }

  absl::Status template_status_;
  AdmissionRules rules_ = {
      .try_template = [this](const std::string&, const Json&) { return template_status_; },
      .operator_name = kOperator};
};

TEST_F(WebhookTest, NewJobsMakeSense) {
  EXPECT_EQ(Refusal(ReviewOf("CREATE", nullptr, JobOf())), "");
  EXPECT_THAT(Refusal(ReviewOf("CREATE", nullptr, JobOf({{"minReplicas", 9}}))),
              HasSubstr("422 spec.minReplicas is 9, more than spec.maxReplicas, 4"));
  template_status_ = absl::InvalidArgumentError("containers[0].name: Required value");
  EXPECT_EQ(Refusal(ReviewOf("CREATE", nullptr, JobOf())),
            "422 spec.template: containers[0].name: Required value");
  template_status_ = absl::UnavailableError("nobody can tell now");
  EXPECT_EQ(Refusal(ReviewOf("CREATE", nullptr, JobOf())), "");
}

TEST_F(WebhookTest, OnlySomeFieldsChange) {
  EXPECT_EQ(
      Refusal(ReviewOf("UPDATE", JobOf(), JobOf({{"maxReplicas", 8}, {"suspend", true}, {"priority", 3}}))),
      "");
  EXPECT_THAT(Refusal(ReviewOf("UPDATE", JobOf(), JobOf({{"preemptible", false}}))), HasSubstr("403 "));
  Json other = JobOf();
  other["spec"]["template"]["spec"]["containers"][0]["image"] = "j";
  EXPECT_THAT(Refusal(ReviewOf("UPDATE", JobOf(), other)), HasSubstr("403 spec.template: can't change"));
  EXPECT_THAT(Refusal(ReviewOf("UPDATE", JobOf(), JobOf({{"minReplicas", 9}}))), HasSubstr("422 "));
}

TEST_F(WebhookTest, WhatEndsAJobIsNeverHeldUp) {
  // Let in by an older version.
  const Json wrong = JobOf({{"minReplicas", 9}});
  Json labelled = wrong;
  labelled["metadata"]["finalizers"] = Json::array();
  EXPECT_EQ(Refusal(ReviewOf("UPDATE", wrong, labelled)), "");
  Json deleted = JobOf({{"preemptible", false}});
  deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_EQ(Refusal(ReviewOf("UPDATE", JobOf(), deleted)), "");
  EXPECT_EQ(Refusal(ReviewOf("DELETE", wrong, nullptr)), "");
}

TEST_F(WebhookTest, StatusesAreTheOperators) {
  EXPECT_EQ(Refusal(ReviewOf("UPDATE", JobOf(), JobOf(), "status", kOperator)), "");
  EXPECT_THAT(Refusal(ReviewOf("UPDATE", JobOf(), JobOf(), "status")), HasSubstr("not by alice"));
}

TEST_F(WebhookTest, WhatIsNoReviewIsRefused) {
  for (const Json& review : {Json(), Json(3), Json::object(), Json{{"kind", "AdmissionReview"}}}) {
    EXPECT_EQ(Answer(review, rules_).status().code(), absl::StatusCode::kInvalidArgument) << review;
  }
  EXPECT_THAT(Refusal(ReviewOf("CREATE", nullptr, Json(3))), HasSubstr("422 "));
}

TEST_F(WebhookTest, AnswersOverHttps) {
  const TestIdentity identity = MakeTestIdentity("supervisor");
  const std::string folder = testing::TempDir() + "/webhook";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/cert.pem") << identity.certificate_pem;
  std::ofstream(folder + "/key.pem") << identity.key_pem;
  Invariants invariants;
  Executor executor(1, 1, &invariants);
  const auto server =
      WebhookServer::Start({"127.0.0.1:0", folder + "/cert.pem", folder + "/key.pem"}, rules_, &executor);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto post = [&](const std::string& path, const std::string& body) {
    return adaptdl::HttpClient().Send(
        {.method = "POST",
         .url = absl::StrCat("https://supervisor.adaptdl",
                             (*server)->address().substr((*server)->address().rfind(':')), path),
         .body = body,
         .connect_to = (*server)->address(),
         .tls = {.ca_pem = identity.ca_pem}});
  };
  const auto answer = post("/validate", kube::Dump(ReviewOf("CREATE", nullptr, JobOf())));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(kube::BoolAt(*kube::ParseJson(answer->body), {"response", "allowed"}));
  EXPECT_EQ(post("/validate", "{")->status, 400);
  EXPECT_EQ(post("/other", "{}")->status, 404);
}

}  // namespace
}  // namespace adaptdl::supervisor
