// The part of a made-up supervisor that keeps archives, and breaks uploads when a test asks for it. Thread-safe.

#ifndef ADAPTDL_TESTS_CLI_FAKE_CODE_SERVICE_H_
#define ADAPTDL_TESTS_CLI_FAKE_CODE_SERVICE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "adaptdl/v1/code_service.grpc.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::cli {

class FakeCodeService final : public v1::CodeService::Service {
 public:
  // The next upload ends with UNAVAILABLE when this many bytes have come.
  void BreakNextAfter(int64_t bytes);
  void SetLimit(int64_t bytes);
  // As if this had come before.
  void Put(const std::string& digest, const std::string& bytes);

  // By digest, as far as it has come.
  std::map<std::string, std::string> archives() const;
  // Where each upload began.
  std::vector<int64_t> offsets() const;
  // Namespace of the last call.
  std::string name_space() const;

  grpc::Status StatCode(grpc::ServerContext*, const v1::StatCodeRequest*, v1::StatCodeResponse*) override;
  // An archive that does not have the digest when all is there is void.
  grpc::Status UploadCode(grpc::ServerContext*, grpc::ServerReader<v1::UploadCodeRequest>*,
                          v1::UploadCodeResponse*) override;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> archives_ ABSL_GUARDED_BY(mutex_);
  // Of those whose end was seen.
  std::map<std::string, int64_t> sizes_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> offsets_ ABSL_GUARDED_BY(mutex_);
  std::string name_space_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> break_after_ ABSL_GUARDED_BY(mutex_);
  int64_t limit_ ABSL_GUARDED_BY(mutex_) = int64_t{1} << 30;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_FAKE_CODE_SERVICE_H_
