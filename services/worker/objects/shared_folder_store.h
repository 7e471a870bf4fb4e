// Jobs' folders in a file system that all nodes share: the folder is the store.
//
// Thread-safe, also between nodes.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_SHARED_FOLDER_STORE_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_SHARED_FOLDER_STORE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "services/worker/objects/job_store.h"

namespace adaptdl::worker {

class SharedFolderStore final : public JobStore {
 public:
  // `checkpoint_folder`: of a job's folder.
  explicit SharedFolderStore(std::string checkpoint_folder = "checkpoint")
      : checkpoint_folder_(std::move(checkpoint_folder)) {}

  absl::Status Enter(const Job& /*job*/, const std::string& /*replica_id*/,
                     const std::function<void()>& /*progress*/) override {
    return absl::OkStatus();
  }
  absl::Status FetchStart(const Job& job, const Job& source, const std::function<void()>& progress) override;
  void Adopt(const Job& /*job*/, const std::string& /*replica_id*/) override {}
  absl::Status Leave(const std::string& /*job*/, const std::string& /*replica_id*/, bool /*save*/) override {
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& /*job*/) override { return absl::OkStatus(); }
  void SetErrorSink(ErrorSink /*sink*/) override {}

 private:
  const std::string checkpoint_folder_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_SHARED_FOLDER_STORE_H_
