#include "services/supervisor/kubernetes/logs/kept_logs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"
#include "libs/base/utf8.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 4096;
constexpr char kSuffix[] = ".log";
constexpr char kUnfinished[] = ".new";
// Of the first line, and of what it says of an error.
constexpr size_t kMaxHead = 8192;
constexpr size_t kMaxError = 1000;

// Uids of objects and names of pods are such.
bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= 253 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_'; });
}

absl::Status CheckNames(const std::string& job_uid, const std::string& replica_id) {
  if (IsName(job_uid) && IsName(replica_id)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("replica \"", replica_id, "\" of job \"", job_uid, "\": no names of objects"));
}

int64_t Blocks(int64_t bytes) { return std::max(bytes, kBlock); }

// Owner only.
absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) fs::permissions(path, fs::perms::owner_all, error);
  if (error) return ErrnoStatus(error.value(), path);
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, const std::string& content) {
  const std::string unfinished = path + kUnfinished;
  std::ofstream file(unfinished, std::ios::binary);
  file << content;
  file.close();
  std::error_code error;
  if (file) fs::rename(unfinished, path, error);
  if (file && !error) return absl::OkStatus();
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  return absl::UnavailableError(absl::StrCat(path, " can't be written"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeptLogs>> KeptLogs::Create(const std::string& folder,
                                                           KeptLogsOptions options) {
  if (const absl::Status status = MakeFolder(folder); !status.ok()) return status;
  std::unique_ptr<KeptLogs> logs(new KeptLogs(folder, options));
  if (const absl::Status status = logs->Scan(); !status.ok()) return status;
  return logs;
}

std::string KeptLogs::PathOf(const std::string& job_uid, const std::string& replica_id) const {
  return absl::StrCat(folder_, "/", job_uid, "/", replica_id, kSuffix);
}

absl::Status KeptLogs::Scan() {
  struct Found {
    fs::file_time_type time;
    std::string job;
    std::string replica;
    int64_t bytes;
  };
  std::vector<Found> found;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder_, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    const fs::path path = entry->path();
    std::error_code gone;
    if (path.extension() == kUnfinished) fs::remove(path, gone);
    if (path.extension() != kSuffix || !entry->is_regular_file(gone)) continue;
    found.push_back({entry->last_write_time(gone), path.parent_path().filename(), path.stem(),
                     static_cast<int64_t>(entry->file_size(gone))});
  }
  if (error) return ErrnoStatus(error.value(), folder_);
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.time < b.time; });
  MutexLock lock(&mutex_);
  for (const Found& file : found) {
    if (CheckNames(file.job, file.replica).ok()) Note(file.job, file.replica, file.bytes);
  }
  return absl::OkStatus();
}

void KeptLogs::Note(const std::string& job_uid, const std::string& replica_id, int64_t bytes) {
  Forget(job_uid, replica_id);
  Job& job = jobs_[job_uid];
  job.files[replica_id] = {.bytes = Blocks(bytes), .turn = next_turn_};
  job.turns[next_turn_++] = replica_id;
  job.bytes += Blocks(bytes);
  bytes_ += Blocks(bytes);
}

void KeptLogs::Forget(const std::string& job_uid, const std::string& replica_id) {
  const auto job = jobs_.find(job_uid);
  if (job == jobs_.end()) return;
  const auto file = job->second.files.find(replica_id);
  if (file == job->second.files.end()) return;
  job->second.bytes -= file->second.bytes;
  bytes_ -= file->second.bytes;
  job->second.turns.erase(file->second.turn);
  job->second.files.erase(file);
  if (job->second.files.empty()) jobs_.erase(job);
}

void KeptLogs::Delete(const std::string& job_uid, const std::string& replica_id) {
  std::error_code ignored;
  fs::remove(PathOf(job_uid, replica_id), ignored);
  Forget(job_uid, replica_id);
}

void KeptLogs::Shrink(const std::string& job_uid) {
  while (jobs_.count(job_uid) > 0 && jobs_[job_uid].bytes > options_.job_bytes) {
    Delete(job_uid, std::string(jobs_[job_uid].turns.begin()->second));
  }
  while (bytes_ > options_.all_bytes) {
    const auto oldest = std::min_element(jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
      return a.second.turns.begin()->first < b.second.turns.begin()->first;
    });
    Delete(std::string(oldest->first), std::string(oldest->second.turns.begin()->second));
  }
}

absl::Status KeptLogs::Put(const std::string& job_uid, const std::string& replica_id, const KeptLog& log) {
  absl::Status status = CheckNames(job_uid, replica_id);
  if (status.ok()) status = MakeFolder(absl::StrCat(folder_, "/", job_uid));
  if (!status.ok()) return status;
  const kube::Json head = {{"beginning_is_missing", log.beginning_is_missing},
                           {"error", ToUtf8(log.error, kMaxError)}};
  const std::string content = absl::StrCat(kube::Dump(head), "\n", log.text);
  status = WriteFile(PathOf(job_uid, replica_id), content);
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  Note(job_uid, replica_id, static_cast<int64_t>(content.size()));
  Shrink(job_uid);
  return absl::OkStatus();
}

absl::StatusOr<KeptLogFile> KeptLogs::Open(const std::string& job_uid, const std::string& replica_id) const {
  if (!Has(job_uid, replica_id)) {
    return absl::NotFoundError(absl::StrCat("nothing of the output of replica ", replica_id, " is kept"));
  }
  KeptLogFile file;
  file.text.open(PathOf(job_uid, replica_id), std::ios::binary);
  char line[kMaxHead] = {};
  file.text.getline(line, sizeof(line));
  const absl::StatusOr<kube::Json> head = kube::ParseJson(line);
  if (!file.text || !head.ok()) {
    return absl::DataLossError(absl::StrCat(PathOf(job_uid, replica_id), " is not as it was written"));
  }
  file.beginning_is_missing = kube::BoolAt(*head, {"beginning_is_missing"});
  file.error = kube::TextAt(*head, {"error"});
  return file;
}

bool KeptLogs::Has(const std::string& job_uid, const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_uid);
  return job != jobs_.end() && job->second.files.count(replica_id) > 0;
}

void KeptLogs::Sweep(const std::function<bool(const std::string& job_uid)>& job_is_there) {
  std::vector<std::string> uids;
  {
    MutexLock lock(&mutex_);
    for (const auto& [uid, job] : jobs_) uids.push_back(uid);
  }
  std::erase_if(uids, job_is_there);
  MutexLock lock(&mutex_);
  for (const std::string& uid : uids) {
    while (jobs_.count(uid) > 0) Delete(uid, std::string(jobs_[uid].files.begin()->first));
    std::error_code ignored;
    fs::remove(absl::StrCat(folder_, "/", uid), ignored);
  }
}

int64_t KeptLogs::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace adaptdl::supervisor
