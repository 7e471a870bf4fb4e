#include "services/supervisor/code/code_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/archive/digest.h"
#include "libs/base/file.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/files.h"
#include "libs/service/log.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr char kPart[] = ".part";
// Archives of a namespace, however small they are.
constexpr int kMostArchives = 10'000;
// What was touched so lately stays: a job that names it may be on its way.
constexpr absl::Duration kJustTouched = absl::Minutes(10);
// The time of a touch is written no more often.
constexpr absl::Duration kTouchPeriod = absl::Minutes(1);

absl::Status CheckKey(const CodeKey& key) {
  absl::Status status = jobspec::CheckDnsLabel("namespace", key.first);
  status.Update(jobspec::CheckDigest("digest", key.second));
  return status;
}

absl::Status SyncFolder(const std::string& path) {
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.valid() && fsync(folder.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
}

absl::Status NotLeading() { return absl::UnavailableError("another supervisor may lead by now; ask it"); }

// Moves `*offset` behind what was written.
absl::Status WriteAt(int file, absl::string_view data, int64_t* offset) {
  while (!data.empty()) {
    const ssize_t written = pwrite(file, data.data(), data.size(), *offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write the archive");
    *offset += written;
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("make the folder ", path));
}

}  // namespace

absl::Status NoCodeStore() {
  return absl::UnimplementedError(
      "this supervisor keeps no folders of jobs: its replicas are pods, and find what is in their image; "
      "\"adaptdl "
      "--kubernetes submit DIR\" builds one of the folder");
}

absl::StatusOr<std::unique_ptr<CodeStore>> CodeStore::Open(const CodeStoreOptions& options,
                                                           const Clock* clock, const LeaderLease* lease) {
  std::unique_ptr<CodeStore> store(new CodeStore(options, clock, lease));
  MutexLock lock(&store->mutex_);
  if (absl::Status status = store->Load(); !status.ok()) return status;
  return store;
}

absl::Status CodeStore::Load() {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  // What namespaces have is nobody else's business.
  if (error || chmod(options_.folder.c_str(), 0700) != 0) {
    return ErrnoStatus(error ? error.value() : errno, absl::StrCat("make the folder ", options_.folder));
  }
  for (fs::directory_iterator entry(options_.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (jobspec::IsDnsLabel(name)) LoadNamespace(name);
  }
  return error ? ErrnoStatus(error.value(), absl::StrCat("list ", options_.folder)) : absl::OkStatus();
}

void CodeStore::LoadNamespace(const std::string& name_space) {
  std::error_code error;
  for (fs::directory_iterator entry(absl::StrCat(options_.folder, "/", name_space), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    absl::string_view digest = name;
    const bool part = absl::ConsumeSuffix(&digest, kPart);
    struct stat info = {};
    if (!jobspec::CheckDigest("", digest).ok() || lstat(entry->path().c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    const CodeKey key = {name_space, std::string(digest)};
    const auto [known, is_new] = entries_.try_emplace(key);
    // A part beside the whole one is of no use, whichever is found first.
    if (!is_new && Leads()) unlink(PathOf(key, false).c_str());
    if (!is_new && part) continue;
    known->second = {.size = info.st_size,
                     .received = info.st_size,
                     .complete = !part,
                     .touched = absl::TimeFromTimespec(info.st_mtim)};
  }
}

std::string CodeStore::PathOf(const CodeKey& key, bool complete) const {
  return absl::StrCat(options_.folder, "/", key.first, "/", key.second, complete ? "" : kPart);
}

void CodeStore::Touch(const CodeKey& key, Entry* entry) {
  const absl::Time now = clock_->Now();
  if (now - entry->touched >= kTouchPeriod || now < entry->touched) Stamp(key, entry);
}

void CodeStore::Stamp(const CodeKey& key, Entry* entry) {
  entry->touched = clock_->Now();
  const timespec time = absl::ToTimespec(entry->touched);
  const timespec times[2] = {time, time};
  // Where this fails the archive may go earlier, after another start.
  if (utimensat(AT_FDCWD, PathOf(key, entry->complete).c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    log::Warning("the use of a job's archive can't be noted", {{"digest", key.second}});
  }
}

absl::StatusOr<CodeStore::Progress> CodeStore::Find(const CodeKey& key) {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return Progress{};
  Touch(key, &found->second);
  return Progress{.received = found->second.received, .complete = found->second.complete};
}

absl::Status CodeStore::CheckUpload(const CodeKey& key, int64_t size, int64_t offset) const {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  if (size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("size: ", size, ": give the size of the whole archive, in bytes"));
  }
  if (offset < 0 || offset > size) {
    return absl::OutOfRangeError(absl::StrCat("offset: ", offset, ": the archive has ", size,
                                              " bytes; begin where StatCode says that the upload is"));
  }
  if (size <= options_.max_archive_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "size: ", size, ": an archive has at most ", options_.max_archive_bytes,
      " bytes; leave files out by .adaptdlignore, or have the supervisor's --max-code-archive raised"));
}

absl::Status CodeStore::MakeRoom(const CodeKey& key, int64_t size) {
  int64_t bytes = size;
  int count = 1;
  // Those that may go, in the order in which they do: first what no job names, what was touched long ago before the rest.
  std::vector<std::tuple<bool, absl::Time, CodeKey>> spare;
  for (auto entry = entries_.lower_bound({key.first, ""});
       entry != entries_.end() && entry->first.first == key.first; ++entry) {
    if (entry->first == key) continue;
    bytes += entry->second.size;
    ++count;
    if (needed_.contains(entry->first) || IsInUse(entry->second)) continue;
    spare.emplace_back(named_.contains(entry->first), entry->second.touched, entry->first);
  }
  std::sort(spare.begin(), spare.end());
  const auto fits = [&] { return bytes <= options_.max_namespace_bytes && count <= kMostArchives; };
  size_t going = 0;
  for (; going < spare.size() && !fits(); ++going, --count)
    bytes -= entries_.at(std::get<CodeKey>(spare[going])).size;
  // What would not be enough is not taken away.
  if (!fits()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the archives of namespace \"", key.first, "\" that jobs need would have ", bytes, " bytes in ",
        count, " archives with this one, and may have ", options_.max_namespace_bytes, " in ", kMostArchives,
        ": wait until jobs of it have finished, or have the supervisor's --max-code-per-namespace raised"));
  }
  for (size_t i = 0; i < going; ++i) {
    const CodeKey& old = std::get<CodeKey>(spare[i]);
    log::Info("the archive of a folder goes, as its namespace needs the room",
              {{"namespace", old.first}, {"digest", old.second}});
    Remove(old);
  }
  return absl::OkStatus();
}

bool CodeStore::IsInUse(const Entry& entry) const {
  return entry.writing || clock_->Now() - entry.touched < kJustTouched;
}

absl::StatusOr<std::unique_ptr<CodeStore::Upload>> CodeStore::Begin(const CodeKey& key, int64_t size,
                                                                    int64_t offset) {
  if (absl::Status status = CheckUpload(key, size, offset); !status.ok()) return status;
  auto upload = std::make_unique<Upload>();
  upload->key_ = key;
  upload->size_ = size;
  MutexLock lock(&mutex_);
  if (!Leads()) return NotLeading();
  auto found = AwaitWriter(key);
  if (found != entries_.end() && found->second.complete) {
    upload->size_ = found->second.size;
    Touch(key, &found->second);
    return upload;
  }
  const bool is_new = found == entries_.end();
  const int64_t received = is_new ? 0 : found->second.received;
  if (received != offset) {
    return absl::AbortedError(
        absl::StrCat("offset: ", offset, ": ", received, " bytes of the archive are there; go on from that"));
  }
  absl::Status status = MakeRoom(key, size);
  if (status.ok()) status = MakeFolder(absl::StrCat(options_.folder, "/", key.first));
  if (!status.ok()) return status;
  upload->file_.Reset(open(PathOf(key, false).c_str(),
                           O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (is_new ? O_TRUNC : 0), 0600));
  if (!upload->file_.valid()) return ErrnoStatus(errno, "open the archive");
  Entry& entry = entries_[key];
  entry.size = size;
  entry.touched = clock_->Now();
  upload->number_ = entry.number = ++uploads_;
  upload->received_ = offset;
  return upload;
}

std::map<CodeKey, CodeStore::Entry>::iterator CodeStore::AwaitWriter(const CodeKey& key) {
  auto found = entries_.find(key);
  // Not for long: a piece is being written, or an archive's digest checked.
  for (; found != entries_.end() && found->second.writing; found = entries_.find(key)) changed_.Wait(&mutex_);
  return found;
}

absl::Status CodeStore::BeginWriting(const Upload& upload) {
  MutexLock lock(&mutex_);
  if (!Leads()) return NotLeading();
  const auto found = entries_.find(upload.key_);
  if (found == entries_.end() || found->second.number != upload.number_) {
    return absl::AbortedError("another upload of the same archive goes on with it; ask where it is");
  }
  found->second.writing = true;
  return absl::OkStatus();
}

// Nobody else changes or removes an entry that is being written.
void CodeStore::EndWriting(const Upload& upload, bool complete) {
  MutexLock lock(&mutex_);
  Entry& entry = entries_.at(upload.key_);
  entry.writing = false;
  entry.received = upload.received_;
  entry.complete = complete;
  Stamp(upload.key_, &entry);
  changed_.SignalAll();
}

absl::Status CodeStore::Append(Upload* upload, absl::string_view data) {
  if (upload->received_ + static_cast<int64_t>(data.size()) > upload->size_) {
    return absl::OutOfRangeError(absl::StrCat("data: goes beyond the archive's size, ", upload->size_,
                                              " bytes; give the size that it has"));
  }
  if (absl::Status status = BeginWriting(*upload); !status.ok()) return status;
  const absl::Status status = WriteAt(upload->file_.get(), data, &upload->received_);
  EndWriting(*upload, /*complete=*/false);
  return status;
}

absl::StatusOr<CodeStore::Progress> CodeStore::Finish(Upload* upload) {
  if (upload->complete()) return Progress{.received = upload->size_, .complete = true};
  if (upload->received_ < upload->size_) return Progress{.received = upload->received_, .complete = false};
  if (absl::Status status = BeginWriting(*upload); !status.ok()) return status;
  const absl::Status status = Keep(*upload);
  EndWriting(*upload, status.ok());
  if (status.ok()) return Progress{.received = upload->size_, .complete = true};
  if (absl::IsInvalidArgument(status)) {
    MutexLock lock(&mutex_);
    Remove(upload->key_);
  }
  return status;
}

absl::Status CodeStore::Keep(const Upload& upload) const {
  const CodeKey& key = upload.key_;
  const std::string part = PathOf(key, false);
  if (fsync(upload.file_.get()) != 0) return ErrnoStatus(errno, "sync the archive");
  const absl::StatusOr<std::string> digest = archive::DigestOfFile(part);
  if (!digest.ok()) return digest.status();
  if (*digest != key.second) {
    return absl::InvalidArgumentError(absl::StrCat("digest: \"", key.second,
                                                   "\": what has come has the digest ", *digest,
                                                   "; it is dropped: upload it anew"));
  }
  if (!Leads()) return NotLeading();
  if (rename(part.c_str(), PathOf(key, true).c_str()) != 0) return ErrnoStatus(errno, "keep the archive");
  absl::Status status = SyncFolder(absl::StrCat(options_.folder, "/", key.first));
  status.Update(SyncFolder(options_.folder));
  return status;
}

absl::StatusOr<CodeStore::Whole> CodeStore::OpenWhole(const CodeKey& key) {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second.complete) {
    return absl::NotFoundError(absl::StrCat("there is no archive ", key.second, " in namespace \"", key.first,
                                            "\": submit the job again, which uploads its folder"));
  }
  Touch(key, &found->second);
  Whole whole = {.file = UniqueFd(open(PathOf(key, true).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)),
                 .size = found->second.size};
  if (whole.file.valid()) return whole;
  const int error = errno;
  // Somebody has taken it away.
  if (error == ENOENT) entries_.erase(found);
  return ErrnoStatus(error, absl::StrCat("open the archive ", key.second));
}

absl::Status CodeStore::Require(const std::string& name_space, const v1::CodeArchive& code) {
  const CodeKey key = {name_space, code.digest()};
  const absl::StatusOr<Whole> whole = OpenWhole(key);
  if (whole.ok() && whole->size == code.size()) return absl::OkStatus();
  if (whole.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.template.code.size: ", code.size(), ": the archive has ", whole->size, " bytes"));
  }
  if (!absl::IsNotFound(whole.status())) return whole.status();
  return absl::FailedPreconditionError(absl::StrCat(
      "spec.template.code.digest: \"", code.digest(), "\": no such archive is in namespace \"", name_space,
      "\"; upload it first (CodeService.UploadCode), as \"adaptdl submit DIR\" does"));
}

void CodeStore::Remove(const CodeKey& key) {
  if (!Leads()) return;
  for (const bool complete : {true, false}) unlink(PathOf(key, complete).c_str());
  // Fails, as it should, unless it is empty.
  rmdir(absl::StrCat(options_.folder, "/", key.first).c_str());
  entries_.erase(key);
}

void CodeStore::Drop(const CodeKey& key) {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second.complete) return;
  log::Error("the archive of a folder is damaged, and goes: the job has to be submitted again",
             {{"namespace", key.first}, {"digest", key.second}});
  Remove(key);
}

void CodeStore::Collect(std::set<CodeKey> named, std::set<CodeKey> needed) {
  MutexLock lock(&mutex_);
  named_ = std::move(named);
  needed_ = std::move(needed);
  const absl::Time now = clock_->Now();
  std::vector<CodeKey> old;
  for (const auto& [key, entry] : entries_) {
    if (named_.contains(key) || IsInUse(entry) || now - entry.touched < options_.keep) continue;
    old.push_back(key);
  }
  for (const CodeKey& key : old) {
    log::Info("the archive of a folder goes, which no job names any more",
              {{"namespace", key.first}, {"digest", key.second}});
    Remove(key);
  }
}

}  // namespace adaptdl::supervisor
