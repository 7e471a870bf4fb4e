// Archives over real gRPC: what comes in pieces, breaks off, is refused, or is damaged; and the jobs that name them.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "adaptdl/v1/code_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/code/digest_of.h"
#include "tests/services/supervisor/secure_cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

// One who uploads and downloads.
class CodeClient {
 public:
  explicit CodeClient(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::CodeService::NewStub(channel)) {}

  v1::StatCodeResponse Stat(const std::string& digest, const std::string& name_space = "",
                            grpc::Status* status = nullptr) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::StatCodeRequest request;
    request.set_namespace_(name_space);
    request.set_digest(digest);
    v1::StatCodeResponse response;
    const grpc::Status result = stub_->StatCode(&context, request, &response);
    if (status != nullptr) *status = result;
    return response;
  }

  // Sends `content` from `offset` on, in pieces; leaves off after so many.
  grpc::Status Upload(const std::string& content, int64_t offset = 0, int pieces = 1000,
                      const std::string& name_space = "", v1::UploadCodeResponse* answer = nullptr,
                      const std::string& digest = "") {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::UploadCodeResponse response;
    auto stream = stub_->UploadCode(&context, &response);
    v1::UploadCodeRequest request;
    request.set_namespace_(name_space);
    request.set_digest(digest.empty() ? DigestOf(content) : digest);
    request.set_size(static_cast<int64_t>(content.size()));
    request.set_offset(offset);
    for (; pieces > 0; --pieces) {
      request.set_data(content.substr(offset, kPiece));
      if (!stream->Write(request)) break;
      offset += kPiece;
      if (offset >= static_cast<int64_t>(content.size())) break;
      request.Clear();
    }
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    if (answer != nullptr) *answer = response;
    return status;
  }

  std::string Download(const std::string& digest, int64_t offset = 0, const std::string& name_space = "",
                       grpc::Status* status = nullptr) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::DownloadCodeRequest request;
    request.set_namespace_(name_space);
    request.set_digest(digest);
    request.set_offset(offset);
    auto stream = stub_->DownloadCode(&context, request);
    v1::DownloadCodeResponse response;
    std::string content;
    while (stream->Read(&response)) content += response.data();
    const grpc::Status result = stream->Finish();
    if (status != nullptr) *status = result;
    return content;
  }

  static constexpr int64_t kPiece = 1 << 16;

 private:
  const std::unique_ptr<v1::CodeService::Stub> stub_;
};

std::string SomeContent(char first) {
  std::string content(3 * CodeClient::kPiece + 100, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(first + i * 31 % 251);
  return content;
}

v1::Job JobOf(const std::string& name, const std::string& content) {
  v1::Job job;
  job.set_name(name);
  job.mutable_spec()->set_max_replicas(1);
  job.mutable_spec()->mutable_template_()->add_command("train");
  v1::CodeArchive& code = *job.mutable_spec()->mutable_template_()->mutable_code();
  code.set_digest(DigestOf(content));
  code.set_size(static_cast<int64_t>(content.size()));
  return job;
}

class CodeServiceTest : public ClusterTest {
 protected:
  CodeServiceTest() { options_.code.folder = absl::StrCat(folder_.path(), "/code"); }
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  void Restart() {
    Stop();
    Start();
  }
  std::string PathOf(const std::string& digest) const {
    return absl::StrCat(options_.code.folder, "/default/", digest);
  }

  const TemporaryFolder folder_;
};

TEST_F(CodeServiceTest, WhatWasUploadedCanBeReadFromAnywhere) {
  CodeClient client(channel_);
  const std::string content = SomeContent('a');
  const std::string digest = DigestOf(content);
  EXPECT_FALSE(client.Stat(digest).complete());
  v1::UploadCodeResponse answer;
  const grpc::Status status = client.Upload(content, 0, 1000, "", &answer);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(answer.received(), static_cast<int64_t>(content.size()));
  EXPECT_TRUE(client.Stat(digest).complete());
  EXPECT_EQ(client.Stat(digest).limit(), options_.code.max_archive_bytes);
  EXPECT_EQ(client.Download(digest), content);
  EXPECT_EQ(client.Download(digest, 1000), content.substr(1000));
  EXPECT_EQ(client.Download(digest, static_cast<int64_t>(content.size())), "");
  grpc::Status beyond;
  client.Download(digest, 1 << 30, "", &beyond);
  EXPECT_EQ(beyond.error_code(), StatusCode::OUT_OF_RANGE);
  // Once more is no harm.
  EXPECT_TRUE(client.Upload(content, 0, 1, "", &answer).ok());
  EXPECT_TRUE(answer.complete());
}

TEST_F(CodeServiceTest, AnUploadGoesOnAfterARestart) {
  const std::string content = SomeContent('b');
  const std::string digest = DigestOf(content);
  v1::UploadCodeResponse answer;
  ASSERT_TRUE(CodeClient(channel_).Upload(content, 0, 2, "", &answer).ok());
  EXPECT_FALSE(answer.complete());
  EXPECT_EQ(answer.received(), 2 * CodeClient::kPiece);
  Restart();
  CodeClient client(channel_);
  EXPECT_EQ(client.Stat(digest).received(), 2 * CodeClient::kPiece);
  EXPECT_EQ(client.Upload(content, 0).error_code(), StatusCode::ABORTED);
  EXPECT_TRUE(client.Upload(content, 2 * CodeClient::kPiece, 1000, "", &answer).ok());
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(client.Download(digest), content);
}

TEST_F(CodeServiceTest, AnotherDigestIsRefusedAndDropped) {
  CodeClient client(channel_);
  const std::string digest = DigestOf("something else");
  const grpc::Status status = client.Upload(SomeContent('c'), 0, 1000, "", nullptr, digest);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Stat(digest).received(), 0);
  EXPECT_FALSE(std::filesystem::exists(PathOf(digest)));
}

