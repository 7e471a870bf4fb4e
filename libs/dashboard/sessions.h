// Who may talk to a dashboard that a server offers to many: people who have shown a token of theirs, and have got a cookie for it.
//
//   GET /          without a session: the page that asks for the token
//   POST /login    "token=..." as a form sends it; the supervisor says whether it is one
//   POST /logout   ends the session
//
// A session has a random name of 256 bits, is kept in memory only, with its token, and ends after a time, when its owner leaves,
// and when the supervisor takes the token no more. Every call is made with the token: a session has the rights that its
// owner has at that moment. Who tries tokens that are none has to wait.
//
// Cookies are for HTTPS only. Thread-safe.

#ifndef ADAPTDL_LIBS_DASHBOARD_SESSIONS_H_
#define ADAPTDL_LIBS_DASHBOARD_SESSIONS_H_

#include <cstddef>
#include <map>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/dashboard/doorkeeper.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::dashboard {

struct SessionOptions {
  absl::Duration lifetime = absl::Hours(12);
  // The oldest ones end for newer ones; of one token, this many.
  size_t most = 10'000;
  size_t most_of_token = 20;
  // Of one address: wrong tokens in a row until it has to wait, and how long.
  int most_failures = 10;
  absl::Duration penalty = absl::Minutes(1);
};

class Sessions final : public Doorkeeper {
 public:
  // `clock` outlives it.
  Sessions(const SessionOptions& options, const Clock* clock) : options_(options), clock_(*clock) {}

  std::variant<Guest, Proof, httpd::HttpResponse> Meet(const httpd::HttpRequest& request) override;
  httpd::HttpResponse Judge(const Proof& proof, const absl::Status& status) override;
  // Ends all sessions of the guest's token.
  void Forget(const Guest& guest) override;
  bool Knows(const Guest& guest) const override;
  bool shows_files() const override { return true; }

  size_t size() const;

 private:
  struct Session {
    Guest guest;
    absl::Time begin;
  };
  struct Failures {
    int count = 0;
    absl::Time last;
  };

  std::variant<Guest, Proof, httpd::HttpResponse> MeetStranger(const httpd::HttpRequest& request);
  bool HasToWait(const std::string& peer);
  void CountFailure(const std::string& peer);
  // The value of Set-Cookie.
  std::string Open(const std::string& bearer);
  void MakeRoom(const std::string& bearer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionOptions options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  // By the SHA-256 of their names: what is looked up tells nothing of them by the time it takes.
  std::map<std::string, Session> sessions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Failures> failures_ ABSL_GUARDED_BY(mutex_);  // by address
};

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_SESSIONS_H_
