// Who we are to Amazon, and where that is known from.

#ifndef ADAPTDL_LIBS_AWS_CREDENTIALS_H_
#define ADAPTDL_LIBS_AWS_CREDENTIALS_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"

namespace adaptdl::aws {

struct Credentials {
  std::string access_key_id = {};
  std::string secret_access_key = {};
  // Empty: they last.
  std::string session_token = {};
  // By the wall clock.
  absl::Time expires = absl::InfiniteFuture();

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// Credentials for requests. All implementations are thread-safe.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;

  // Those of now. UNAUTHENTICATED: there are none to be had, and why. UNAVAILABLE, DEADLINE_EXCEEDED: whoever has them
  // does not answer. CANCELLED: a stop was requested.
  virtual absl::StatusOr<Credentials> Get(const std::stop_token& stop) = 0;

  // The service has refused these: others are to be had next time, if there are any.
  virtual void Refused(const Credentials& credentials) = 0;
};

// One place where credentials may be. Used by one thread at a time.
class CredentialPlace {
 public:
  virtual ~CredentialPlace() = default;

  // For people: "the environment".
  virtual std::string name() const = 0;
  // NOT_FOUND: there are none here, and why; others may have some. Other errors: there ought to be.
  virtual absl::StatusOr<Credentials> Fetch(const std::stop_token& stop) = 0;
};

// Those of the first place that has some, kept until shortly before they expire or until they are refused.
//
// Whoever needs credentials while they are fetched waits for that. Where new ones are not to be had, old ones serve until
// they expire.
class KeptCredentials final : public CredentialSource {
 public:
  // The clock outlives it.
  KeptCredentials(std::vector<std::unique_ptr<CredentialPlace>> places, const Clock* clock);

  absl::StatusOr<Credentials> Get(const std::stop_token& stop) override;
  void Refused(const Credentials& credentials) override;

 private:
  absl::StatusOr<Credentials> Fetch(const std::stop_token& stop);
  bool Lasts(absl::Duration margin) const {
    return kept_.has_value() && clock_.Now() + margin < kept_->expires;
  }

  const std::vector<std::unique_ptr<CredentialPlace>> places_;
  const Clock& clock_;

  // Guards what follows; who fetches has `fetching_`, and the places. Of the standard library, whose waits a stop request
  // ends.
  std::mutex mutex_;
  std::condition_variable_any fetched_;
  bool fetching_ = false;
  std::optional<Credentials> kept_;
  // After a fetch that failed: not before then, while the old ones last. Steady.
  absl::Time next_fetch_ = absl::InfinitePast();
};

// These, for ever.
class FixedCredentials final : public CredentialSource {
 public:
  explicit FixedCredentials(Credentials credentials) : credentials_(std::move(credentials)) {}

  absl::StatusOr<Credentials> Get(const std::stop_token& /*stop*/) override { return credentials_; }
  void Refused(const Credentials& /*credentials*/) override {}

 private:
  const Credentials credentials_;
};

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_CREDENTIALS_H_
