#include "services/worker/objects/data_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/file.h"
#include "libs/objectstore/digest.h"
#include "nlohmann/json.hpp"
#include "services/worker/objects/local_files.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

using objectstore::ObjectInfo;
using objectstore::ObjectStore;
using objectstore::S3Location;

constexpr char kViews[] = ".views";
constexpr char kRecordSuffix[] = ".json";
constexpr char kPartMark[] = ".part-";
constexpr size_t kDigestDigits = 32;
constexpr int64_t kMaxRecordBytes = 64 << 10;
// How often those that wait for somebody else's fetch look.
constexpr absl::Duration kFetchWaitStep = absl::Milliseconds(200);

absl::Status MakeFolders(const std::string& path, mode_t mode) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make ", path));
  if (chmod(path.c_str(), mode) != 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return absl::OkStatus();
}

// For the group to read, if there is one, and for nobody to write.
absl::Status OpenTo(const std::optional<gid_t>& group, const std::string& path) {
  if (!group.has_value()) return absl::OkStatus();
  const auto give = [&](const std::string& entry, mode_t mode) {
    return lchown(entry.c_str(), static_cast<uid_t>(-1), *group) == 0 && chmod(entry.c_str(), mode) == 0
               ? absl::OkStatus()
               : ErrnoStatus(errno, absl::StrCat("give ", entry, " to group ", *group));
  };
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const absl::Status status = give(entry->path().string(), entry->is_directory() ? 0750 : 0440);
    if (!status.ok()) return status;
  }
  return give(path, 0750);
}

bool IsWithin(absl::string_view prefix, absl::string_view outer) {
  return outer.empty() || prefix == outer || absl::StartsWith(prefix, absl::StrCat(outer, "/"));
}

// What the data set's folder is called: by its URL and what is there now.
std::string NameOfState(const std::string& url, const std::map<std::string, ObjectInfo>& objects) {
  objectstore::Sha256 sum;
  sum.Update(absl::StrCat(url, "\n"));
  for (const auto& [path, object] : objects)
    sum.Update(absl::StrCat(path, "\n", object.size, " ", object.etag, "\n"));
  return sum.Hex().substr(0, kDigestDigits);
}

}  // namespace

std::string DataViewOf(const std::string& folder, const std::string& replica_id) {
  return absl::StrCat(folder, "/", kViews, "/", replica_id);
}

absl::StatusOr<std::string> DataCache::Acquire(const Request& request,
                                               const std::function<void()>& progress) {
  const std::string view = DataViewOf(options_.folder, request.replica_id);
  absl::Status status = MakeFolders(options_.folder, 0711);
  status.Update(MakeFolders(absl::StrCat(options_.folder, "/", kViews), 0711));
  std::error_code error;
  fs::remove_all(view, error);
  status.Update(MakeFolders(view, 0755));
  for (const DataSetSource& set : request.sets) {
    if (!status.ok()) break;
    const absl::StatusOr<std::string> path = Provide(request, set, progress);
    if (path.ok()) {
      fs::create_directory_symlink(*path, absl::StrCat(view, "/", set.name), error);
      if (error) status = ErrnoStatus(error.value(), absl::StrCat("link the data set \"", set.name, "\""));
    } else {
      status = absl::Status(path.status().code(),
                            absl::StrCat("data set \"", set.name, "\": ", path.status().message()));
    }
  }
  if (status.ok()) return view;
  Release(request.replica_id);
  return status;
}

