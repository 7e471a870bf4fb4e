// Where the histories of jobs are kept: a database of its own, <folder>/history.sqlite, apart from the state. It may be lost
// without harm, so that nobody waits for it, and one that can't be read is set aside, and begun anew.
//
// It is open for as long as this process runs, but locked only while it is written to: a supervisor that takes over goes on
// with it, whatever became of the one before. Once in a while both may write; readers leave out what overlaps.
//
// Thread-safe: one connection writes and another one reads, each used by one thread at a time. Waits for the disk.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HISTORY_HISTORY_FILE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HISTORY_HISTORY_FILE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/history_service.pb.h"
#include "libs/base/mutex.h"
#include "services/supervisor/history/allocation_changes.h"
#include "services/supervisor/store/statements.h"

namespace adaptdl::supervisor {

// What is known of a job on disk, beside its points.
struct HistoryHead {
  absl::Duration resolution;
  AllocationChanges changes;
};

class HistoryFile {
 public:
  // Makes folder and file if need be. An error leaves everything as it was.
  static absl::StatusOr<std::unique_ptr<HistoryFile>> Open(const std::string& folder);
  // For a file that nobody uses: it goes out of the way, and says so in the log.
  static void SetAside(const std::string& folder, const absl::Status& why);

  // A part of a job's history that is to be written.
  struct Part {
    std::string uid;
    HistoryHead head;
    // Whether the head is that on disk already.
    bool same_head = false;
    // To be added, or, if it `replaces`, all that there is of the job.
    std::vector<v1::HistoryPoint> points;
    bool replaces = false;
    // For the caller, who finds them again: how many points there are then, when the last one ends, of which revision the changes
    // are, and whether there will be no more of the job.
    size_t points_then = 0;
    absl::Time end = absl::InfinitePast();
    int64_t revision = 0;
    bool is_last = false;
  };
  // All or nothing. DATA_LOSS: the file is damaged.
  absl::Status Write(const std::vector<Part>& parts, const std::vector<std::string>& deleted_uids);

  // By the connection that reads. Absent: nothing is there of this job. What of it can't be read is left out.
  absl::StatusOr<std::optional<HistoryHead>> ReadHead(const std::string& uid);
  absl::StatusOr<std::vector<v1::HistoryPoint>> ReadPoints(const std::string& uid);
  // Of all jobs.
  absl::StatusOr<std::vector<std::string>> ListUids();

 private:
  struct Connection {
    explicit Connection(Database opened) : database(std::move(opened)), statements(database.handle()) {}
    Database database;
    Statements statements;
  };

  HistoryFile(Database writer, Database reader) : writer_(std::move(writer)), reader_(std::move(reader)) {}
  absl::Status WriteAll(const std::vector<Part>& parts, const std::vector<std::string>& deleted_uids)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  absl::Status WritePart(const Part& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  absl::Status WriteHead(const Part& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  absl::Status Delete(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  absl::Status DeletePoints(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);

  Mutex writing_;
  Connection writer_ ABSL_GUARDED_BY(writing_);
  Mutex reading_;
  Connection reader_ ABSL_GUARDED_BY(reading_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HISTORY_HISTORY_FILE_H_
