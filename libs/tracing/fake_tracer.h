// Keeps the spans, for tests. Thread-safe.

#ifndef ADAPTDL_LIBS_TRACING_FAKE_TRACER_H_
#define ADAPTDL_LIBS_TRACING_FAKE_TRACER_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/tracing/tracer.h"

namespace adaptdl::tracing {

class FakeTracer final : public Tracer {
 public:
  void Take(Span span) override {
    MutexLock lock(&mutex_);
    spans_.push_back(std::move(span));
    changed_.SignalAll();
  }

  std::vector<Span> spans() const {
    MutexLock lock(&mutex_);
    return spans_;
  }
  // Waits until there is a span of this name, half a minute at most. Whether there is.
  bool Await(absl::string_view name) const {
    const absl::Time deadline = SteadyNow() + absl::Seconds(30);
    MutexLock lock(&mutex_);
    const auto is_named = [name](const Span& span) { return span.name == name; };
    while (std::none_of(spans_.begin(), spans_.end(), is_named)) {
      if (!changed_.WaitFor(&mutex_, deadline - SteadyNow()) && SteadyNow() >= deadline) return false;
    }
    return true;
  }
  // Those of this name, in the order they came.
  std::vector<Span> Named(absl::string_view name) const {
    std::vector<Span> named;
    for (Span& span : spans()) {
      if (span.name == name) named.push_back(std::move(span));
    }
    return named;
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::tracing

#endif  // ADAPTDL_LIBS_TRACING_FAKE_TRACER_H_
