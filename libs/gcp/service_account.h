// The token of a service account by its key, a JSON file as Google writes it: a statement about who asks, signed with the key
// (RFC 7523), is exchanged for a token.

#ifndef ADAPTDL_LIBS_GCP_SERVICE_ACCOUNT_H_
#define ADAPTDL_LIBS_GCP_SERVICE_ACCOUNT_H_

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/gcp/tokens.h"
#include "libs/http/http_client.h"

namespace adaptdl::gcp {

// Thread-safe: nothing changes once made.
class ServiceAccountKey {
 public:
  // INVALID_ARGUMENT says what of the file does not do, and never what is in it.
  static absl::StatusOr<ServiceAccountKey> Parse(absl::string_view file);

  // Where tokens are asked for.
  const std::string& token_uri() const { return token_uri_; }

  // The signed statement, good for an hour from `now` on.
  absl::StatusOr<std::string> Assertion(absl::string_view scope, absl::Time now) const;

 private:
  ServiceAccountKey() = default;

  std::string email_;
  std::string key_id_;
  std::string token_uri_;
  // An EVP_PKEY.
  std::shared_ptr<void> key_;
};

// UNAUTHENTICATED: the account, or its key, is not (or no longer) good. UNAVAILABLE, DEADLINE_EXCEEDED: nobody answers.
absl::StatusOr<Token> FetchServiceAccountToken(const ServiceAccountKey& key, HttpClient* http,
                                               const Clock* clock, const std::stop_token& stop);

}  // namespace adaptdl::gcp

#endif  // ADAPTDL_LIBS_GCP_SERVICE_ACCOUNT_H_
