// A bucket in memory, for tests, which fails as they like.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_MEMORY_STORE_H_
#define ADAPTDL_LIBS_OBJECTSTORE_MEMORY_STORE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/objectstore/digest.h"
#include "libs/objectstore/object_store.h"

namespace adaptdl::objectstore {

class MemoryStore final : public ObjectStore {
 public:
  // Asked before each call, which an error makes fail: "get", "put", "list" or "delete", and the key. Called without a lock.
  using Fault = std::function<absl::Status(const std::string& call, const std::string& key)>;

  void SetFault(Fault fault) {
    MutexLock lock(&mutex_);
    fault_ = std::move(fault);
  }
  std::map<std::string, std::string> objects() const {
    MutexLock lock(&mutex_);
    return objects_;
  }
  void Set(const std::string& key, std::string content) {
    MutexLock lock(&mutex_);
    objects_[key] = std::move(content);
  }
  // Calls of this kind so far.
  int calls(const std::string& call) const {
    MutexLock lock(&mutex_);
    const auto it = calls_.find(call);
    return it == calls_.end() ? 0 : it->second;
  }

  absl::StatusOr<ObjectInfo> Head(const std::string& key, const std::stop_token& stop) override {
    ObjectInfo found;
    const absl::Status status = List(
        key,
        [&](const ObjectInfo& object) {
          if (object.key == key) found = object;
          return absl::OkStatus();
        },
        stop);
    if (!status.ok()) return status;
    if (found.key.empty()) return absl::NotFoundError(absl::StrCat("there is no object \"", key, "\""));
    return found;
  }

  absl::Status Get(const ObjectInfo& object, int64_t offset, const Sink& sink,
                   const std::stop_token& stop) override {
    if (absl::Status status = Begin("get", object.key, stop); !status.ok()) return status;
    std::string content;
    {
      MutexLock lock(&mutex_);
      const auto it = objects_.find(object.key);
      if (it == objects_.end()) return absl::NotFoundError(object.key);
      if (InfoOf(*it) != object) return absl::FailedPreconditionError("the object was replaced meanwhile");
      content = it->second.substr(static_cast<size_t>(offset));
    }
    // In two parts, as large ones come.
    absl::Status status = sink(absl::string_view(content).substr(0, content.size() / 2));
    if (status.ok()) status = sink(absl::string_view(content).substr(content.size() / 2));
    return status;
  }

  absl::Status Put(const std::string& key, int64_t size, const Source& source,
                   const std::stop_token& stop) override {
    if (absl::Status status = Begin("put", key, stop); !status.ok()) return status;
    absl::StatusOr<std::string> content = size == 0 ? std::string() : source(0, size);
    if (!content.ok()) return content.status();
    Set(key, *std::move(content));
    return absl::OkStatus();
  }

  absl::Status List(const std::string& prefix, const Visitor& visit, const std::stop_token& stop) override {
    if (absl::Status status = Begin("list", prefix, stop); !status.ok()) return status;
    std::vector<ObjectInfo> found;
    {
      MutexLock lock(&mutex_);
      for (const auto& object : objects_) {
        if (absl::StartsWith(object.first, prefix)) found.push_back(InfoOf(object));
      }
    }
    for (const ObjectInfo& object : found) {
      if (absl::Status status = visit(object); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Delete(const std::vector<std::string>& keys, const std::stop_token& stop) override {
    for (const std::string& key : keys) {
      if (absl::Status status = Begin("delete", key, stop); !status.ok()) return status;
      MutexLock lock(&mutex_);
      objects_.erase(key);
    }
    return absl::OkStatus();
  }

 private:
  static ObjectInfo InfoOf(const std::pair<const std::string, std::string>& object) {
    return {.key = object.first,
            .size = static_cast<int64_t>(object.second.size()),
            .etag = Md5Base64(object.second)};
  }

  absl::Status Begin(const std::string& call, const std::string& key, const std::stop_token& stop) {
    Fault fault;
    {
      MutexLock lock(&mutex_);
      ++calls_[call];
      fault = fault_;
    }
    if (stop.stop_requested()) return absl::CancelledError("a stop was requested");
    return fault ? fault(call, key) : absl::OkStatus();
  }

  mutable Mutex mutex_;
  std::map<std::string, std::string> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  Fault fault_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_MEMORY_STORE_H_
