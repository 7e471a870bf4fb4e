#include "libs/messages/text.h"

#include <string>

#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/job_service.pb.h"
#include "gtest/gtest.h"
#include "libs/base/utf8.h"

namespace adaptdl::messages {
namespace {

constexpr size_t kBound = 1000;
constexpr char kHalf[] = "half a character: \xC3";
constexpr char kMended[] = "half a character: \xEF\xBF\xBD";

v1::Job MakeJob() {
  v1::Job job;
  job.set_name("a");
  (*job.mutable_labels())["k"] = "v";
  job.mutable_spec()->mutable_template_()->add_command("train");
  job.mutable_spec()->mutable_template_()->add_env()->set_name("X");
  job.mutable_spec()->set_priority(3);
  job.mutable_status()->set_message("waits");
  job.mutable_status()->mutable_submit_time()->set_seconds(5);
  job.mutable_status()->add_replicas()->set_message("ran");
  return job;
}

// Each of these puts `text` at another depth.
using Place = void (*)(const char* text, v1::Job* job);
constexpr Place kPlaces[] = {
    [](const char* text, v1::Job* job) { job->set_name(text); },
    [](const char* text, v1::Job* job) { (*job->mutable_labels())["k"] = text; },
    [](const char* text, v1::Job* job) { job->mutable_spec()->mutable_template_()->add_args(text); },
    [](const char* text, v1::Job* job) {
      job->mutable_spec()->mutable_template_()->mutable_env(0)->set_value(text);
    },
    [](const char* text, v1::Job* job) { job->mutable_status()->mutable_replicas(0)->set_message(text); },
};

TEST(MessageTextTest, GoodMessagesStayAsTheyAre) {
  v1::Job job = MakeJob();
  const std::string before = job.SerializeAsString();
  EXPECT_EQ(BoundText(kBound, &job), 0);
  EXPECT_EQ(job.SerializeAsString(), before);
  v1::Job read;
  EXPECT_EQ(ParseMending(before, &read), Parsed::kGood);
  EXPECT_EQ(read.SerializeAsString(), before);
}

TEST(MessageTextTest, TextIsMadeValidAtAnyDepth) {
  for (const Place place : kPlaces) {
    v1::Job job = MakeJob();
    place(kHalf, &job);
    EXPECT_EQ(BoundText(kBound, &job), 1);
    v1::Job expected = MakeJob();
    place(kMended, &expected);
    EXPECT_EQ(job.DebugString(), expected.DebugString());
    EXPECT_TRUE(v1::Job().ParseFromString(job.SerializeAsString()));
  }
}

TEST(MessageTextTest, TextIsBounded) {
  v1::Job job = MakeJob();
  job.mutable_status()->set_message("x");
  for (int i = 0; i < 600; ++i) job.mutable_status()->mutable_message()->append("é");
  EXPECT_EQ(BoundText(kBound, &job), 1);
  EXPECT_EQ(job.status().message().size(), kBound - 1);
  EXPECT_TRUE(IsUtf8(job.status().message()));
}

TEST(MessageTextTest, BytesMayBeAnything) {
  v1::FileChunk response;
  response.set_data("\xC3\xFF");
  EXPECT_EQ(BoundText(1, &response), 0);
  EXPECT_EQ(response.data(), "\xC3\xFF");
}

TEST(MessageTextTest, WhatWasKeptWithHalfACharacterIsReadAgain) {
  for (const Place place : kPlaces) {
    v1::Job job = MakeJob();
    place(kHalf, &job);
    const std::string bytes = job.SerializeAsString();
    v1::Job read;
    ASSERT_FALSE(read.ParseFromString(bytes)) << "protobuf has become more lenient: is this still needed?";
    EXPECT_EQ(ParseMending(bytes, &read), Parsed::kMended);
    v1::Job expected = MakeJob();
    place(kMended, &expected);
    EXPECT_EQ(read.DebugString(), expected.DebugString());
  }
}

TEST(MessageTextTest, OtherBytesAreUnreadable) {
  v1::Job read;
  EXPECT_EQ(ParseMending("\xFF\xFF\xFF\xFF", &read), Parsed::kUnreadable);
  const std::string bytes = MakeJob().SerializeAsString();
  EXPECT_EQ(ParseMending(bytes.substr(0, bytes.size() - 1), &read), Parsed::kUnreadable);
  EXPECT_FALSE(read.has_spec());
}

}  // namespace
}  // namespace adaptdl::messages
