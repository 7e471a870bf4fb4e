#include "tests/cli/fake_code_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/archive/digest.h"

namespace adaptdl::cli {

void FakeCodeService::BreakNextAfter(int64_t bytes) {
  MutexLock lock(&mutex_);
  break_after_ = bytes;
}

void FakeCodeService::SetLimit(int64_t bytes) {
  MutexLock lock(&mutex_);
  limit_ = bytes;
}

void FakeCodeService::Put(const std::string& digest, const std::string& bytes) {
  MutexLock lock(&mutex_);
  archives_[digest] = bytes;
  sizes_.erase(digest);
}

std::map<std::string, std::string> FakeCodeService::archives() const {
  MutexLock lock(&mutex_);
  return archives_;
}

std::vector<int64_t> FakeCodeService::offsets() const {
  MutexLock lock(&mutex_);
  return offsets_;
}

std::string FakeCodeService::name_space() const {
  MutexLock lock(&mutex_);
  return name_space_;
}

grpc::Status FakeCodeService::StatCode(grpc::ServerContext*, const v1::StatCodeRequest* request,
                                       v1::StatCodeResponse* response) {
  MutexLock lock(&mutex_);
  name_space_ = request->namespace_();
  const auto archive = archives_.find(request->digest());
  response->set_limit(limit_);
  if (archive == archives_.end()) return grpc::Status::OK;
  response->set_received(static_cast<int64_t>(archive->second.size()));
  response->set_complete(sizes_.contains(request->digest()));
  return grpc::Status::OK;
}

grpc::Status FakeCodeService::UploadCode(grpc::ServerContext*,
                                         grpc::ServerReader<v1::UploadCodeRequest>* reader,
                                         v1::UploadCodeResponse* response) {
  v1::UploadCodeRequest first;
  v1::UploadCodeRequest piece;
  if (!reader->Read(&first)) return {grpc::StatusCode::INVALID_ARGUMENT, "no piece has come"};
  piece = first;
  do {
    MutexLock lock(&mutex_);
    std::string& archive = archives_[first.digest()];
    if (piece.size() != 0) {
      offsets_.push_back(piece.offset());
      if (piece.offset() != static_cast<int64_t>(archive.size()))
        return {grpc::StatusCode::ABORTED, "elsewhere"};
    }
    archive += piece.data();
    if (break_after_.has_value() && static_cast<int64_t>(archive.size()) >= *break_after_) {
      break_after_.reset();
      return {grpc::StatusCode::UNAVAILABLE, "injected"};
    }
  } while (reader->Read(&piece));
  MutexLock lock(&mutex_);
  const std::string& archive = archives_[first.digest()];
  response->set_received(static_cast<int64_t>(archive.size()));
  if (response->received() < first.size()) return grpc::Status::OK;
  archive::Digester digester;
  digester.Add(archive);
  if (digester.Finish() != first.digest()) {
    archives_.erase(first.digest());
    return {grpc::StatusCode::INVALID_ARGUMENT, "the archive has another digest"};
  }
  sizes_[first.digest()] = first.size();
  response->set_complete(true);
  return grpc::Status::OK;
}

}  // namespace adaptdl::cli
