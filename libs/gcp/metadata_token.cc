#include "libs/gcp/metadata_token.h"

#include "absl/strings/str_cat.h"

namespace adaptdl::gcp {
namespace {

constexpr char kTokenPath[] = "/computeMetadata/v1/instance/service-accounts/default/token";
// It is on the machine itself, or there is none.
constexpr absl::Duration kMetadataTimeout = absl::Seconds(5);

}  // namespace

std::string MetadataUrl(const std::string& metadata_host) {
  return absl::StrCat("http://", metadata_host.empty() ? "169.254.169.254" : metadata_host);
}

absl::StatusOr<Token> FetchMetadataToken(const std::string& url, HttpClient* http, const Clock* clock,
                                         const std::stop_token& stop) {
  const absl::StatusOr<HttpResponse> response = http->Send({.method = "GET",
                                                            .url = url + kTokenPath,
                                                            .headers = {"Metadata-Flavor: Google"},
                                                            .direct = true,
                                                            .timeout = kMetadataTimeout},
                                                           stop);
  if (absl::IsCancelled(response.status())) return response.status();
  if (!response.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("no metadata service answers at ", url, " (", response.status().message(),
                     "): name the key of a service account in gcp.credentialsFile, or run on Google Cloud"));
  }
  if (response->status == 404)
    return absl::UnauthenticatedError(
        "this machine has no service account: give it one, or name gcp.credentialsFile");
  if (response->status != 200) {
    return absl::UnavailableError(
        absl::StrCat("the metadata service answers for a token with HTTP status ", response->status));
  }
  return ParseToken(response->body, clock->Now());
}

}  // namespace adaptdl::gcp
