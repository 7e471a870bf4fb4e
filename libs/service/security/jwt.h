// JSON web tokens (RFC 7519) of an identity provider, and its public keys (a JWK set, RFC 7517).
//
// Signatures: RS256 (RSA of 2048 bits or more) and ES256 (P-256), by OpenSSL. The key decides which algorithm
// is valid, and a token that names another, or none, is refused.
//
// Claims: "sub" (the caller's name), "iss" and "aud" (as configured), "exp"; "nbf" if it is there. What the
// caller may do stands in "adaptdl_role" ("user", "operator" or "admin") and, for users, "adaptdl_namespaces"
// (a list). Clocks may differ by kClockSkew.
//
// Immutable, thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_JWT_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_JWT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/service/security/identity.h"

namespace adaptdl::security {

struct JwtOptions {
  // What "iss" must be, and what "aud" must be or hold.
  std::string issuer;
  std::string audience;
};

struct JwtIdentity {
  Caller caller;
  absl::Time not_before;
  // When the identity is no longer valid, kClockSkew included.
  absl::Time expires;
};

inline constexpr absl::Duration kClockSkew = absl::Seconds(30);

// Whether `token` has the form of one: three parts with dots between.
bool LooksLikeJwt(absl::string_view token);

class JwtVerifier {
 public:
  // `jwks`: the text of a JWK set. Keys of other kinds or for other uses are passed over. INVALID_ARGUMENT:
  // it is none, or has no key that can be used.
  static absl::StatusOr<std::shared_ptr<const JwtVerifier>> Create(absl::string_view jwks,
                                                                   const JwtOptions& options);
  virtual ~JwtVerifier() = default;

  // UNAUTHENTICATED, with the reason, unless `token` is signed by one of the keys and valid at `now`.
  virtual absl::StatusOr<JwtIdentity> Verify(absl::string_view token, absl::Time now) const = 0;
};

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_JWT_H_
