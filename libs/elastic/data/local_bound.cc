#include "libs/elastic/data/local_bound.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/say.h"
#include "libs/elastic/job/job_core.h"

namespace adaptdl::elastic {
namespace {

std::string Topic(const std::string& kind) { return absl::StrCat("memory of ", kind); }

}  // namespace

int64_t TighterBound(int64_t a, int64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

LocalBound::LocalBound(JobCore* core, std::string kind, int64_t asked_for)
    : core_(core), kind_(std::move(kind)), asked_for_(asked_for) {
  core_->news().Subscribe(Topic(kind_), [this](int, const std::string& text) {
    int64_t bound = 0;
    if (!absl::SimpleAtoi(text, &bound) || bound < 1) return;
    int64_t& known = core_->replay().MemoryBound(kind_);
    known = TighterBound(known, bound);
  });
}

LocalBound::~LocalBound() { core_->news().Subscribe(Topic(kind_), nullptr); }

int64_t LocalBound::of_all() const { return TighterBound(asked_for_, core_->replay().MemoryBound(kind_)); }

void LocalBound::Halve(int64_t failed) {
  own_ = TighterBound(own_, failed / 2);
  Say(Severity::kWarning,
      absl::StrCat(failed, " samples do not fit into memory, going on with at most ", own_, " at once"));
  core_->news().Announce(Topic(kind_), absl::StrCat(own_));
}

}  // namespace adaptdl::elastic
