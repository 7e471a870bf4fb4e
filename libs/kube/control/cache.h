// What a reflector sees, kept as values of a type of ours, for all who want to look:
//
//   Cache<Pod> pods({.parse = ParsePod, .index = [](const Pod& pod) { return pod.job; }});
//   pods.AddHandler([&](const auto& change) { queue.Add(JobOf(change)); });
//   Reflector reflector(&client, Collection(Pods()), {}, &pods);
//   if (pods.AwaitSynced(stop)) ... pods.ByIndex("training/mnist") ...
//
// It lags behind the server: who has written must expect to read what was before. Values are immutable and
// shared; who holds one keeps it.
//
// Thread-safe. Handlers are called on the reflector's thread, in the order of the changes, when the change can
// be seen in the cache; they may look into it, and should not take long.

#ifndef ADAPTDL_LIBS_KUBE_CONTROL_CACHE_H_
#define ADAPTDL_LIBS_KUBE_CONTROL_CACHE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/kube/control/reflector.h"
#include "libs/kube/json/json.h"
#include "libs/kube/json/object.h"

namespace adaptdl::kube {

template <typename T>
class Cache final : public ObjectSink {
 public:
  using Value = std::shared_ptr<const T>;

  struct Options {
    // Of an object, whatever is in it.
    std::function<T(const Json& object)> parse;
    // What the value is found by, besides its name. Null: nothing.
    std::function<std::string(const T& value)> index = nullptr;
  };

  // What has become of an object. One that is made anew under the same name is removed first.
  struct Change {
    ObjectKey key;
    Value before;  // null: it is new
    Value after;   // null: it is gone
  };
  using Handler = std::function<void(const Change&)>;

  explicit Cache(Options options) : options_(std::move(options)) {}

  // Before the reflector begins.
  void AddHandler(Handler handler) { handlers_.push_back(std::move(handler)); }

  // Null: it is not there.
  Value Find(const ObjectKey& key) const {
    MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.value;
  }

  // By their names.
  std::vector<Value> All() const {
    MutexLock lock(&mutex_);
    std::vector<Value> values;
    values.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) values.push_back(entry.value);
    return values;
  }

  std::vector<Value> ByIndex(const std::string& text) const {
    MutexLock lock(&mutex_);
    std::vector<Value> values;
    const auto found = index_.find(text);
    if (found == index_.end()) return values;
    for (const ObjectKey& key : found->second) values.push_back(entries_.at(key).value);
    return values;
  }

  // Whether all that was there when the reflector began can be seen.
  bool synced() const {
    MutexLock lock(&mutex_);
    return synced_;
  }
  // Waits for that. False: a stop was requested first.
  bool AwaitSynced(const std::stop_token& stop) const {
    const std::stop_callback wake(stop, [this] {
      MutexLock lock(&mutex_);
      changed_.SignalAll();
    });
    MutexLock lock(&mutex_);
    while (!synced_ && !stop.stop_requested()) changed_.Wait(&mutex_);
    return synced_;
  }

  // Of the reflector.
  void Put(Json object) override {
    const ObjectKey key = KeyOf(object);
    const std::string uid = UidOf(object);
    if (const auto known = Known(key); known.first != uid && !known.first.empty()) {
      Set(key, Entry());
    } else if (known == std::make_pair(uid, ResourceVersionOf(object))) {
      return;
    }
    Set(key, {std::make_shared<const T>(options_.parse(object)), uid, ResourceVersionOf(object)});
  }
  void Remove(Json object) override { Set(KeyOf(object), Entry()); }
  void Listed(const std::set<ObjectKey>& present) override {
    for (const ObjectKey& key : Keys()) {
      if (present.count(key) == 0) Set(key, Entry());
    }
    MutexLock lock(&mutex_);
    synced_ = true;
    changed_.SignalAll();
  }

 private:
  struct Entry {
    Value value;
    std::string uid;
    std::string resource_version;
  };

  // Its uid and version; empty: it is not there.
  std::pair<std::string, std::string> Known(const ObjectKey& key) const {
    MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return {};
    return {found->second.uid, found->second.resource_version};
  }

  std::vector<ObjectKey> Keys() const {
    MutexLock lock(&mutex_);
    std::vector<ObjectKey> keys;
    for (const auto& [key, entry] : entries_) keys.push_back(key);
    return keys;
  }

  // An entry without value takes the object away.
  void Set(const ObjectKey& key, Entry entry) {
    Change change = {key, nullptr, entry.value};
    {
      MutexLock lock(&mutex_);
      const auto found = entries_.find(key);
      if (found != entries_.end()) {
        change.before = found->second.value;
        Unindex(key, *change.before);
        entries_.erase(found);
      }
      if (entry.value != nullptr) {
        if (options_.index != nullptr) index_[options_.index(*entry.value)].insert(key);
        entries_.emplace(key, std::move(entry));
      }
    }
    if (change.before == nullptr && change.after == nullptr) return;
    for (const Handler& handler : handlers_) handler(change);
  }

  void Unindex(const ObjectKey& key, const T& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.index == nullptr) return;
    const auto found = index_.find(options_.index(value));
    found->second.erase(key);
    if (found->second.empty()) index_.erase(found);
  }

  const Options options_;
  std::vector<Handler> handlers_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<ObjectKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<ObjectKey>> index_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CONTROL_CACHE_H_
