// Where jobs' checkpoints and results are when no replica uses them: in a folder that all nodes share, or in an object store.
//
//   Enter() ──▶ the replica runs; checkpoints are saved meanwhile ──▶ Leave()
//
// All implementations are thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_JOB_STORE_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_JOB_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "services/worker/objects/local_files.h"

namespace adaptdl::worker {

// Of the job's folder: what it begins with.
inline constexpr char kStartFolder[] = "start";

class JobStore {
 public:
  struct Job {
    // "<namespace>/<job>-<uid>"; its parts have been checked.
    std::string name;
    // Absolute; holds the folders of checkpoints and results.
    std::string folder;
    std::optional<FileOwner> owner = std::nullopt;
    // Of the replica that starts.
    int64_t group = 0;
  };
  // Why checkpoints of the job (by name) can't be saved. Empty: they can again.
  using ErrorSink = std::function<void(const std::string& job, const std::string& error)>;

  virtual ~JobStore() = default;

  // Before the replica starts: its folders, which are there, hold what other nodes have left. `progress` is called while that
  // makes some. An error: the replica must not start, and is not known.
  virtual absl::Status Enter(const Job& job, const std::string& replica_id,
                             const std::function<void()>& progress) = 0;

  // After Enter(): the job's kStartFolder holds what the newest checkpoint of the job `source` is; it was not there. NOT_FOUND: the
  // other job has none.
  virtual absl::Status FetchStart(const Job& job, const Job& source,
                                  const std::function<void()>& progress) = 0;

  // One that an earlier worker has started, and that runs.
  virtual void Adopt(const Job& job, const std::string& replica_id) = 0;

  // The replica's process has ended, or never was (`save` false: nothing of it is wanted). Returns when what it left is kept, or
  // why it could not be: then what was saved before counts. May take as long as an upload may.
  virtual absl::Status Leave(const std::string& job, const std::string& replica_id, bool save) = 0;

  // Removes what is kept of the job elsewhere than in its folder.
  virtual absl::Status Remove(const std::string& job) = 0;

  // Called without locks. None: nobody is told.
  virtual void SetErrorSink(ErrorSink sink) = 0;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_JOB_STORE_H_
