// Connections and streams that anybody may open, for as long as they have not said what they are for. They
// get so much time for it, and there is only so much room: in a full one, whoever has waited longest of the
// host that has most there makes place. So one who opens many and says nothing ends his own, and those who
// speak up at once find a place.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_STRANGERS_H_
#define ADAPTDL_LIBS_SERVICE_STRANGERS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::service {

struct StrangerOptions {
  // How long one may say nothing, to within a step.
  absl::Duration patience = absl::Seconds(10);
  // Of all hosts together; at least 1.
  size_t most = 4096;
};

class Strangers {
 public:
  using Id = const void*;

  explicit Strangers(const StrangerOptions& options) : options_(options) {}

  // From `host` comes one that is known by `id` until it leaves. `end` sends it away with the reason: at most
  // once, never after it has left, and with a lock held, so it must not call back.
  void Enter(Id id, const std::string& host, std::function<void(const absl::Status& why)> end);

  // It has said what it is for, or has gone. May be called again.
  void Leave(Id id);

  // Sends those away whose time is over. Called now and then.
  void Step(absl::Time now);

  size_t size() const;

 private:
  struct Stranger {
    Id id = nullptr;
    std::function<void(const absl::Status&)> end;
    // When a step has seen it first.
    std::optional<absl::Time> since;
  };
  // Of one host, the longest there first.
  using Queue = std::list<Stranger>;
  struct Place {
    std::string host;
    Queue::iterator stranger;
  };

  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the first of the host's away. The host may have none then.
  void EndFirst(std::map<std::string, Queue>::iterator host, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StrangerOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, Queue> hosts_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<Id, Place> places_ ABSL_GUARDED_BY(mutex_);
};

// The host of gRPC's name for the other end: "ipv4:10.0.0.1:41234", "ipv6:%5B::1%5D:41234", "unix:...": one
// host is one, whatever port it comes from.
std::string HostOf(const std::string& peer);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_STRANGERS_H_
