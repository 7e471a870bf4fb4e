// Where nodes get the archives of jobs' folders from: CodeService of the supervisor, whichever of several leads.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_CODE_CODE_SOURCE_H_
#define ADAPTDL_SERVICES_WORKER_CODE_CODE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/rpc/endpoints.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace adaptdl::worker {

struct ArchiveName {
  // Both checked: they become parts of paths.
  std::string name_space;
  std::string digest;
  // Of the archive, in bytes.
  int64_t size = 0;

  bool operator<(const ArchiveName& other) const {
    return std::tie(name_space, digest) < std::tie(other.name_space, other.digest);
  }
};

class CodeSource {
 public:
  virtual ~CodeSource() = default;

  // Gets the pieces, in order. An error ends the reading, which then returns it.
  using Take = std::function<absl::Status(absl::string_view data)>;
  // Reads an archive from `offset` on, until its end, or for as long as `timeout`. One attempt: after an error that may
  // pass, read on from where it ended. NOT_FOUND, DATA_LOSS: it is not there, or was damaged there.
  virtual absl::Status Read(const ArchiveName& archive, int64_t offset, absl::Duration timeout,
                            const Take& take) = 0;
};

class RemoteCodeSource final : public CodeSource {
 public:
  explicit RemoteCodeSource(std::unique_ptr<rpc::Endpoints> supervisors)
      : supervisors_(std::move(supervisors)) {}

  absl::Status Read(const ArchiveName& archive, int64_t offset, absl::Duration timeout,
                    const Take& take) override;

  // Ends what is being read, and all that would be: CANCELLED.
  void Shutdown();

 private:
  absl::Status ReadFrom(const rpc::Endpoint& supervisor, const ArchiveName& archive, int64_t offset,
                        absl::Duration timeout, const Take& take);
  // Whether the call may begin.
  bool Enter(grpc::ClientContext* context);
  void Leave(grpc::ClientContext* context);

  const std::unique_ptr<rpc::Endpoints> supervisors_;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_CODE_CODE_SOURCE_H_
