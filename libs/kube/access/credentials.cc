#include "libs/kube/access/credentials.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"

namespace adaptdl::kube {

ConfiguredCredentials::ConfiguredCredentials(Options options) : options_(std::move(options)) {}

absl::StatusOr<Credentials> ConfiguredCredentials::Get(const std::stop_token& /*stop*/) {
  const absl::StatusOr<std::string> token = options_.bearer_token.Read();
  if (!token.ok()) return token.status();
  absl::StatusOr<std::string> certificate = options_.certificate.Read();
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = options_.key.Read();
  if (!key.ok()) return key.status();
  return Credentials{.bearer_token = std::string(absl::StripAsciiWhitespace(*token)),
                     .certificate_pem = *std::move(certificate),
                     .key_pem = *std::move(key),
                     .username = options_.username,
                     .password = options_.password};
}

}  // namespace adaptdl::kube
