#include "libs/aws/instance_credentials.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/signature.h"
#include "nlohmann/json.hpp"

namespace adaptdl::aws {
namespace {

constexpr char kRoles[] = "/latest/meta-data/iam/security-credentials/";
// It is on the machine itself, or there is none.
constexpr absl::Duration kTimeout = absl::Seconds(2);

std::string TextAt(const nlohmann::json& json, const char* name) {
  const auto field = json.find(name);
  return field != json.end() && field->is_string() ? field->get<std::string>() : "";
}

absl::StatusOr<Credentials> Parse(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::UnauthenticatedError("the metadata service answers what is not JSON");
  if (TextAt(json, "Code") != "Success") {
    return absl::UnauthenticatedError(
        absl::StrCat("the metadata service has none: ", TextAt(json, "Code"), " ", TextAt(json, "Message")));
  }
  Credentials credentials = {.access_key_id = TextAt(json, "AccessKeyId"),
                             .secret_access_key = TextAt(json, "SecretAccessKey"),
                             .session_token = TextAt(json, "Token")};
  const bool has_time =
      absl::ParseTime(absl::RFC3339_full, TextAt(json, "Expiration"), &credentials.expires, nullptr);
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty() || !has_time)
    return absl::UnauthenticatedError("the metadata service answers without credentials");
  return credentials;
}

}  // namespace

absl::StatusOr<std::string> InstanceCredentials::Send(const std::string& method, const std::string& path,
                                                      const std::string& header,
                                                      const std::stop_token& stop) {
  const absl::StatusOr<HttpResponse> response = http_.Send(
      {.method = method, .url = endpoint_ + path, .headers = {header}, .direct = true, .timeout = kTimeout},
      stop);
  if (absl::IsCancelled(response.status())) return response.status();
  if (!response.ok()) {
    return absl::NotFoundError(
        absl::StrCat("no metadata service answers at ", endpoint_, ": ", response.status().message()));
  }
  if (response->status == 404) return absl::NotFoundError("this machine has no role");
  if (response->status != 200) {
    return absl::UnavailableError(
        absl::StrCat("the metadata service answers ", path, " with HTTP status ", response->status));
  }
  return response->body;
}

absl::StatusOr<Credentials> InstanceCredentials::Fetch(const std::stop_token& stop) {
  const absl::StatusOr<std::string> token =
      Send("PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 300", stop);
  if (!token.ok()) return token.status();
  const std::string proof = absl::StrCat("X-aws-ec2-metadata-token: ", absl::StripAsciiWhitespace(*token));
  if (proof.find_first_of("\r\n") != std::string::npos)
    return absl::UnavailableError("the metadata service answers a token that is none");
  const absl::StatusOr<std::string> role = Send("GET", kRoles, proof, stop);
  if (!role.ok()) return role.status();
  const std::string name(absl::StripAsciiWhitespace(role->substr(0, role->find('\n'))));
  if (name.empty()) return absl::NotFoundError("this machine has no role");
  const absl::StatusOr<std::string> text = Send("GET", kRoles + UriEscape(name), proof, stop);
  return text.ok() ? Parse(*text) : text.status();
}

}  // namespace adaptdl::aws
