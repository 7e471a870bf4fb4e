#include "python/engine/interpreter_host.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "adaptdl/job.h"
#include "libs/base/say.h"
#include "libs/elastic/host/process_host.h"
#include "python/engine/log_lines.h"

namespace adaptdl::python {

class InterpreterHost::Watch final : public SignalWatch {
 public:
  explicit Watch(SharedSignals* signals) : signals_(signals) {}
  ~Watch() override { signals_->Stop(); }

 private:
  SharedSignals* const signals_;
};

InterpreterHost::InterpreterHost() : process_(elastic::ProcessHost()) {}

std::unique_ptr<elastic::Host::SignalWatch> InterpreterHost::WatchSignals(
    std::function<void(const std::string&)> on_signal) {
  signals_.Start([this, on_signal = std::move(on_signal)](const std::string& name) {
    try {
      on_signal(name);
    } catch (const ProcessEnds& end) {
      // The replicas have not met. The interpreter's handler sees to it, unless the training thread waits for them.
      stopped_early_ = true;
      if (!meeting_) return;
      // Nobody is left to fetch it.
      SayLinesOnStandardError();
      std::fflush(nullptr);
      std::_Exit(end.code);
    }
  });
  return std::make_unique<Watch>(&signals_);
}

void InterpreterHost::SayReason(int code) {
  const std::string reason = TakeReason();
  if (!reason.empty()) Say(code == kExitStopped ? Severity::kNotice : Severity::kError, reason);
}

bool InterpreterHost::SetMet() {
  meeting_ = false;
  signals_.SetMet();
  return stopped_early_;
}

}  // namespace adaptdl::python
