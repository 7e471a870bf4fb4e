#include "libs/objectstore/s3_store.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/objectstore/digest.h"
#include "tests/libs/aws/aws_fixture.h"

namespace adaptdl::objectstore {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class S3StoreTest : public aws::AwsTest {
 protected:
  S3Store Store() {
    return S3Store({.bucket = "models", .region = "eu-west-1", .endpoint = server_->url(), .part_bytes = 4},
                   MakeWorld());
  }
  static TestServer::Handler FailsWith(int status, const std::string& code) {
    return Answers(status, absl::StrCat("<Error><Code>", code, "</Code><Message>so it is</Message></Error>"));
  }
  // Bytes of "0123456789".
  static TestServer::Handler AnswersRange(int begin, int end, const std::string& etag = "\"e\"") {
    return Answers(206, std::string("0123456789").substr(begin, end - begin),
                   {absl::StrCat("Content-Range: bytes ", begin, "-", end - 1, "/10"), "ETag: " + etag});
  }
  absl::Status Get(std::string* content, int64_t offset = 0, int64_t size = 10) {
    return Store().Get({.key = "a/b c", .size = size, .etag = "\"e\""}, offset,
                       [content](absl::string_view part) {
                         absl::StrAppend(content, part);
                         return absl::OkStatus();
                       },
                       {});
  }
  absl::Status Put(const std::string& content) {
    S3Store store = Store();
    return WriteObject(store, "a/b c", content, {});
  }
  std::vector<std::string> Calls() {
    std::vector<std::string> calls;
    for (const ServedRequest& request : requests()) calls.push_back(request.method + " " + request.target);
    return calls;
  }
};

TEST_F(S3StoreTest, WritesASmallObjectAtOnceWithItsChecksums) {
  ServeInTurn({Answers(200, "", {"ETag: \"e\""})});
  ASSERT_TRUE(Put("1234").ok());
  ASSERT_THAT(Calls(), ElementsAre("PUT /models/a/b%20c"));
  const ServedRequest request = requests()[0];
  EXPECT_EQ(request.body, "1234");
  EXPECT_EQ(request.headers.at("x-amz-checksum-sha256"), Sha256Base64("1234"));
  EXPECT_EQ(request.headers.at("x-amz-content-sha256"),
            "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4");
  EXPECT_THAT(request.headers.at("authorization"), HasSubstr("/eu-west-1/s3/aws4_request"));
}

TEST_F(S3StoreTest, WritesAnEmptyObject) {
  ServeInTurn({Answers(200, "")});
  ASSERT_TRUE(Put("").ok());
  EXPECT_EQ(requests()[0].headers.at("content-length"), "0");
}

TEST_F(S3StoreTest, WritesALargeObjectInPartsAndRepeatsThoseThatFail) {
  ServeInTurn({Answers(200, "<R><UploadId>u&amp;1</UploadId></R>"), Answers(200, "", {"ETag: \"1\""}), Cuts(),
               FailsWith(503, "SlowDown"), Answers(200, "", {"ETag: \"<2>\""}),
               Answers(200, "", {"ETag: \"3\""}), Answers(200, "<CompleteMultipartUploadResult/>")});
  ASSERT_TRUE(Put("0123456789").ok());
  const std::string part = "PUT /models/a/b%20c?partNumber=";
  EXPECT_THAT(Calls(),
              ElementsAre("POST /models/a/b%20c?uploads=", part + "1&uploadId=u%261",
                          part + "2&uploadId=u%261", part + "2&uploadId=u%261", part + "2&uploadId=u%261",
                          part + "3&uploadId=u%261", "POST /models/a/b%20c?uploadId=u%261"));
  EXPECT_EQ(requests()[4].body, "4567");
  EXPECT_THAT(requests()[6].body,
              HasSubstr(absl::StrCat(
                  "<Part><PartNumber>2</PartNumber><ETag>&quot;&lt;2&gt;&quot;</ETag><ChecksumSHA256>",
                  Sha256Base64("4567"))));
}

TEST_F(S3StoreTest, LeavesNoPartsWhereItFails) {
  ServeInTurn(
      {Answers(200, "<R><UploadId>u</UploadId></R>"), FailsWith(403, "AccessDenied"), Answers(204, "")});
  EXPECT_EQ(Put("0123456789").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Calls().back(), "DELETE /models/a/b%20c?uploadId=u");
}

TEST_F(S3StoreTest, TakesACompletionForNoneThatSaysErrorInsteadOfSuccess) {
  ServeInTurn({Answers(200, "<R><UploadId>u</UploadId></R>"), Answers(200, ""), Answers(200, ""),
               Answers(200, ""), Answers(200, "<Error><Code>InvalidPart</Code></Error>"), Answers(204, "")});
  EXPECT_EQ(Put("0123456789").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Calls().back(), StartsWith("DELETE"));
}

TEST_F(S3StoreTest, LooksForTheObjectWhereTheAnswerOfACompletionGotLost) {
  ServeInTurn({Answers(200, "<R><UploadId>u</UploadId></R>"), Answers(200, ""), Answers(200, ""),
               Answers(200, ""), Cuts(), FailsWith(404, "NoSuchUpload"),
               Answers(200, "<L><Contents><Key>a/b c</Key><Size>10</Size><ETag>x</ETag></Contents></L>")});
  EXPECT_TRUE(Put("0123456789").ok());
}

TEST_F(S3StoreTest, SendsAgainWhatTheServerHasTakenOtherwise) {
  ServeInTurn({Answers(200, "", {"x-amz-checksum-sha256: AAAA"}), FailsWith(400, "BadDigest"),
               Answers(200, "", {"x-amz-checksum-sha256: " + Sha256Base64("12")})});
  EXPECT_TRUE(Put("12").ok());
  EXPECT_EQ(requests().size(), 3);
}

TEST_F(S3StoreTest, SaysWhereTheFileChangedMeanwhile) {
  ServeInTurn({Answers(200, "")});
  const absl::Status status = Store().Put("a", 4, [](int64_t, int64_t) { return std::string("123"); }, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(S3StoreTest, ReadsInRangesOfOneContent) {
  ServeInTurn({AnswersRange(0, 4), AnswersRange(4, 8), AnswersRange(8, 10)});
  std::string content;
  ASSERT_TRUE(Get(&content).ok());
  EXPECT_EQ(content, "0123456789");
  EXPECT_EQ(requests()[1].headers.at("range"), "bytes=4-7");
  EXPECT_EQ(requests()[1].headers.at("if-match"), "\"e\"");
}

TEST_F(S3StoreTest, ReadsOnFromWhereSomebodyStopped) {
  ServeInTurn({AnswersRange(7, 10)});
  std::string content;
  ASSERT_TRUE(Get(&content, 7).ok());
  EXPECT_EQ(content, "789");
}

TEST_F(S3StoreTest, ReadsAnEmptyObjectWithoutAsking) {
  ServeInTurn({Answers(500, "")});
  std::string content;
  EXPECT_TRUE(Get(&content, 0, 0).ok());
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(S3StoreTest, HandsOutNothingOfWhatIsNotWhatWasAskedFor) {
  const std::vector<TestServer::Handler> wrong = {Answers(206, "0123", {"Content-Range: bytes 4-7/10"}),
                                                  Answers(206, "012", {"Content-Range: bytes 0-3/10"}),
                                                  Answers(200, "0123456789"), AnswersRange(0, 4, "\"other\""),
                                                  Answers(206, "01234567")};
  for (const TestServer::Handler& answer : wrong) {
    ServeInTurn({answer});
    std::string content;
    EXPECT_FALSE(Get(&content).ok());
    EXPECT_EQ(content, "");
  }
}

TEST_F(S3StoreTest, ReadsTheRestAgainWhereTheConnectionIsCut) {
  ServeInTurn({AnswersRange(0, 4),
               [](Exchange& exchange) {
                 exchange.Begin(206);
                 exchange.Part("45");
                 exchange.Cut();
               },
               AnswersRange(4, 8), AnswersRange(8, 10)});
  std::string content;
  ASSERT_TRUE(Get(&content).ok());
  EXPECT_EQ(content, "0123456789");
}

TEST_F(S3StoreTest, SaysThatAnObjectWasReplacedOrIsGone) {
  std::string content;
  ServeInTurn({FailsWith(412, "PreconditionFailed")});
  EXPECT_EQ(Get(&content).code(), absl::StatusCode::kFailedPrecondition);
  ServeInTurn({FailsWith(404, "NoSuchKey")});
  EXPECT_EQ(Get(&content).code(), absl::StatusCode::kNotFound);
}

TEST_F(S3StoreTest, PutsNoHeaderOfAStrangersIntoARequest) {
  ServeInTurn({Answers(200, "")});
  const absl::Status status = Store().Get({.key = "a", .size = 1, .etag = "\"e\"\r\nX: y"}, 0, nullptr, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(S3StoreTest, ListsPageByPage) {
  ServeInTurn(
      {Answers(200,
               "<L><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>t=1"
               "</NextContinuationToken><Contents><Key>p/a%2Bb+c</Key><Size>3</Size><ETag>\"x\"</ETag></"
               "Contents></L>"),
       Answers(
           200,
           "<L><IsTruncated>false</IsTruncated><Contents><Key>p/d%2B</Key><Size>0</Size></Contents></L>")});
  std::vector<ObjectInfo> found;
  const absl::Status status = Store().List("p/",
                                           [&](const ObjectInfo& object) {
                                             found.push_back(object);
                                             return absl::OkStatus();
                                           },
                                           {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(found, ElementsAre(ObjectInfo{"p/a+b c", 3, "\"x\""}, ObjectInfo{"p/d%2B", 0, ""}));
  EXPECT_EQ(requests()[0].target, "/models/?encoding-type=url&list-type=2&prefix=p%2F");
  EXPECT_EQ(requests()[1].Argument("continuation-token"), "t=1");
}

TEST_F(S3StoreTest, BelievesNoListThatHoldsSomethingElseOrHasNoEnd) {
  for (const std::string list :
       {"<Contents><Key>other/a</Key><Size>3</Size></Contents>",
        "<Contents><Key>p/a</Key><Size>-3</Size></Contents>", "<Contents><Key>p/a</Key></Contents>",
        "<IsTruncated>true</IsTruncated>",
        "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"}) {
    ServeInTurn({Answers(200, absl::StrCat("<L>", list, "</L>"))});
    const absl::Status status = Store().List("p/", [](const ObjectInfo&) { return absl::OkStatus(); }, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << list;
  }
}

TEST_F(S3StoreTest, FindsAnObjectByItsWholeKeyOnly) {
  ServeInTurn({Answers(200, "<L><Contents><Key>a/bc</Key><Size>3</Size></Contents></L>"),
               Answers(200, "<L><Contents><Key>a/b</Key><Size>3</Size></Contents></L>")});
  EXPECT_EQ(Store().Head("a/b", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Store().Head("a/b", {})->size, 3);
  EXPECT_EQ(requests()[0].Argument("max-keys"), "1");
}

TEST_F(S3StoreTest, DeletesInBatches) {
  ServeInTurn({Answers(200, "<DeleteResult/>"), Answers(200, "<DeleteResult/>")});
  std::vector<std::string> keys(1001, "k");
  keys[0] = "a&b";
  ASSERT_TRUE(Store().Delete(keys, {}).ok());
  EXPECT_THAT(Calls(), ElementsAre("POST /models/?delete=", "POST /models/?delete="));
  EXPECT_THAT(requests()[0].body, HasSubstr("<Object><Key>a&amp;b</Key></Object>"));
  EXPECT_EQ(requests()[0].headers.at("content-md5"), Md5Base64(requests()[0].body));
}

TEST_F(S3StoreTest, SaysWhatCouldNotBeDeleted) {
  ServeInTurn(
      {Answers(200, "<R><Error><Key>a</Key><Code>AccessDenied</Code><Message>no</Message></Error></R>")});
  EXPECT_THAT(Store().Delete({"a"}, {}).message(), HasSubstr("\"a\": AccessDenied"));
}

TEST_F(S3StoreTest, NamesTheRegionOrBucketThatIsWrong) {
  ServeInTurn({Answers(301, "", {"x-amz-bucket-region: us-west-2"}), FailsWith(404, "NoSuchBucket")});
  EXPECT_THAT(Put("1").message(), HasSubstr("\"us-west-2\""));
  EXPECT_THAT(Put("1").message(), HasSubstr("no bucket \"models\""));
}

TEST_F(S3StoreTest, AsksForNewCredentialsOnce) {
  ServeInTurn({FailsWith(400, "ExpiredToken"), Answers(200, "")});
  EXPECT_TRUE(Put("1").ok());
  EXPECT_EQ(credentials_.refused(), 1);
}

TEST_F(S3StoreTest, ReadsNoEndlessAnswers) {
  ServeInTurn({[](Exchange& exchange) {
    exchange.Begin(200);
    while (exchange.Part(std::string(1 << 16, ' '))) {
    }
    exchange.Cut();
  }});
  EXPECT_EQ(Store().List("p", [](const ObjectInfo&) { return absl::OkStatus(); }, {}).code(),
            absl::StatusCode::kOutOfRange);
}

TEST_F(S3StoreTest, EndsWhenItIsStopped) {
  std::stop_source stop;
  ServeInTurn({[&](Exchange& exchange) {
    stop.request_stop();
    exchange.AwaitClosed();
  }});
  S3Store store = Store();
  EXPECT_EQ(WriteObject(store, "a", "1", stop.get_token()).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace adaptdl::objectstore
