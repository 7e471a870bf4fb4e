// Waiting, as a dependency: whoever pauses is given a way to, so that tests need not wait.
//
// Thread-safety: all implementations are thread-safe.

#ifndef ADAPTDL_LIBS_HTTP_PAUSES_H_
#define ADAPTDL_LIBS_HTTP_PAUSES_H_

#include <stop_token>

#include "absl/time/time.h"

namespace adaptdl {

class Pauses {
 public:
  virtual ~Pauses() = default;

  // Waits so long, or until a stop is requested. True: it was not.
  virtual bool WaitFor(absl::Duration duration, const std::stop_token& stop) const = 0;
};

// In real time.
class RealPauses final : public Pauses {
 public:
  bool WaitFor(absl::Duration duration, const std::stop_token& stop) const override;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_HTTP_PAUSES_H_
