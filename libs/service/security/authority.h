// Who knows callers beside the guard's own files (guard.h).
//
// A cluster that has tokens and rules of its own says whose a token is, and what somebody may do there. The guard
// asks it about tokens that it does not know itself, and lets its rules decide for those callers, as the table of
// permissions.h has them. A server that runs jobs says which of them a token was given to.
//
// Implementations are thread-safe. Answers are those of the last seconds at most.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_AUTHORITY_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_AUTHORITY_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/service/security/identity.h"
#include "libs/service/security/permissions.h"

namespace adaptdl::security {

class TokenAuthority {
 public:
  virtual ~TokenAuthority() = default;

  // Who has the token: a caller of role kAccount, with its account. May wait. UNAUTHENTICATED: nobody, as far as
  // the cluster says. UNAVAILABLE: that can't be found out now.
  virtual absl::StatusOr<Caller> Ask(const std::string& token) = 0;

  // What the last answer was, of a token that somebody had. Never waits, so the answer may be older: it says who
  // calls, and not that he still may.
  virtual std::optional<Caller> Recall(const std::string& token) = 0;
};

class AccessAuthority {
 public:
  virtual ~AccessAuthority() = default;

  // Whether the caller, who has an account, may do that in the namespace; empty: in all of them. May wait.
  // PERMISSION_DENIED names verb, resource and namespace. UNAVAILABLE: that can't be found out now.
  virtual absl::Status Check(const Caller& caller, const ClusterRule& rule,
                             const std::string& name_space) = 0;
};

// What tokens begin with that a server has given to its jobs.
inline constexpr char kJobTokenPrefix[] = "adaptdl_job.";

class JobTokens {
 public:
  virtual ~JobTokens() = default;

  // The job that the token was given to: a caller of role kUser, of the job's namespace. Never waits. Nothing:
  // there is none, or it may not use it any more.
  virtual std::optional<Caller> Find(const std::string& token) const = 0;
};

struct Authorities {
  // Both or none.
  std::shared_ptr<TokenAuthority> tokens = nullptr;
  std::shared_ptr<AccessAuthority> access = nullptr;
  // Null: this server gives jobs no tokens.
  std::shared_ptr<const JobTokens> jobs = nullptr;
};

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_AUTHORITY_H_
