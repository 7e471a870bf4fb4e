// A supervisor's archives, in memory, that come as the test says. Thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_CODE_FAKE_CODE_SOURCE_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_CODE_FAKE_CODE_SOURCE_H_

#include <fcntl.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "adaptdl/v1/job.pb.h"
#include "gtest/gtest.h"
#include "libs/archive/pack.h"
#include "libs/base/mutex.h"
#include "libs/base/unique_fd.h"
#include "services/worker/code/code_source.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {

class FakeCodeSource final : public CodeSource {
 public:
  static constexpr size_t kPiece = 100;

  // Packs the folder, and has its archive from now on.
  v1::CodeArchive Add(const std::string& folder) {
    const TempFolder place;
    const std::string path = place / "archive";
    const auto contents = archive::ScanFolder(folder, {});
    EXPECT_TRUE(contents.ok()) << contents.status();
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const auto packed = archive::PackFolder(folder, *contents, file.get());
    EXPECT_TRUE(packed.ok()) << packed.status();
    v1::CodeArchive code;
    code.set_digest(packed->digest);
    code.set_size(packed->size);
    MutexLock lock(&mutex_);
    contents_[packed->digest] = ReadFile(path);
    return code;
  }
  void Put(const std::string& digest, const std::string& content) {
    MutexLock lock(&mutex_);
    contents_[digest] = content;
  }
  std::string Get(const std::string& digest) {
    MutexLock lock(&mutex_);
    return contents_[digest];
  }
  // The next reading ends with the status after so many pieces.
  void BreakAfter(int pieces, const absl::Status& status) {
    MutexLock lock(&mutex_);
    pieces_ = pieces;
    broken_ = status;
  }
  void FailAlways(const absl::Status& status) {
    MutexLock lock(&mutex_);
    failure_ = status;
  }
  // Called when a reading begins, without the lock.
  void OnRead(std::function<void()> hook) {
    MutexLock lock(&mutex_);
    hook_ = std::move(hook);
  }
  int calls() const {
    MutexLock lock(&mutex_);
    return calls_;
  }
  int64_t bytes() const {
    MutexLock lock(&mutex_);
    return bytes_;
  }

  absl::Status Read(const ArchiveName& archive, int64_t offset, absl::Duration /*timeout*/,
                    const Take& take) override {
    std::string content;
    std::function<void()> hook;
    int pieces = -1;
    absl::Status broken;
    {
      MutexLock lock(&mutex_);
      ++calls_;
      hook = hook_;
      if (!failure_.ok()) return failure_;
      const auto found = contents_.find(archive.digest);
      if (found == contents_.end()) return absl::NotFoundError("there is no archive " + archive.digest);
      content = found->second.substr(std::min<size_t>(offset, found->second.size()));
      std::swap(pieces, pieces_);
      std::swap(broken, broken_);
    }
    if (hook) hook();
    for (size_t sent = 0; sent < content.size(); sent += kPiece) {
      if (pieces-- == 0) return broken;
      const std::string piece = content.substr(sent, kPiece);
      if (absl::Status status = take(piece); !status.ok()) return status;
      MutexLock lock(&mutex_);
      bytes_ += static_cast<int64_t>(piece.size());
    }
    return absl::OkStatus();
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> contents_;
  int pieces_ = -1;
  absl::Status broken_;
  absl::Status failure_;
  std::function<void()> hook_;
  int calls_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_CODE_FAKE_CODE_SOURCE_H_
