#include "libs/kube/client/client.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/client/scale.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::kube {
namespace {

using ::testing::ElementsAre;

const ResourceType kJobs = {"example.com", "v1", "jobs", "Job"};

class ClientTest : public ApiTest {
 protected:
  // Answers with what it was asked: {"saw": "METHOD target", "type": ..., "body": ...}.
  void Echo() {
    Serve([](Exchange& exchange) {
      const ServedRequest& request = exchange.request();
      const auto type = request.headers.find("content-type");
      exchange.Answer(200, Dump({{"saw", absl::StrCat(request.method, " ", request.target)},
                                 {"type", type == request.headers.end() ? "" : type->second},
                                 {"body", ParseJson(request.body).value_or(Json())}}));
    });
  }
  static std::string Saw(const absl::StatusOr<Json>& answer) { return TextAt(*answer, {"saw"}); }

  const Target job_ = ObjectOf(kJobs, {"n", "j"});
  const Json body_ = {{"spec", 1}};
};

TEST_F(ClientTest, EachVerbIsItsRequest) {
  Echo();
  EXPECT_EQ(Saw(client_->Get(job_)), "GET /apis/example.com/v1/namespaces/n/jobs/j");
  auto answer = client_->Create(Collection(kJobs, "n"), body_, {.field_manager = "m", .dry_run = true});
  EXPECT_EQ(Saw(answer),
            "POST /apis/example.com/v1/namespaces/n/jobs?fieldManager=m&dryRun=All&fieldValidation=Strict");
  EXPECT_EQ(TextAt(*answer, {"type"}), "application/json");
  EXPECT_EQ((*answer)["body"], body_);
  EXPECT_EQ(Saw(client_->Replace(job_.Sub("status"), body_, {.strict = false})),
            "PUT /apis/example.com/v1/namespaces/n/jobs/j/status");
  answer = client_->MergePatch(job_, body_, {});
  EXPECT_EQ(Saw(answer), "PATCH /apis/example.com/v1/namespaces/n/jobs/j?fieldValidation=Strict");
  EXPECT_EQ(TextAt(*answer, {"type"}), "application/merge-patch+json");
  answer = client_->Apply(job_, body_, {.field_manager = "m", .force = true});
  EXPECT_EQ(
      Saw(answer),
      "PATCH /apis/example.com/v1/namespaces/n/jobs/j?fieldManager=m&fieldValidation=Strict&force=true");
  EXPECT_EQ(TextAt(*answer, {"type"}), "application/apply-patch+yaml");
}

TEST_F(ClientTest, ApplyNeedsAManager) {
  Echo();
  EXPECT_EQ(client_->Apply(job_, body_, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, DeleteSaysWhatIsToBeDeleted) {
  std::vector<Json> bodies;
  Serve([&](Exchange& exchange) {
    EXPECT_EQ(exchange.request().method, "DELETE");
    bodies.push_back(*ParseJson(exchange.request().body));
    exchange.Answer(200, R"({"kind":"Status"})");
  });
  EXPECT_TRUE(client_->Delete(job_, {}).ok());
  EXPECT_TRUE(client_
                  ->Delete(job_, {.propagation = Propagation::kForeground,
                                  .uid = "u",
                                  .resource_version = "5",
                                  .grace_period = absl::Seconds(0),
                                  .dry_run = true})
                  .ok());
  const Json plain = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  Json full = plain;
  full.update({{"propagationPolicy", "Foreground"},
               {"preconditions", {{"uid", "u"}, {"resourceVersion", "5"}}},
               {"gracePeriodSeconds", 0},
               {"dryRun", {"All"}}});
  EXPECT_THAT(bodies, ElementsAre(plain, full));
}

TEST_F(ClientTest, ScaleIsASubresource) {
  Serve([](Exchange& exchange) {
    EXPECT_EQ(exchange.request().Path(), "/apis/example.com/v1/namespaces/n/jobs/j/scale");
    const bool set = exchange.request().method == "PATCH";
    const Json body = set ? *ParseJson(exchange.request().body) : Json{{"spec", {{"replicas", 2}}}};
    exchange.Answer(200, Dump({{"spec", body["spec"]}, {"status", {{"replicas", 1}}}}));
  });
  EXPECT_EQ(GetScale(*client_, job_)->wanted, 2);
  EXPECT_EQ(GetScale(*client_, job_)->present, 1);
  EXPECT_EQ(SetScale(*client_, job_, 7, {})->wanted, 7);
}

TEST_F(ClientTest, WhatIsNotJsonIsAnError) {
  Serve([](Exchange& exchange) { exchange.Answer(200, "<html>log in</html>"); });
  EXPECT_EQ(client_->Get(job_).status().code(), absl::StatusCode::kUnknown);
}

// Plays a collection of so many objects in pages; a page after `lost_after` objects is not to be had.
class ListTest : public ClientTest {
 protected:
  void ServeObjects(int count, int lost_after = 1'000'000) {
    Serve([=, this](Exchange& exchange) {
      ++pages_;
      const ServedRequest& request = exchange.request();
      EXPECT_EQ(request.Argument("labelSelector"), "a=b");
      const std::string next = request.Argument("continue");
      const int begin = next.empty() ? 0 : std::stoi(next);
      const std::string limit = request.Argument("limit");
      const int end = limit.empty() ? count : std::min(count, begin + std::stoi(limit));
      if (begin > lost_after) {
        exchange.Answer(410, R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})");
        return;
      }
      Json page = {{"metadata", {{"resourceVersion", "77"}}}, {"items", Json::array()}};
      if (end < count) page["metadata"]["continue"] = absl::StrCat(end);
      for (int i = begin; i < end; ++i) page["items"].push_back({{"metadata", {{"name", absl::StrCat(i)}}}});
      exchange.Answer(200, Dump(page));
    });
  }
  absl::StatusOr<std::string> List(int page_size) {
    names_.clear();
    return client_->List(Collection(kJobs, "n"), {.selection = {.labels = "a=b"}, .page_size = page_size},
                         [&](Json object) {
                           EXPECT_EQ(TextAt(object, {"kind"}), "Job");
                           EXPECT_EQ(TextAt(object, {"apiVersion"}), "example.com/v1");
                           names_.push_back(KeyOf(object).name);
                         });
  }

  std::atomic<int> pages_ = 0;
  std::vector<std::string> names_;
};

TEST_F(ListTest, GoesThroughAllPages) {
  ServeObjects(5);
  EXPECT_EQ(*List(2), "77");
  EXPECT_THAT(names_, ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_EQ(pages_, 3);
  EXPECT_EQ(*List(0), "77");
  EXPECT_EQ(names_.size(), 5u);
  EXPECT_EQ(pages_, 4);
}

TEST_F(ListTest, SaysWhenTheServerForgotTheMoment) {
  ServeObjects(5, 2);
  EXPECT_EQ(List(2).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(List(0).ok());
}

TEST_F(ListTest, AllAtOnceBeginsAnewInOnePage) {
  ServeObjects(600, 400);
  EXPECT_EQ(client_->ListAll(Collection(kJobs, "n"), {.labels = "a=b"})->size(), 600u);
}

TEST_F(ListTest, WhatIsNoListIsAnError) {
  Serve([](Exchange& exchange) { exchange.Answer(200, R"({"items": 3})"); });
  EXPECT_EQ(List(2).status().code(), absl::StatusCode::kUnknown);
}

TEST_F(ListTest, NothingIsNoError) {
  Serve([](Exchange& exchange) {
    exchange.Answer(200, R"({"metadata":{"resourceVersion":"1"},"items":null})");
  });
  EXPECT_EQ(*List(2), "1");
}

}  // namespace
}  // namespace adaptdl::kube
