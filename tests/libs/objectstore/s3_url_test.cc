#include "libs/objectstore/s3_url.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::objectstore {
namespace {

using ::testing::HasSubstr;

TEST(S3UrlTest, ReadsBucketAndPrefix) {
  const auto location = ParseS3Url("--storage-url", "s3://models.eu/team a/run/");
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_EQ(location->bucket, "models.eu");
  EXPECT_EQ(location->prefix, "team a/run");
  EXPECT_EQ(location->Key("x"), "team a/run/x");
  EXPECT_EQ(ParseS3Url("--storage-url", "s3://models")->Key("x"), "x");
  EXPECT_EQ(ParseS3Url("--storage-url", "s3://models/")->prefix, "");
}

TEST(S3UrlTest, RefusesWhatIsNone) {
  for (const std::string url : {"", "models", "http://models/x", "s3://", "s3://UPPER/x", "s3://a..b/x",
                                "s3://-a-/x", "s3://models/a/../b", "s3://models//a", "s3://models/a\nb"}) {
    const absl::Status status = ParseS3Url("--storage-url", url).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(status.message(), HasSubstr("--storage-url")) << url;
  }
}

TEST(S3UrlTest, ChecksEndpoints) {
  for (const std::string url : {"", "https://minio:9000", "http://127.0.0.1:1/", "https://[::1]:9000"})
    EXPECT_TRUE(CheckEndpoint("--storage-endpoint", url).ok()) << url;
  for (const std::string url : {"minio:9000", "https://", "https://a/b", "https://user@host", "ftp://a"})
    EXPECT_FALSE(CheckEndpoint("--storage-endpoint", url).ok()) << url;
}

}  // namespace
}  // namespace adaptdl::objectstore
