// One DownloadCode call: sends the archive piece by piece, from where it was asked for. One that is sent from its beginning
// is checked on the way: DATA_LOSS at its end says that it was damaged, and has been removed. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CODE_DOWNLOAD_STREAM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CODE_DOWNLOAD_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "adaptdl/v1/code_service.pb.h"
#include "libs/archive/digest.h"
#include "services/supervisor/calls/pull_reactor.h"
#include "services/supervisor/code/code_store.h"

namespace adaptdl::supervisor {

class DownloadStream final : public PullReactor<v1::DownloadCodeResponse> {
 public:
  // None is owned.
  DownloadStream(CodeStore* store, Executor* executor, GroupCommit* durability, std::string caller,
                 CodeKey key, int64_t offset)
      : PullReactor(executor, durability, std::move(caller)),
        store_(store),
        key_(std::move(key)),
        offset_(offset) {}

 protected:
  Pull Next(v1::DownloadCodeResponse* message, grpc::Status* end) override;

 private:
  absl::Status Open();
  absl::Status ReadPiece(v1::DownloadCodeResponse* message);
  // At the end.
  absl::Status CheckDigest();
  absl::Status Damaged();

  CodeStore* const store_;
  const CodeKey key_;
  int64_t offset_;
  // Open from the first message on: it can be read to its end, also if it goes meanwhile.
  CodeStore::Whole whole_;
  // Of what was sent. None: not from the beginning.
  std::optional<archive::Digester> digester_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CODE_DOWNLOAD_STREAM_H_
