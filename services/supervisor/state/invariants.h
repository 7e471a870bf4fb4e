// What "cannot happen". A mistake in this program is to cost the call or the job that trips over it, not the
// cluster: such events are counted, and logged once for each place.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_INVARIANTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_INVARIANTS_H_

#include <exception>
#include <functional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

class Invariants {
 public:
  // Called for each event, by whichever thread it happens in.
  using OnBroken = std::function<void(const std::string& where)>;
  void SetOnBroken(OnBroken on_broken);

  // `where`: one of few names; it becomes a label of the metric.
  void Broken(absl::string_view where, absl::string_view what);

  // What `body` returns, an absl::Status or an absl::StatusOr; INTERNAL if it throws.
  template <typename Body>
  auto Guard(absl::string_view where, const Body& body) -> decltype(body()) {
    try {
      return body();
    } catch (const std::exception& error) {
      Broken(where, error.what());
      return absl::InternalError(
          "the supervisor has come to a state that cannot be; nothing was changed; its log says more");
    }
  }

 private:
  Mutex mutex_;
  OnBroken on_broken_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_INVARIANTS_H_
