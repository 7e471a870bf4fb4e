#include "services/supervisor/state/invariants.h"

#include <string>
#include <utility>

#include "libs/service/log.h"

namespace adaptdl::supervisor {

void Invariants::SetOnBroken(OnBroken on_broken) {
  MutexLock lock(&mutex_);
  on_broken_ = std::move(on_broken);
}

void Invariants::Broken(absl::string_view where, absl::string_view what) {
  const std::string place(where);
  OnBroken on_broken;
  bool first = false;
  {
    MutexLock lock(&mutex_);
    on_broken = on_broken_;
    first = logged_.insert(place).second;
  }
  if (on_broken) on_broken(place);
  if (!first) return;
  log::Error("this cannot happen; please report it (more of the same are only counted)",
             {{"where", place}, {"what", std::string(what)}});
}

}  // namespace adaptdl::supervisor
