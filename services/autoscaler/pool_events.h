// What the autoscaler decided and has not told the supervisor yet: bounded, the oldest go first.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_POOL_EVENTS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_POOL_EVENTS_H_

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/autoscaler_service.pb.h"
#include "libs/messages/proto_time.h"
#include "libs/service/log.h"

namespace adaptdl::autoscaler {

class PoolEvents {
 public:
  // `reason`: one word for programs. `message`: for people. Also goes to the log.
  void Add(absl::Time now, const std::string& pool, const std::string& reason, const std::string& message,
           const std::vector<std::string>& nodes) {
    v1::PoolEvent event;
    *event.mutable_time() = messages::ToProto(now);
    event.set_pool(pool);
    event.set_reason(reason);
    event.set_message(message);
    std::string names;
    for (const std::string& node : nodes) {
      event.add_node_ids(node);
      names += (names.empty() ? "" : ",") + node;
    }
    log::Info("node pool changed", {{"pool", pool}, {"action", reason}, {"nodes", names}, {"why", message}});
    if (events_.size() == kMost) events_.pop_front();
    events_.push_back(std::move(event));
  }

  const std::deque<v1::PoolEvent>& untold() const { return events_; }
  // The first `count` of them were told.
  void Told(size_t count) {
    events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  static constexpr size_t kMost = 1000;
  std::deque<v1::PoolEvent> events_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_POOL_EVENTS_H_
