// The tokens of people and their programs, in a file that a server reads and `adaptdl admin token` edits:
//
//   {"tokens": [{"name": "ci", "role": "user", "namespaces": ["vision"],
//                "sha256": "9f86d0...", "created": "2026-01-31T12:00:00Z", "expires":
//                "2027-01-31T12:00:00Z"}]}
//
// A token is "adaptdl_" and 43 characters of base64url, which hold 256 random bits. The file has its SHA-256
// only: nobody can guess so much randomness, so that a slow hash would add nothing, and whoever reads the
// file can use nothing of it. "expires" may be absent: never. A field that is not known is an error, since
// one that was misspelt might have been what limits a token.
//
// All functions are thread-safe. Two programs that change one file wait for each other.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_TOKEN_FILE_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_TOKEN_FILE_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/service/security/identity.h"

namespace adaptdl::security {

// What every token begins with, so that scanners of leaked secrets know one.
inline constexpr char kTokenPrefix[] = "adaptdl_";

struct Token {
  // 1 to 63 letters, digits, ".", "_", "-" and "@", beginning with a letter or digit. Unique in its file.
  std::string name;
  // One of people.
  Role role = Role::kUser;
  // Of a user: at least one. Of others: none, as they are not limited to any.
  std::vector<std::string> namespaces;
  // SHA-256 of the whole token: 64 lower-case hexadecimal digits.
  std::string sha256;
  // To the second.
  absl::Time created;
  absl::Time expires = absl::InfiniteFuture();
};

struct NewToken {
  std::string name;
  Role role = Role::kUser;
  std::vector<std::string> namespaces;
  // Time until it expires; infinite: it never does.
  absl::Duration lifetime = absl::InfiniteDuration();
};

// SHA-256 of `text` in lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view text);

// The tokens in `text`. INVALID_ARGUMENT says which entry and field is wrong and how to right it.
absl::StatusOr<std::vector<Token>> ParseTokens(absl::string_view text);

// Reads the file at `path`. FAILED_PRECONDITION: others than its owner may write to it. NOT_FOUND: there is
// none.
absl::StatusOr<std::vector<Token>> ReadTokenFile(const std::string& path);

// Makes a token, adds it to the file at `path`, which is made where there is none (mode 0600), and returns
// the token itself: nobody can ever read it again. ALREADY_EXISTS: the name is taken. INVALID_ARGUMENT: see
// Token.
absl::StatusOr<std::string> CreateToken(const std::string& path, const NewToken& token, const Clock& clock);

// Takes the token called `name` out of the file. NOT_FOUND: there is none.
absl::Status RevokeToken(const std::string& path, absl::string_view name);

// Finds tokens by what callers send. Immutable, thread-safe.
class TokenTable {
 public:
  explicit TokenTable(std::vector<Token> tokens);

  // The one that `secret` is; null if there is none, or if it has expired at `now`.
  const Token* Find(absl::string_view secret, absl::Time now) const;

 private:
  // By SHA-256. How long a look-up takes may tell something about the hashes of the file, and nothing about
  // the tokens they were made from.
  std::unordered_map<std::string, Token> by_hash_;
};

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_TOKEN_FILE_H_
