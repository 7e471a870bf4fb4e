#include "libs/aws/web_identity.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::aws {
namespace {

constexpr int64_t kMaxTokenBytes = 64 << 10;

double Random() { return std::stoul(RandomHex(3), nullptr, 16) / double{1 << 24}; }

}  // namespace

WebIdentityCredentials::WebIdentityCredentials(WebIdentityOptions options, HttpClient* http,
                                               const Clock* clock, const Pauses* pauses)
    : options_(std::move(options)),
      sts_({.service = "sts",
            .version = "2011-06-15",
            .region = options_.region,
            .endpoint = options_.endpoint},
           {.http = http, .credentials = nullptr, .clock = clock, .pauses = pauses, .random = Random}) {}

absl::StatusOr<Credentials> WebIdentityCredentials::Fetch(const std::stop_token& stop) {
  if (options_.token_file.empty() && options_.role_arn.empty())
    return absl::NotFoundError("AWS_WEB_IDENTITY_TOKEN_FILE is not set");
  if (options_.token_file.empty() || options_.role_arn.empty()) {
    return absl::UnauthenticatedError(
        "only one of AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN is set: set both or none");
  }
  const absl::StatusOr<std::string> token = ReadWholeFile(options_.token_file, kMaxTokenBytes);
  if (!token.ok()) return absl::UnauthenticatedError(token.status().message());
  const absl::StatusOr<XmlElement> answer =
      sts_.Call({.action = "AssumeRoleWithWebIdentity",
                 .parameters = {{"RoleArn", options_.role_arn},
                                {"RoleSessionName", options_.session_name},
                                {"WebIdentityToken", std::string(absl::StripAsciiWhitespace(*token))}},
                 .may_repeat = true,
                 .is_signed = false},
                stop);
  if (!answer.ok()) return answer.status();
  const XmlElement given = answer->At("AssumeRoleWithWebIdentityResult/Credentials");
  Credentials credentials = {.access_key_id = given.Text("AccessKeyId"),
                             .secret_access_key = given.Text("SecretAccessKey"),
                             .session_token = given.Text("SessionToken")};
  const bool has_time =
      absl::ParseTime(absl::RFC3339_full, given.Text("Expiration"), &credentials.expires, nullptr);
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty() || !has_time)
    return absl::UnauthenticatedError("STS answers without credentials");
  return credentials;
}

}  // namespace adaptdl::aws