absl::StatusOr<std::string> DataCache::Provide(const Request& request, const DataSetSource& set,
                                               const std::function<void()>& progress) {
  absl::string_view shared = set.url;
  if (absl::ConsumePrefix(&shared, "file://")) {
    std::error_code error;
    if (absl::StartsWith(shared, "/") && fs::is_directory(std::string(shared), error))
      return std::string(shared);
    return absl::NotFoundError(absl::StrCat("there is no folder ", shared, " on this node"));
  }
  const absl::StatusOr<S3Location> location = objectstore::ParseS3Url("url", set.url);
  if (!location.ok()) return location.status();
  if (options_.jobs.has_value() && options_.jobs->bucket == location->bucket &&
      (IsWithin(location->prefix, options_.jobs->prefix) ||
       IsWithin(options_.jobs->prefix, location->prefix))) {
    return absl::PermissionDeniedError(
        absl::StrCat("\"", set.url, "\" is where the files of all jobs are: put data elsewhere"));
  }
  const absl::StatusOr<ObjectStore*> store = open_(location->bucket);
  if (!store.ok()) return store.status();
  const absl::StatusOr<Listing> listing = List(**store, *location);
  if (!listing.ok()) return listing.status();
  const std::string path =
      absl::StrCat(options_.folder, "/", request.job_namespace, "/", NameOfState(set.url, listing->objects));
  {
    MutexLock lock(&mutex_);
    uses_[path].insert(request.replica_id);
    while (busy_.contains(path)) {
      progress();
      changed_.WaitFor(&mutex_, kFetchWaitStep);
    }
    std::error_code error;
    if (fs::exists(path + kRecordSuffix, error)) {
      const absl::Status status = WriteRecord(path, set.url, listing->bytes);  // it was asked for now
      if (!status.ok()) return status;
      return path;
    }
    RemoveParts(path);
    if (const absl::Status status = MakeRoom(listing->bytes); !status.ok()) return status;
    busy_[path] = listing->bytes;
  }
  const absl::Cleanup done = [&] {
    MutexLock lock(&mutex_);
    busy_.erase(path);
    changed_.SignalAll();
  };
  const absl::Status status = Fetch(request, set.url, path, *listing, **store, progress);
  if (!status.ok()) return status;
  return path;
}

absl::StatusOr<DataCache::Listing> DataCache::List(ObjectStore& store, const S3Location& location) const {
  Listing listing;
  const std::string prefix = location.prefix.empty() ? "" : absl::StrCat(location.prefix, "/");
  const absl::Status status = store.List(
      prefix,
      [&](const ObjectInfo& object) -> absl::Status {
        const std::string path(absl::StripPrefix(object.key, prefix));
        if (absl::EndsWith(object.key, "/")) return absl::OkStatus();  // what tools show as an empty folder
        if (absl::Status checked = objectstore::CheckKey(path); !checked.ok()) return checked;
        listing.objects[path] = object;
        listing.bytes += object.size;
        return absl::OkStatus();
      },
      stop_.get_token());
  if (!status.ok()) return status;
  if (!listing.objects.empty()) return listing;
  return absl::NotFoundError(absl::StrCat("there is nothing in s3://", location.bucket, "/", prefix));
}

absl::Status DataCache::Fetch(const Request& request, const std::string& url, const std::string& path,
                              const Listing& listing, ObjectStore& store,
                              const std::function<void()>& progress) {
  const std::string parts = absl::StrCat(path, kPartMark, options_.boot_id);
  const std::string folder = fs::path(path).parent_path().string();
  absl::Status status = MakeFolders(folder, 0711);
  if (status.ok()) status = MakeFolders(parts, 0700);
  if (status.ok()) status = CheckRoom(parts, listing.bytes);
  for (const auto& [name, object] : listing.objects) {
    if (!status.ok()) break;
    status = FetchObject(absl::StrCat(parts, "/", name), object, store, progress);
  }
  if (status.ok()) status = OpenTo(request.group, parts);
  if (!status.ok()) return status;
  std::error_code error;
  fs::remove_all(path, error);
  fs::rename(parts, path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("put a data set at ", path));
  return WriteRecord(path, url, listing.bytes);
}

absl::Status DataCache::FetchObject(const std::string& path, const ObjectInfo& object, ObjectStore& store,
                                    const std::function<void()>& progress) const {
  absl::StatusOr<FileWriter> writer = FileWriter::Create(path, /*resume=*/true);
  if (writer.ok() && writer->size() > object.size) writer = FileWriter::Create(path);
  if (!writer.ok()) return writer.status();
  const absl::Status status = store.Get(
      object, writer->size(),
      [&](absl::string_view part) {
        progress();
        return writer->Append(part);
      },
      stop_.get_token());
  if (!status.ok()) return status;
  return writer->Finish(std::nullopt);
}

