// Access tokens, by which Google Cloud knows who calls.

#ifndef ADAPTDL_LIBS_GCP_TOKENS_H_
#define ADAPTDL_LIBS_GCP_TOKENS_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"

namespace adaptdl::gcp {

// What a token may be used for: everything that the account's roles allow.
inline constexpr char kCloudPlatformScope[] = "https://www.googleapis.com/auth/cloud-platform";

struct Token {
  std::string text;
  // By the wall clock.
  absl::Time expires;
};

// Of the answer of whoever gives tokens out, which say how long they last from `now` on. UNAUTHENTICATED: it has none.
absl::StatusOr<Token> ParseToken(absl::string_view answer, absl::Time now);

// Implementations are thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // The one of now. UNAUTHENTICATED: there is none to be had, and why. UNAVAILABLE, DEADLINE_EXCEEDED: whoever gives them
  // out does not answer. CANCELLED: a stop was requested.
  virtual absl::StatusOr<std::string> Get(const std::stop_token& stop) = 0;
  // The service has refused it: another one is to be had next time.
  virtual void Refused(const std::string& token) = 0;
};

// Keeps a token until shortly before it expires, or until it is refused. Where no other one is to be had, it serves until it
// expires. Who comes while one is fetched waits for that.
class KeptToken final : public TokenSource {
 public:
  using Fetch = std::function<absl::StatusOr<Token>(const std::stop_token& stop)>;

  // The clock outlives it. `fetch` is called by one thread at a time.
  KeptToken(Fetch fetch, const Clock* clock) : fetch_(std::move(fetch)), clock_(*clock) {}

  absl::StatusOr<std::string> Get(const std::stop_token& stop) override;
  void Refused(const std::string& token) override;

 private:
  bool Lasts(absl::Duration margin) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kept_.has_value() && clock_.Now() + margin < kept_->expires;
  }

  const Fetch fetch_;
  const Clock& clock_;
  Mutex mutex_;
  std::optional<Token> kept_ ABSL_GUARDED_BY(mutex_);
  // After a fetch that failed: not before then, while the old one lasts. Steady.
  absl::Time next_fetch_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace adaptdl::gcp

#endif  // ADAPTDL_LIBS_GCP_TOKENS_H_
