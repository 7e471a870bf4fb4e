// What happens to the objects of a collection, as it happens.
//
// Thread-safe; blocks.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_WATCH_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_WATCH_H_

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/resource_type.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kube {

enum class WatchEventKind {
  kAdded,
  kModified,
  kDeleted,
  // Nothing but a resourceVersion: all up to it has been told.
  kBookmark,
};

struct WatchEvent {
  WatchEventKind kind;
  // Of kDeleted, its last state.
  Json object;
};

struct WatchOptions {
  Selection selection = {};
  // What happened after it is told: that of a list, or of the last event.
  std::string resource_version = {};
  // The server ends the watch after so long; in whole seconds. A connection that is half dead lasts no longer.
  absl::Duration timeout = absl::Minutes(5);
};

// Calls `take` on this thread for each event. Returns when the watch ends:
// OK            the server has ended it; begin another where it ended
// OUT_OF_RANGE  the server has forgotten what happened since; list again
// CANCELLED     a stop was requested
// other errors  as of all calls, also in the midst of it
absl::Status Watch(const Client& client, const Target& collection, const WatchOptions& options,
                   const std::function<void(WatchEvent)>& take, const std::stop_token& stop);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_WATCH_H_
