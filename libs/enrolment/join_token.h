// What lets one machine into a cluster: a secret, and by which certificates the machine knows the cluster's supervisor.
// As one line of text, so that it can be carried over by hand:
//
//   adaptdl-join-SECRET.AUTHORITY      AUTHORITY: the certificates in DER, one after the other, as URL-safe base64
//   adaptdl-join-SECRET                who has the certificates already
//
// The secret goes to nobody who does not show a certificate of that authority. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_ENROLMENT_JOIN_TOKEN_H_
#define ADAPTDL_LIBS_ENROLMENT_JOIN_TOKEN_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::enrolment {

inline constexpr char kSecretPrefix[] = "adaptdl-join-";
// Random bytes in a secret.
inline constexpr int kSecretBytes = 32;
// Of a whole token, in bytes.
inline constexpr size_t kMaxTokenBytes = size_t{32} << 10;

struct JoinToken {
  // With its prefix.
  std::string secret;
  // PEM. Empty: the machine must have it from elsewhere.
  std::string authority;
};

// Whether the text could be a secret. Says nothing of whether it is good.
bool IsSecret(absl::string_view text);

// INVALID_ARGUMENT: the authority is no certificate in PEM, or there are more than 8.
absl::StatusOr<std::string> FormatJoinToken(const JoinToken& token);

// INVALID_ARGUMENT: the text, without blanks around it, is no token. The error does not repeat it.
absl::StatusOr<JoinToken> ParseJoinToken(absl::string_view text);

}  // namespace adaptdl::enrolment

#endif  // ADAPTDL_LIBS_ENROLMENT_JOIN_TOKEN_H_
