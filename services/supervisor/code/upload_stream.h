// One UploadCode call: each piece is written before the next one is read, so that a stream holds one of them. Ends with
// how much there is, also when the client leaves off in the middle.
//
// Thread-safe. Keeps itself alive until gRPC is done with it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CODE_UPLOAD_STREAM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CODE_UPLOAD_STREAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/code_service.pb.h"
#include "grpcpp/support/server_callback.h"
#include "libs/base/mutex.h"
#include "services/supervisor/calls/executor.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/code/code_store.h"

namespace adaptdl::supervisor {

class UploadStream final : public grpc::ServerReadReactor<v1::UploadCodeRequest>, public EndableStream {
 public:
  // Whether the caller may upload to a namespace. May wait.
  using Check = std::function<absl::Status(const std::string& name_space)>;

  // `store` (null: there is none, which is told to those who might have used it) and `executor` outlive the stream, and `response` lasts until it ends. Work is done on the executor in the
  // name of `caller`.
  UploadStream(CodeStore* store, Executor* executor, std::string caller, Check check,
               v1::UploadCodeResponse* response)
      : store_(store),
        executor_(executor),
        caller_(std::move(caller)),
        check_(std::move(check)),
        response_(response) {}

  // `place`: among the caller's streams; kept until the end.
  void Begin(std::shared_ptr<void> place);

  void End(const grpc::Status& status) override;
  // Ends it if nothing has come for `patience`, so that nobody holds a place for nothing.
  void CheckReader(absl::Time now, absl::Duration patience) override;

  void OnReadDone(bool ok) override;
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override;

 private:
  bool ended();
  // On the executor, one after the other.
  void Take();
  absl::Status TakePiece();
  void Close();

  CodeStore* const store_;
  Executor* const executor_;
  const std::string caller_;
  const Check check_;
  v1::UploadCodeResponse* const response_;
  // Of whoever deals with a piece, or gRPC, which reads the next one.
  v1::UploadCodeRequest piece_;
  std::unique_ptr<CodeStore::Upload> upload_;

  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether gRPC reads, and since when it was seen to.
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Time> reads_since_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<EndableStream> self_;
  std::shared_ptr<void> place_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CODE_UPLOAD_STREAM_H_
