// A disk below SQLite that fails where it is told to, and that knows what would be left after a loss of
// power.
//
// What is written to a file can be read at once, and is durable once the file was synced. As on Linux, a sync
// that fails drops what was to be written: the file can be read as before, the next sync succeeds, and after
// a crash those writes are gone.
//
// One at a time; SQLite uses it for all databases that are opened while it lives. Thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_STORE_DISK_MODEL_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_STORE_DISK_MODEL_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

class DiskModel {
 public:
  DiskModel();
  ~DiskModel();
  DiskModel(const DiskModel&) = delete;
  DiskModel& operator=(const DiskModel&) = delete;

  enum class Operation { kNone, kWrite, kTruncate, kSync, kCreate, kDelete };

  // Operation number `number` from now, counted from 1, fails. 0: none does.
  void FailAt(int number);
  // Which one it was. kNone: there were not so many.
  Operation failed() const;

  // Puts what a crash now would leave of the files in `from` into the folder `to`, which exists.
  void CrashInto(const std::string& from, const std::string& to) const;

  // For SQLite's functions: whether the operation fails.
  bool Fails(Operation operation);
  void Write(const std::string& path, int64_t offset, std::string bytes);
  void Truncate(const std::string& path, int64_t size);
  void Synced(const std::string& path, bool done);
  void Deleted(const std::string& path);

 private:
  struct Change {
    // Truncates the file to `offset` if there are no bytes.
    int64_t offset = 0;
    std::string bytes;
  };
  struct File {
    std::string durable;
    std::vector<Change> changes;
  };

  mutable Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_) = 0;
  Operation failed_ ABSL_GUARDED_BY(mutex_) = Operation::kNone;
  std::map<std::string, File> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_STORE_DISK_MODEL_H_
