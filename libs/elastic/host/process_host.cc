#include "libs/elastic/host/process_host.h"

#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/elastic/host/signals.h"

namespace adaptdl::elastic {
namespace {

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Watch final : public Host::SignalWatch {
 public:
  explicit Watch(std::function<void(const std::string&)> on_signal) : watcher_(std::move(on_signal)) {}

 private:
  SignalWatcher watcher_;
};

class Process final : public Host {
 public:
  double Seconds() override { return MonotonicSeconds(); }
  double WallSeconds() override { return absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch()); }

  std::function<double()> ThreadClock() override {
    clockid_t clock;
    if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return nullptr;
    return [clock] {
      timespec time = {};
      // A thread that has ended does not hang.
      if (clock_gettime(clock, &time) != 0) return MonotonicSeconds();
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
  }

  std::unique_ptr<SignalWatch> WatchSignals(std::function<void(const std::string&)> on_signal) override {
    return std::make_unique<Watch>(std::move(on_signal));
  }

 private:
  // Destructors of a training program are many and slow, and some are not safe while threads run: none is
  // run.
  void End(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }

  const RealClock clock_{};
};

}  // namespace

std::shared_ptr<Host> ProcessHost() { return std::make_shared<Process>(); }

}  // namespace adaptdl::elastic
