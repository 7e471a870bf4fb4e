// With an emulator of S3 that others wrote, at $S3_ENDPOINT.

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/pauses.h"
#include "libs/objectstore/s3_store.h"

namespace adaptdl::objectstore {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kPartBytes = int64_t{5} << 20;

class S3EmulatorTest : public ::testing::Test {
 protected:
  std::vector<std::string> Keys(const std::string& prefix) {
    std::vector<std::string> keys;
    const absl::Status status = store_.List(prefix,
                                            [&](const ObjectInfo& object) {
                                              keys.push_back(object.key);
                                              return absl::OkStatus();
                                            },
                                            {});
    EXPECT_TRUE(status.ok()) << status;
    return keys;
  }
  std::string Read(const std::string& key) {
    const absl::StatusOr<ObjectInfo> info = store_.Head(key, {});
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return "";
    const absl::StatusOr<std::string> content = ReadObject(store_, *info, int64_t{1} << 30, {});
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or("");
  }

  RealClock clock_;
  RealPauses pauses_;
  aws::FixedCredentials credentials_{{.access_key_id = "test", .secret_access_key = "secret"}};
  HttpClient http_;
  S3Store store_{{.bucket = "models",
                  .region = "us-east-1",
                  .endpoint = getenv("S3_ENDPOINT"),  // NOLINT(concurrency-mt-unsafe): nobody sets any
                  .part_bytes = kPartBytes,
                  .page_objects = 3},
                 {&http_, &credentials_, &clock_, &pauses_, [] { return 0.5; }}};
};

TEST_F(S3EmulatorTest, ReadsWhatItWrote) {
  for (const std::string key : {"a/small", "a/with space+plus%25&amp;ä", "a/=?#"}) {
    const absl::Status status = WriteObject(store_, key, "content of " + key, {});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Read(key), "content of " + key);
  }
  EXPECT_THAT(Keys("a/"), ElementsAre("a/=?#", "a/small", "a/with space+plus%25&amp;ä"));
  ASSERT_TRUE(WriteObject(store_, "a/empty", "", {}).ok());
  EXPECT_EQ(Read("a/empty"), "");
  ASSERT_TRUE(DeletePrefix(store_, "a/", {}).ok());
  EXPECT_THAT(Keys("a/"), IsEmpty());
  EXPECT_EQ(store_.Head("a/small", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(S3EmulatorTest, WritesALargeObjectInParts) {
  std::string content(2 * kPartBytes + 12345, 'x');
  for (size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>('a' + i / 1000 % 26);
  const absl::Status status = WriteObject(store_, "large", content, {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Read("large") == content);
}

TEST_F(S3EmulatorTest, LeavesNoPartsOfWhatFailed) {
  const auto source = [](int64_t offset, int64_t length) -> absl::StatusOr<std::string> {
    if (offset > 0) return absl::DataLossError("the disk is broken");
    return std::string(static_cast<size_t>(length), 'x');
  };
  EXPECT_EQ(store_.Put("torn", 3 * kPartBytes, source, {}).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Keys("torn"), IsEmpty());
  HttpRequest uploads{.url = std::string(getenv("S3_ENDPOINT")) +
                             "/models?uploads"};  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(http_.Send(uploads)->body, ::testing::Not(::testing::HasSubstr("torn")));
}

TEST_F(S3EmulatorTest, TellsAnObjectThatWasReplaced) {
  ASSERT_TRUE(WriteObject(store_, "replaced", "one", {}).ok());
  const ObjectInfo info = *store_.Head("replaced", {});
  ASSERT_TRUE(WriteObject(store_, "replaced", "two", {}).ok());
  EXPECT_EQ(ReadObject(store_, info, 100, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(S3EmulatorTest, ListsMoreThanAPage) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(WriteObject(store_, "many/" + std::to_string(i), "", {}).ok());
  EXPECT_EQ(Keys("many/").size(), 10);
  ASSERT_TRUE(DeletePrefix(store_, "many/", {}).ok());
  EXPECT_THAT(Keys("many/"), IsEmpty());
}

}  // namespace
}  // namespace adaptdl::objectstore
