// Who may say that this node goes away: a cloud's metadata service, or a test.
//
// Thread-safety: not thread-safe; one thread asks.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_NOTICE_SOURCE_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_NOTICE_SOURCE_H_

#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adaptdl::worker {

struct Notice {
  // When the node goes away (wall). InfiniteFuture: nobody says, which only is so where it may not come to it.
  absl::Time deadline = absl::InfiniteFuture();
  // Why, and who says so, for people.
  std::string reason;
  // Whether it may not come to it.
  bool likely_only = false;

  bool operator==(const Notice&) const = default;
};

class NoticeSource {
 public:
  virtual ~NoticeSource() = default;

  // What is known now; nullopt: nothing, the node stays. An error: nobody could be asked, or what came is no answer,
  // and nothing follows from it. Waits for a few seconds at most; a stop request ends that.
  virtual absl::StatusOr<std::optional<Notice>> Look(const std::stop_token& stop) = 0;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_NOTICE_SOURCE_H_
