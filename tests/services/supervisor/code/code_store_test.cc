// The archives of jobs' folders: what counts, what stays, and what a crash leaves.

#include "services/supervisor/code/code_store.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/archive/digest.h"
#include "libs/base/file.h"
#include "libs/base/manual_clock.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/code/digest_of.h"

namespace adaptdl::supervisor {
namespace {

using testing::HasSubstr;

CodeKey KeyOf(const std::string& content, const std::string& name_space = "a") {
  return {name_space, DigestOf(content)};
}

class LeaseOfATest final : public LeaderLease {
 public:
  int64_t term() const override { return 1; }
  bool Valid() const override { return valid; }
  absl::Status AwaitValid(absl::Duration) override { return absl::OkStatus(); }
  void GiveUp(const std::string&) override {}
  bool valid = true;
};

class CodeStoreTest : public testing::Test {
 protected:
  CodeStoreTest() {
    options_.folder = absl::StrCat(folder_.path(), "/code");
    Restart();
  }
  // A supervisor that was cut off, and the next one.
  void Restart() {
    store_ = nullptr;
    auto store = CodeStore::Open(options_, &clock_, &lease_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  absl::StatusOr<CodeStore::Progress> Upload(const CodeKey& key, const std::string& content,
                                             int64_t size = -1, int64_t offset = 0) {
    auto upload = store_->Begin(key, size < 0 ? static_cast<int64_t>(content.size()) : size, offset);
    if (!upload.ok()) return upload.status();
    if (!(*upload)->complete()) {
      if (absl::Status status = store_->Append(upload->get(), content); !status.ok()) return status;
    }
    return store_->Finish(upload->get());
  }
  void Keep(const std::string& content, const std::string& name_space = "a") {
    const auto progress = Upload(KeyOf(content, name_space), content);
    ASSERT_TRUE(progress.ok()) << progress.status();
    EXPECT_TRUE(progress->complete);
  }
  bool Has(const CodeKey& key) { return store_->OpenWhole(key).ok(); }
  // Without a touch.
  bool IsThere(const CodeKey& key) const { return std::filesystem::exists(PathOf(key)); }
  std::string PathOf(const CodeKey& key) const {
    return absl::StrCat(options_.folder, "/", key.first, "/", key.second);
  }
  absl::Status Require(const CodeKey& key, int64_t size) {
    v1::CodeArchive code;
    code.set_digest(key.second);
    code.set_size(size);
    return store_->Require(key.first, code);
  }

  const TemporaryFolder folder_;
  CodeStoreOptions options_;
  ManualClock clock_;
  LeaseOfATest lease_;
  std::unique_ptr<CodeStore> store_;
};

TEST_F(CodeStoreTest, KeepsWhatHasItsDigest) {
  Keep("content");
  const auto whole = store_->OpenWhole(KeyOf("content"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->size, 7);
  Restart();
  EXPECT_TRUE(store_->Find(KeyOf("content"))->complete);
  EXPECT_TRUE(Require(KeyOf("content"), 7).ok());
  EXPECT_EQ(Require(KeyOf("content"), 8).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CodeStoreTest, AnUploadGoesOnWhereItWasCutOff) {
  const CodeKey key = KeyOf("first, second");
  EXPECT_EQ(Upload(key, "first", 13)->received, 5);
  EXPECT_EQ(Require(key, 13).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->OpenWhole(key).status().code(), absl::StatusCode::kNotFound);
  Restart();
  EXPECT_EQ(store_->Find(key)->received, 5);
  EXPECT_FALSE(store_->Find(key)->complete);
  EXPECT_EQ(Upload(key, "first", 13, 0).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Upload(key, ", second", 13, 5)->complete);
  EXPECT_TRUE(Has(key));
}

TEST_F(CodeStoreTest, AnotherContentIsVoid) {
  const CodeKey key = KeyOf("wanted");
  const absl::Status status = Upload(key, "forged").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(DigestOf("forged")));
  EXPECT_EQ(store_->Find(key)->received, 0);
  // What the disk made of the first half while it was cut off is found as well.
  EXPECT_EQ(Upload(key, "want", 6)->received, 4);
  std::ofstream(absl::StrCat(PathOf(key), ".part"), std::ios::binary) << std::string(4, '\0');
  Restart();
  EXPECT_EQ(Upload(key, "ed", 6, 4).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Upload(key, "wanted")->complete);
}

TEST_F(CodeStoreTest, OfTwoUploadsTheLaterOneGoesOn) {
  const CodeKey key = KeyOf("first, second");
  auto early = store_->Begin(key, 13, 0);
  ASSERT_TRUE(store_->Append(early->get(), "first").ok());
  auto late = store_->Begin(key, 13, 5);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(store_->Append(early->get(), "xx").code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(store_->Append(late->get(), ", second").ok());
  EXPECT_TRUE(store_->Finish(late->get())->complete);
  EXPECT_TRUE(Has(key));
}

TEST_F(CodeStoreTest, ManyUploadsOfOneArchiveGiveOne) {
  const std::string content(1 << 20, 'x');
  const CodeKey key = KeyOf(content);
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      while (!store_->Find(key)->complete) {
        const int64_t offset = store_->Find(key)->received;
        auto upload = store_->Begin(key, 1 << 20, offset);
        if (!upload.ok()) continue;
        for (int64_t sent = offset; !(*upload)->complete() && sent < (1 << 20); sent += 1 << 16) {
          if (!store_->Append(upload->get(), content.substr(sent, 1 << 16)).ok()) break;
        }
        const auto progress = store_->Finish(upload->get());
        EXPECT_FALSE(absl::IsInvalidArgument(progress.status())) << progress.status();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(*archive::DigestOfFile(PathOf(key)), key.second);
}

TEST_F(CodeStoreTest, SizesAndOffsetsAreBounded) {
  options_.max_archive_bytes = 10;
  Restart();
  const CodeKey key = KeyOf("x");
  const absl::Status too_large = store_->Begin(key, 11, 0).status();
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(too_large.message(), HasSubstr("--max-code-archive"));
  EXPECT_EQ(store_->Begin(key, 0, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Begin(key, 5, 6).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Begin(key, 5, -1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Upload(key, "longer", 5).status().code(), absl::StatusCode::kOutOfRange);
  for (const CodeKey& wrong : {CodeKey{"..", key.second}, CodeKey{"a", "../../x"}, CodeKey{"", key.second}}) {
    EXPECT_EQ(store_->Begin(wrong, 5, 0).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(store_->Find(wrong).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(store_->OpenWhole(wrong).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(CodeStoreTest, NamespacesAreApart) {
  Keep("content", "a");
  EXPECT_FALSE(Has(KeyOf("content", "b")));
  EXPECT_EQ(store_->Find(KeyOf("content", "b"))->received, 0);
  EXPECT_EQ(Require(KeyOf("content", "b"), 7).code(), absl::StatusCode::kFailedPrecondition);
  // Each has room of its own.
  options_.max_namespace_bytes = 10;
  Restart();
  Keep("content", "b");
  EXPECT_TRUE(Has(KeyOf("content", "a")));
}

TEST_F(CodeStoreTest, RoomIsMadeOfWhatNoJobNeeds) {
  options_.max_namespace_bytes = 25;
  Restart();
  for (const std::string content : {"unfinished", "finished--", "unnamed"}) {
    clock_.Advance(absl::Minutes(2));
    if (content != "unnamed") Keep(content);
  }
  Keep("old");
  const std::set<CodeKey> needed = {KeyOf("unfinished")};
  const std::set<CodeKey> named = {KeyOf("unfinished"), KeyOf("finished--")};
  store_->Collect(named, needed);
  // A job that names them may be on its way.
  EXPECT_EQ(Upload(KeyOf("12345"), "12345").status().code(), absl::StatusCode::kResourceExhausted);
  clock_.Advance(absl::Minutes(11));
  // What no job names goes first, though it was touched last.
  Keep("12345");
  EXPECT_FALSE(IsThere(KeyOf("old")));
  EXPECT_TRUE(IsThere(KeyOf("finished--")));
  // Nothing goes where that would not be enough.
  const absl::Status status = Upload(KeyOf("1234567890123456"), "1234567890123456").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("--max-code-per-namespace"));
  EXPECT_TRUE(IsThere(KeyOf("finished--")));
  clock_.Advance(absl::Minutes(11));
  // Then what finished jobs name, and never what others do.
  Keep("123456789012345");
  EXPECT_FALSE(IsThere(KeyOf("finished--")));
  EXPECT_FALSE(IsThere(KeyOf("12345")));
  EXPECT_TRUE(IsThere(KeyOf("unfinished")));
}

TEST_F(CodeStoreTest, WhatNoJobNamesGoesADayLater) {
  Keep("named");
  Keep("unnamed");
  Upload(KeyOf("never finished"), "never", 14).IgnoreError();
  clock_.Advance(absl::Hours(23));
  Restart();
  store_->Collect({KeyOf("named")}, {});
  EXPECT_TRUE(IsThere(KeyOf("unnamed")));
  clock_.Advance(absl::Hours(2));
  store_->Collect({KeyOf("named")}, {});
  EXPECT_TRUE(IsThere(KeyOf("named")));
  EXPECT_FALSE(IsThere(KeyOf("unnamed")));
  EXPECT_EQ(store_->Find(KeyOf("never finished"))->received, 0);
  // With the job's record.
  store_->Collect({}, {});
  EXPECT_FALSE(IsThere(KeyOf("named")));
}

TEST_F(CodeStoreTest, AUseKeepsItForAnotherDay) {
  Keep("content");
  clock_.Advance(absl::Hours(23));
  EXPECT_TRUE(Require(KeyOf("content"), 7).ok());
  Restart();
  clock_.Advance(absl::Hours(23));
  store_->Collect({}, {});
  EXPECT_TRUE(IsThere(KeyOf("content")));
}

TEST_F(CodeStoreTest, NothingGoesRightAfterItsUse) {
  options_.keep = absl::ZeroDuration();
  Restart();
  Keep("content");
  store_->Collect({}, {});
  EXPECT_TRUE(IsThere(KeyOf("content")));
  clock_.Advance(absl::Minutes(11));
  store_->Collect({}, {});
  EXPECT_FALSE(IsThere(KeyOf("content")));
}

TEST_F(CodeStoreTest, StrangeFilesAreLeftAlone) {
  Keep("content");
  const CodeKey key = KeyOf("content");
  std::ofstream(absl::StrCat(PathOf(key), ".part")) << "left by a crash";
  std::ofstream(absl::StrCat(options_.folder, "/a/notes.txt")) << "not ours";
  std::filesystem::create_symlink("/etc/passwd", PathOf(KeyOf("linked")));
  Restart();
  EXPECT_TRUE(Has(key));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(PathOf(key), ".part")));
  EXPECT_TRUE(std::filesystem::exists(absl::StrCat(options_.folder, "/a/notes.txt")));
  EXPECT_FALSE(Has(KeyOf("linked")));
}

TEST_F(CodeStoreTest, WhoDoesNotLeadChangesNothing) {
  Keep("content");
  auto upload = store_->Begin(KeyOf("another"), 7, 0);
  ASSERT_TRUE(store_->Append(upload->get(), "another").ok());
  lease_.valid = false;
  EXPECT_EQ(store_->Finish(upload->get()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_->Begin(KeyOf("third"), 5, 0).status().code(), absl::StatusCode::kUnavailable);
  clock_.Advance(absl::Hours(48));
  store_->Collect({}, {});
  EXPECT_TRUE(IsThere(KeyOf("content")));
  EXPECT_FALSE(IsThere(KeyOf("another")));
}

}  // namespace
}  // namespace adaptdl::supervisor