absl::Status DataCache::WriteRecord(const std::string& path, const std::string& url, int64_t bytes) const {
  const nlohmann::json record = {{"url", url}, {"bytes", bytes}, {"asked", absl::ToUnixMicros(clock_.Now())}};
  return WriteFileAtomically(path + kRecordSuffix, record.dump(), 0600);
}

std::vector<DataCache::Kept> DataCache::ListKept() const {
  std::vector<Kept> kept;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(options_.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    // <namespace>/<digest>.json, and nothing deeper.
    if (entry.depth() == 1) entry.disable_recursion_pending();
    if (entry.depth() == 0 && entry->path().filename() == kViews) entry.disable_recursion_pending();
    if (entry.depth() != 1 || entry->path().extension() != kRecordSuffix) continue;
    const absl::StatusOr<std::string> text = ReadWholeFile(entry->path().string(), kMaxRecordBytes);
    const nlohmann::json record = nlohmann::json::parse(text.value_or(""), nullptr, false);
    Kept found{.path = std::string(absl::StripSuffix(entry->path().string(), kRecordSuffix)),
               .bytes = 0,
               .asked = absl::InfinitePast()};
    // One that can't be read counts as the oldest.
    if (record.is_object() && record.contains("bytes") && record["bytes"].is_number_integer())
      found.bytes = record["bytes"];
    if (record.is_object() && record.contains("asked") && record["asked"].is_number_integer())
      found.asked = absl::FromUnixMicros(record["asked"]);
    kept.push_back(std::move(found));
  }
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.asked < b.asked; });
  return kept;
}

void DataCache::RemoveParts(const std::string& path) {
  const std::string ours = absl::StrCat(path, kPartMark, options_.boot_id);
  std::error_code error;
  std::vector<std::string> left;
  for (const fs::directory_entry& job_namespace : fs::directory_iterator(options_.folder, error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(job_namespace.path(), error)) {
      const std::string found = entry.path().string();
      const size_t mark = found.rfind(kPartMark);
      const bool coming = mark != std::string::npos && busy_.contains(found.substr(0, mark));
      if (mark != std::string::npos && !coming && found != ours) left.push_back(found);
    }
  }
  for (const std::string& part : left) fs::remove_all(part, error);
}

absl::Status DataCache::MakeRoom(int64_t bytes) {
  int64_t all = bytes;
  for (const auto& [path, coming] : busy_) all += coming;
  const std::vector<Kept> kept = ListKept();
  for (const Kept& set : kept) all += set.bytes;
  for (const Kept& set : kept) {
    if (all <= options_.max_bytes) break;
    const auto uses = uses_.find(set.path);
    if (uses != uses_.end() && !uses->second.empty()) continue;
    std::error_code error;
    // Whoever is cut off in between leaves what nobody takes for whole.
    fs::remove(set.path + kRecordSuffix, error);
    fs::remove_all(set.path, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", set.path));
    all -= set.bytes;
  }
  if (all <= options_.max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("it has ", bytes, " bytes, and the data sets that replicas use on this node ", all - bytes,
                   ": together more than --data-cache-bytes, ", options_.max_bytes));
}

void DataCache::Adopt(const std::string& replica_id) {
  std::error_code error;
  MutexLock lock(&mutex_);
  for (const auto& entry : fs::directory_iterator(DataViewOf(options_.folder, replica_id), error)) {
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (!error) uses_[target].insert(replica_id);
  }
}

void DataCache::Release(const std::string& replica_id) {
  std::error_code error;
  fs::remove_all(DataViewOf(options_.folder, replica_id), error);
  MutexLock lock(&mutex_);
  for (auto it = uses_.begin(); it != uses_.end();) {
    it->second.erase(replica_id);
    it = it->second.empty() ? uses_.erase(it) : std::next(it);
  }
}

}  // namespace adaptdl::worker