TEST_F(CodeServiceTest, TooMuchIsRefusedWithTheRemedy) {
  options_.code.max_archive_bytes = 1000;
  Restart();
  CodeClient client(channel_);
  const grpc::Status status = client.Upload(SomeContent('d'));
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--max-code-archive"));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(PathOf(DigestOf(SomeContent('d'))), ".part")));
}

TEST_F(CodeServiceTest, ADamagedArchiveIsToldAndCanBeUploadedAnew) {
  CodeClient client(channel_);
  const std::string content = SomeContent('e');
  const std::string digest = DigestOf(content);
  for (const std::string& damage : {std::string(content.size(), 'x'), std::string("short")}) {
    ASSERT_TRUE(client.Upload(content).ok());
    std::ofstream(PathOf(digest), std::ios::binary) << damage;
    grpc::Status status;
    client.Download(digest, 0, "", &status);
    EXPECT_EQ(status.error_code(), StatusCode::DATA_LOSS);
    EXPECT_FALSE(client.Stat(digest).complete());
  }
}

TEST_F(CodeServiceTest, AJobNeedsItsArchiveAndKeepsIt) {
  const std::string content = SomeContent('f');
  const grpc::Status missing = TrySubmit(JobOf("early", content));
  EXPECT_EQ(missing.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(missing.error_message(), HasSubstr(DigestOf(content)));
  EXPECT_THAT(missing.error_message(), HasSubstr("adaptdl submit DIR"));
  ASSERT_TRUE(CodeClient(channel_).Upload(content).ok());
  Submit(JobOf("a", content));
  EXPECT_EQ(Get("a").spec().template_().code().digest(), DigestOf(content));
  clock_.Advance(absl::Hours(24 * 7));
  // What jobs need is known before the first call after a restart.
  options_.code.max_namespace_bytes = static_cast<int64_t>(content.size());
  Restart();
  CodeClient client(channel_);
  EXPECT_EQ(client.Upload(SomeContent('g')).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(client.Download(DigestOf(content)), content);
  // It makes room when the job has finished.
  ASSERT_TRUE(Cancel("a").ok());
  WaitForPhase("a", v1::JOB_PHASE_CANCELLED);
  clock_.Advance(absl::Hours(1));
  Restart();
  EXPECT_TRUE(CodeClient(channel_).Upload(SomeContent('g')).ok());
}

// As on Kubernetes.
class NoCodeTest : public ClusterTest {};

TEST_F(NoCodeTest, EverythingIsAnsweredWithTheRemedy) {
  CodeClient client(channel_);
  grpc::Status status;
  client.Stat(DigestOf("x"), "", &status);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("image"));
  status = client.Upload(SomeContent('x'));
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  client.Download(DigestOf("x"), 0, "", &status);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(TrySubmit(JobOf("a", "x")).error_code(), StatusCode::FAILED_PRECONDITION);
}

class SecureCodeTest : public SecureClusterTest {
 protected:
  SecureCodeTest() { options_.code.folder = absl::StrCat(folder_.path(), "/code"); }
};

TEST_F(SecureCodeTest, NobodySeesTheArchivesOfAnotherNamespace) {
  const std::string content = SomeContent('a');
  const std::string digest = DigestOf(content);
  CodeClient user(Person(user_));
  CodeClient other(Person(AddToken("other", security::Role::kUser, {"b"})));
  ASSERT_TRUE(user.Upload(content, 0, 1000, "a").ok());
  grpc::Status status;
  for (const std::string name_space : {"a", "default"}) {
    // The same, whether it is there or not.
    other.Stat(digest, name_space, &status);
    EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(other.Download(digest, 0, name_space, &status), "");
    EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(other.Upload(content, 0, 1000, name_space).error_code(), StatusCode::PERMISSION_DENIED);
  }
  EXPECT_EQ(other.Stat(digest, "b", &status).received(), 0);
  EXPECT_TRUE(status.ok()) << status.error_message();
  // Nodes run the jobs of all.
  CodeClient worker(Service("worker"));
  EXPECT_EQ(worker.Download(digest, 0, "a"), content);
  EXPECT_TRUE(IsRefusal(worker.Upload(content, 0, 1000, "a")));
  EXPECT_TRUE(IsRefusal(CodeClient(Person("")).Upload(content, 0, 1000, "a")));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(options_.code.folder, "/default")));
}

}  // namespace
}  // namespace adaptdl::supervisor
