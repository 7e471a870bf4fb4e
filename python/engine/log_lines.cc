#include "python/engine/log_lines.h"

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/say.h"
#include "python/engine/adaptdl_engine.h"

namespace adaptdl::python {
namespace {

constexpr size_t kMostLines = 1000;

struct Line {
  Said said = {};
  double seconds = 0;
};

class LogLines {
 public:
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
  }

  void Close() {
    MutexLock lock(&mutex_);
    open_ = false;
    changed_.SignalAll();
  }

  // False: there is no room.
  bool Add(const Said& said) {
    const double seconds = absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch());
    MutexLock lock(&mutex_);
    if (!open_ || lines_.size() >= kMostLines) return false;
    lines_.push_back({said, seconds});
    changed_.Signal();
    return true;
  }

  // Null: closed, and none is left.
  const Line* Next() {
    MutexLock lock(&mutex_);
    while (lines_.empty() && open_) changed_.Wait(&mutex_);
    if (lines_.empty()) return nullptr;
    fetched_ = std::move(lines_.front());
    lines_.pop_front();
    return &fetched_;
  }

  std::deque<Line> TakeAll() {
    MutexLock lock(&mutex_);
    return std::exchange(lines_, {});
  }

 private:
  const RealClock clock_{};
  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mutex_);
  // The fetching thread's.
  Line fetched_;
};

// Never destroyed: threads may say something to the very end.
LogLines& Lines() {
  static auto* const lines = new LogLines();
  return *lines;
}

void Keep(const Said& said) {
  if (!Lines().Add(said)) SayOnStandardError(said);
}

}  // namespace

void SayLinesOnStandardError() {
  SetListener(nullptr);
  for (const Line& line : Lines().TakeAll()) SayOnStandardError(line.said);
}

}  // namespace adaptdl::python

void adaptdl_log_open(void) {
  adaptdl::python::Lines().Open();
  adaptdl::SetListener(adaptdl::python::Keep);
}

int adaptdl_log_next(adaptdl_log_line* line) {
  const adaptdl::python::Line* next = adaptdl::python::Lines().Next();
  if (next == nullptr) return 0;
  *line = {static_cast<int32_t>(next->said.severity), next->said.rank, next->seconds, next->said.part.c_str(),
           next->said.text.c_str()};
  return 1;
}

void adaptdl_log_close(void) {
  adaptdl::SetListener(nullptr);
  adaptdl::python::Lines().Close();
}

// Whoever held the lock is not there.
void adaptdl_log_forget_in_child(void) { adaptdl::SetListener(nullptr); }
