// Signature Version 4: requests that say who sends them, and that nobody can change on the way.
//
//   HttpRequest request = {.method = "POST", .url = "https://ec2.eu-west-1.amazonaws.com/", .body = body};
//   Sign(credentials, {.region = "eu-west-1", .service = "ec2"}, clock.Now(), &request);
//
// The URL is signed as it stands: whoever makes it escapes its parts with UriEscape(). All headers are signed that the
// request has by then.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_AWS_SIGNATURE_H_
#define ADAPTDL_LIBS_AWS_SIGNATURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/aws/credentials.h"
#include "libs/http/http_client.h"

namespace adaptdl::aws {

struct SigningOptions {
  std::string region;
  // "ec2", "s3", "sts".
  std::string service;
  // As S3 wants it: the path is no further escaped nor tidied, and the hash of the payload is a header.
  bool s3 = false;
  // SHA-256 of the body, as lower-case hexadecimal digits, or kUnsignedPayload. Empty: computed from the request's body.
  std::string payload_hash = {};
};

// For bodies that are not known yet, over TLS.
inline constexpr char kUnsignedPayload[] = "UNSIGNED-PAYLOAD";

// Adds the headers that sign the request, as of `now`; those of an earlier signature are replaced. INVALID_ARGUMENT: the
// URL is none.
absl::Status Sign(const Credentials& credentials, const SigningOptions& options, absl::Time now,
                  HttpRequest* request);

// All but A-Z, a-z, 0-9, "-", ".", "_" and "~" as %XX. `keep_slashes`: and "/", for paths.
std::string UriEscape(absl::string_view text, bool keep_slashes = false);

// As lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view text);

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_SIGNATURE_H_
