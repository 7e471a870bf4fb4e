#include "libs/aws/credential_chain.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "libs/aws/instance_credentials.h"
#include "libs/aws/profile_credentials.h"
#include "libs/aws/web_identity.h"

namespace adaptdl::aws {
namespace {

using Variables = std::map<std::string, std::string>;

std::string Variable(const Variables& variables, const std::string& name, const std::string& otherwise = "") {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? otherwise : found->second;
}

class EnvironmentCredentials final : public CredentialPlace {
 public:
  explicit EnvironmentCredentials(const Variables& variables)
      : credentials_{Variable(variables, "AWS_ACCESS_KEY_ID"), Variable(variables, "AWS_SECRET_ACCESS_KEY"),
                     Variable(variables, "AWS_SESSION_TOKEN")} {}

  std::string name() const override { return "the environment"; }
  absl::StatusOr<Credentials> Fetch(const std::stop_token& /*stop*/) override {
    if (credentials_.access_key_id.empty() && credentials_.secret_access_key.empty())
      return absl::NotFoundError("AWS_ACCESS_KEY_ID is not set");
    if (credentials_.access_key_id.empty() || credentials_.secret_access_key.empty()) {
      return absl::UnauthenticatedError(
          "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set: set both or none");
    }
    return credentials_;
  }

 private:
  const Credentials credentials_;
};

}  // namespace

std::map<std::string, std::string> VariablesOf(const std::vector<std::string>& environment) {
  Variables variables;
  for (const std::string& entry : environment) {
    std::pair<std::string, std::string> variable = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    variables.insert(std::move(variable));
  }
  return variables;
}

std::unique_ptr<CredentialSource> MakeCredentialChain(const CredentialChainOptions& options, HttpClient* http,
                                                      const Clock* clock, const Pauses* pauses) {
  const Variables& variables = options.environment;
  const std::string region =
      options.region.empty()
          ? Variable(variables, "AWS_REGION", Variable(variables, "AWS_DEFAULT_REGION", "us-east-1"))
          : options.region;
  std::vector<std::unique_ptr<CredentialPlace>> places;
  places.push_back(std::make_unique<EnvironmentCredentials>(variables));
  places.push_back(std::make_unique<WebIdentityCredentials>(
      WebIdentityOptions{.token_file = Variable(variables, "AWS_WEB_IDENTITY_TOKEN_FILE"),
                         .role_arn = Variable(variables, "AWS_ROLE_ARN"),
                         .session_name = Variable(variables, "AWS_ROLE_SESSION_NAME", "adaptdl"),
                         .region = region,
                         .endpoint = Variable(variables, "AWS_ENDPOINT_URL_STS")},
      http, clock, pauses));
  places.push_back(std::make_unique<ProfileCredentials>(
      Variable(variables, "AWS_SHARED_CREDENTIALS_FILE", Variable(variables, "HOME") + "/.aws/credentials"),
      Variable(variables, "AWS_PROFILE", "default"), !Variable(variables, "AWS_PROFILE").empty()));
  if (absl::AsciiStrToLower(Variable(variables, "AWS_EC2_METADATA_DISABLED")) != "true") {
    places.push_back(std::make_unique<InstanceCredentials>(
        Variable(variables, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254"), http));
  }
  return std::make_unique<KeptCredentials>(std::move(places), clock);
}

}  // namespace adaptdl::aws
