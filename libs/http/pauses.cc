#include "libs/http/pauses.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace adaptdl {

bool RealPauses::WaitFor(absl::Duration duration, const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock<std::mutex> lock(mutex);
  // A day at most: an infinite duration would overflow in the standard library.
  never.wait_for(lock, stop, absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24))),
                 [] { return false; });
  return !stop.stop_requested();
}

}  // namespace adaptdl
