// Credentials of a role for a token of an identity provider, as pods of a Kubernetes cluster of Amazon have one:
// STS's AssumeRoleWithWebIdentity. Part of the chain (credential_chain.h).

#ifndef ADAPTDL_LIBS_AWS_WEB_IDENTITY_H_
#define ADAPTDL_LIBS_AWS_WEB_IDENTITY_H_

#include <string>

#include "libs/aws/credentials.h"
#include "libs/aws/query_api.h"

namespace adaptdl::aws {

struct WebIdentityOptions {
  // The token; read each time, as it is replaced now and then. Empty, with role_arn: there are no such credentials.
  std::string token_file;
  std::string role_arn;
  // For people who read the account's records.
  std::string session_name = "adaptdl";
  std::string region;
  // URL instead of Amazon's own. Empty: Amazon's.
  std::string endpoint = {};
};

class WebIdentityCredentials final : public CredentialPlace {
 public:
  // Nothing is owned, all outlives it.
  WebIdentityCredentials(WebIdentityOptions options, HttpClient* http, const Clock* clock,
                         const Pauses* pauses);

  std::string name() const override { return "the web identity"; }
  absl::StatusOr<Credentials> Fetch(const std::stop_token& stop) override;

 private:
  const WebIdentityOptions options_;
  QueryApi sts_;
};

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_WEB_IDENTITY_H_
