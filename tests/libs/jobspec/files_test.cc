// What a job may bring along, and have fetched.

#include "libs/jobspec/files.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobspec/job_spec.h"

namespace adaptdl::jobspec {
namespace {

using testing::HasSubstr;

v1::Job ValidJob() {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name("a");
  job.mutable_spec()->mutable_template_()->add_command("true");
  return job;
}

void ExpectRefused(const v1::Job& job, const std::string& why) {
  const absl::Status status = CheckNewJob(job, "");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
  EXPECT_THAT(status.message(), HasSubstr(why));
}

TEST(CodeTest, IsKnownByTheDigestOfItsArchive) {
  v1::Job job = ValidJob();
  v1::CodeArchive* code = job.mutable_spec()->mutable_template_()->mutable_code();
  code->set_size(10);
  for (const std::string& digest :
       {std::string(), std::string(63, 'a'), std::string(64, 'A'), std::string(64, 'g'),
        "../" + std::string(61, 'a'), std::string(65, 'a')}) {
    code->set_digest(digest);
    ExpectRefused(job, "spec.template.code.digest");
  }
  code->set_digest(std::string(64, 'a'));
  EXPECT_TRUE(CheckNewJob(job, "").ok()) << CheckNewJob(job, "");
  code->set_size(0);
  ExpectRefused(job, "spec.template.code.size");
}

TEST(CodeTest, AFolderInItStaysInIt) {
  v1::Job job = ValidJob();
  v1::ReplicaTemplate* replica = job.mutable_spec()->mutable_template_();
  replica->mutable_code()->set_digest(std::string(64, '0'));
  replica->mutable_code()->set_size(1);
  for (const char* inside : {"src", "src/deep", "./x", "/absolute/../path", "a..b"}) {
    replica->set_working_directory(inside);
    EXPECT_TRUE(CheckNewJob(job, "").ok()) << inside;
  }
  for (const char* outside : {"..", "src/../..", "../other"}) {
    replica->set_working_directory(outside);
    ExpectRefused(job, "leads out of the folder");
  }
}

TEST(DataSetsTest, HaveNamesAndPlaces) {
  v1::Job job = ValidJob();
  v1::DataSet* data = job.mutable_spec()->mutable_template_()->add_data_sets();
  data->set_name("images");
  for (const char* good : {"s3://bucket", "s3://bucket/some/prefix", "file:///data/images"}) {
    data->set_url(good);
    EXPECT_TRUE(CheckNewJob(job, "").ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("http://x/y"), std::string("s3://"), std::string("s3:///x"),
        std::string("file://data"), std::string("file:///"), std::string("file:///a/../b"),
        std::string("s3://a\nb"), "s3://" + std::string(2048, 'b')}) {
    data->set_url(bad);
    ExpectRefused(job, "data_sets[0].url");
  }
  data->set_url("s3://bucket");
  data->set_name("Images");
  ExpectRefused(job, "data_sets[0].name");
  data->set_name("images");
  *job.mutable_spec()->mutable_template_()->add_data_sets() = *data;
  ExpectRefused(job, "is there twice");
}

TEST(DataSetsTest, AreBounded) {
  v1::Job job = ValidJob();
  for (int i = 0; i < 65; ++i) {
    v1::DataSet* data = job.mutable_spec()->mutable_template_()->add_data_sets();
    data->set_name("d" + std::to_string(i));
    data->set_url("s3://bucket");
  }
  ExpectRefused(job, "at most 64");
}

TEST(DeadlineTest, IsATimeThatHasAText) {
  v1::Job job = ValidJob();
  job.mutable_spec()->mutable_deadline()->set_seconds(1'800'000'000);
  EXPECT_TRUE(CheckNewJob(job, "").ok());
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, int64_t{253'402'300'800}}) {
    job.mutable_spec()->mutable_deadline()->set_seconds(wrong);
    ExpectRefused(job, "spec.deadline");
  }
}

}  // namespace
}  // namespace adaptdl::jobspec
