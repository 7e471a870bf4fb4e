#include "tests/services/supervisor/store/disk_model.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

using Operation = DiskModel::Operation;

// Of the process: SQLite has one list of file systems.
DiskModel* model = nullptr;
sqlite3_vfs* real = nullptr;
sqlite3_vfs file_system;

// What SQLite allocates for an open file: ours, and behind it the real one.
struct File {
  sqlite3_file base;
  // SQLite's own copy, which lives as long as the file.
  const char* path;

  sqlite3_file* Real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* RealOf(sqlite3_file* file) { return Of(file)->Real(); }
std::string PathOf(sqlite3_file* file) { return Of(file)->path == nullptr ? "" : Of(file)->path; }

int Close(sqlite3_file* file) { return RealOf(file)->pMethods->xClose(RealOf(file)); }
int Read(sqlite3_file* file, void* bytes, int count, sqlite3_int64 offset) {
  return RealOf(file)->pMethods->xRead(RealOf(file), bytes, count, offset);
}
int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
  if (model->Fails(Operation::kWrite)) return SQLITE_IOERR_WRITE;
  model->Write(PathOf(file), offset, std::string(static_cast<const char*>(bytes), count));
  return RealOf(file)->pMethods->xWrite(RealOf(file), bytes, count, offset);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (model->Fails(Operation::kTruncate)) return SQLITE_IOERR_TRUNCATE;
  model->Truncate(PathOf(file), size);
  return RealOf(file)->pMethods->xTruncate(RealOf(file), size);
}
int Sync(sqlite3_file* file, int /*flags*/) {
  const bool fails = model->Fails(Operation::kSync);
  model->Synced(PathOf(file), !fails);
  return fails ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return RealOf(file)->pMethods->xFileSize(RealOf(file), size);
}
int Lock(sqlite3_file* file, int lock) { return RealOf(file)->pMethods->xLock(RealOf(file), lock); }
int Unlock(sqlite3_file* file, int lock) { return RealOf(file)->pMethods->xUnlock(RealOf(file), lock); }
int CheckReservedLock(sqlite3_file* file, int* result) {
  return RealOf(file)->pMethods->xCheckReservedLock(RealOf(file), result);
}
int FileControl(sqlite3_file* file, int operation, void* argument) {
  return RealOf(file)->pMethods->xFileControl(RealOf(file), operation, argument);
}
int SectorSize(sqlite3_file* file) { return RealOf(file)->pMethods->xSectorSize(RealOf(file)); }
// Nothing is promised: SQLite syncs whatever it may need to.
int Characteristics(sqlite3_file* /*file*/) { return 0; }

// Version 1: no shared memory and no mapping, which would go past this model.
const sqlite3_io_methods kMethods = {1,
                                     Close,
                                     Read,
                                     Write,
                                     Truncate,
                                     Sync,
                                     FileSize,
                                     Lock,
                                     Unlock,
                                     CheckReservedLock,
                                     FileControl,
                                     SectorSize,
                                     Characteristics,
                                     nullptr,
                                     nullptr,
                                     nullptr,
                                     nullptr,
                                     nullptr,
                                     nullptr};

int Open(sqlite3_vfs* /*vfs*/, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  const bool creates = (flags & SQLITE_OPEN_CREATE) != 0 && path != nullptr && !fs::exists(path);
  if (creates && model->Fails(Operation::kCreate)) return SQLITE_CANTOPEN;
  Of(file)->path = path;
  const int code = real->xOpen(real, path, RealOf(file), flags, out_flags);
  if (code == SQLITE_OK) file->pMethods = &kMethods;
  return code;
}

int Delete(sqlite3_vfs* /*vfs*/, const char* path, int sync_folder) {
  if (model->Fails(Operation::kDelete)) return SQLITE_IOERR_DELETE;
  const int code = real->xDelete(real, path, sync_folder);
  if (code == SQLITE_OK) model->Deleted(path);
  return code;
}

void Apply(int64_t offset, const std::string& bytes, std::string* content) {
  if (bytes.empty()) {
    content->resize(offset);
    return;
  }
  if (content->size() < offset + bytes.size()) content->resize(offset + bytes.size());
  content->replace(offset, bytes.size(), bytes);
}

}  // namespace

DiskModel::DiskModel() {
  model = this;
  real = sqlite3_vfs_find(nullptr);
  file_system = *real;
  file_system.zName = "adaptdl-disk-model";
  file_system.szOsFile = static_cast<int>(sizeof(File)) + real->szOsFile;
  file_system.xOpen = Open;
  file_system.xDelete = Delete;
  sqlite3_vfs_register(&file_system, /*makeDflt=*/1);
}

DiskModel::~DiskModel() {
  sqlite3_vfs_unregister(&file_system);
  sqlite3_vfs_register(real, /*makeDflt=*/1);
  model = nullptr;
}

void DiskModel::FailAt(int number) {
  MutexLock lock(&mutex_);
  left_ = number;
  failed_ = Operation::kNone;
}

DiskModel::Operation DiskModel::failed() const {
  MutexLock lock(&mutex_);
  return failed_;
}

bool DiskModel::Fails(Operation operation) {
  MutexLock lock(&mutex_);
  if (left_ == 0 || --left_ > 0) return false;
  failed_ = operation;
  return true;
}

void DiskModel::Write(const std::string& path, int64_t offset, std::string bytes) {
  MutexLock lock(&mutex_);
  files_[path].changes.push_back({offset, std::move(bytes)});
}

void DiskModel::Truncate(const std::string& path, int64_t size) {
  MutexLock lock(&mutex_);
  files_[path].changes.push_back({size, ""});
}

void DiskModel::Synced(const std::string& path, bool done) {
  MutexLock lock(&mutex_);
  File& file = files_[path];
  if (done) {
    for (const Change& change : file.changes) Apply(change.offset, change.bytes, &file.durable);
  }
  file.changes.clear();
}

void DiskModel::Deleted(const std::string& path) {
  MutexLock lock(&mutex_);
  files_.erase(path);
}

void DiskModel::CrashInto(const std::string& from, const std::string& to) const {
  MutexLock lock(&mutex_);
  for (const auto& [path, file] : files_) {
    if (fs::path(path).parent_path() != fs::path(from)) continue;
    std::ofstream(fs::path(to) / fs::path(path).filename(), std::ios::binary) << file.durable;
  }
}

}  // namespace adaptdl::supervisor
