// Follows a collection: lists it, then watches it, for as long as it lives, whatever happens to the server.
//
//   listing ──1──▶ watching ──2──▶ watching
//      ▲──────3────────┘
//
// 1. The whole list has come; the watch begins at its moment.
// 2. The watch has ended, been cut, or could not be begun: another one begins where it ended, at once if it told
//    anything or lasted for a while, else after a pause that grows.
// 3. The server has forgotten that moment (410), or says what makes no sense.
//
// What it sees it tells a sink, in the order in which the server has it. Between two lists, changes are told
// once each; a new list may leave out what has come and gone meanwhile.
//
// Owns a thread, on which the sink and `report` are called. Thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_CONTROL_REFLECTOR_H_
#define ADAPTDL_LIBS_KUBE_CONTROL_REFLECTOR_H_

#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/backoff.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/watch.h"
#include "libs/kube/json/json.h"
#include "libs/kube/json/object.h"

namespace adaptdl::kube {

class ObjectSink {
 public:
  virtual ~ObjectSink() = default;

  // It is there, like this; perhaps it was before.
  virtual void Put(Json object) = 0;
  // It is gone; this was its last state.
  virtual void Remove(Json object) = 0;
  // A whole list has been put, of these objects: no other is there.
  virtual void Listed(const std::set<ObjectKey>& present) = 0;
};

struct ReflectorOptions {
  Selection selection = {};
  int page_size = 500;
  absl::Duration watch_timeout = absl::Minutes(5);
  absl::Duration first_pause = absl::Milliseconds(500);
  absl::Duration longest_pause = absl::Seconds(30);
  // A watch that lasted so long was none that failed, also if nothing happened.
  absl::Duration good_watch = absl::Seconds(10);
  // Told of each failure, and of lists that had to be made anew. Null: nobody is.
  std::function<void(const absl::Status&)> report = nullptr;
};

class Reflector {
 public:
  // Begins. The client and the sink outlive it.
  Reflector(const Client* client, Target collection, ReflectorOptions options, ObjectSink* sink);
  // Ends it, at once.
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

 private:
  void Run(const std::stop_token& stop);
  absl::Status List(const std::stop_token& stop);
  absl::Status Watch(const std::stop_token& stop);
  void Take(WatchEvent event);
  void Report(const absl::Status& status) const;

  const Client& client_;
  const Target collection_;
  const ReflectorOptions options_;
  ObjectSink& sink_;

  // Of the thread.
  Backoff backoff_;
  int page_size_;
  // Up to where all has been told. Empty: a list is needed.
  std::string resource_version_;
  std::jthread thread_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CONTROL_REFLECTOR_H_
