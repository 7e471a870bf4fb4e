// What tests of Google Cloud's interfaces share: tokens that count, pauses that pass at once.

#ifndef ADAPTDL_TESTS_LIBS_GCP_GCP_FIXTURE_H_
#define ADAPTDL_TESTS_LIBS_GCP_GCP_FIXTURE_H_

#include <stop_token>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/manual_clock.h"
#include "libs/gcp/rest_api.h"

namespace adaptdl::gcp {

class PassingPauses final : public Pauses {
 public:
  explicit PassingPauses(ManualClock* clock) : clock_(*clock) {}

  bool WaitFor(absl::Duration duration, const std::stop_token& stop) const override {
    clock_.Advance(duration);
    return !stop.stop_requested();
  }

 private:
  ManualClock& clock_;
};

// Tokens that count how often they were refused: "token-0", "token-1", ...
class CountedTokens final : public TokenSource {
 public:
  absl::StatusOr<std::string> Get(const std::stop_token& /*stop*/) override {
    return absl::StrCat("token-", refused_);
  }
  void Refused(const std::string& /*token*/) override { ++refused_; }
  int refused() const { return refused_; }

 private:
  int refused_ = 0;
};

}  // namespace adaptdl::gcp

#endif  // ADAPTDL_TESTS_LIBS_GCP_GCP_FIXTURE_H_
