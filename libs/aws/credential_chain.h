// Credentials as Amazon's own tools find them, the first of:
//
//   1. the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. a token of an identity provider, which STS takes for a role's: AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN (Kubernetes)
//   3. the shared credentials file: ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE), its profile AWS_PROFILE
//   4. the machine's role, which the instance metadata service tells (IMDSv2)
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_AWS_CREDENTIAL_CHAIN_H_
#define ADAPTDL_LIBS_AWS_CREDENTIAL_CHAIN_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/aws/credentials.h"
#include "libs/base/clock.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"

namespace adaptdl::aws {

struct CredentialChainOptions {
  // Variables by their names. What of them counts stands above; also AWS_EC2_METADATA_DISABLED,
  // AWS_EC2_METADATA_SERVICE_ENDPOINT, AWS_ROLE_SESSION_NAME, AWS_REGION, AWS_ENDPOINT_URL_STS, HOME.
  std::map<std::string, std::string> environment;
  // Where STS is asked. Empty: as AWS_REGION or AWS_DEFAULT_REGION says.
  std::string region = {};
};

// Nothing is owned, all outlives the credentials.
std::unique_ptr<CredentialSource> MakeCredentialChain(const CredentialChainOptions& options, HttpClient* http,
                                                      const Clock* clock, const Pauses* pauses);

// The variables of "NAME=value" entries (libs/base/process/environment.h).
std::map<std::string, std::string> VariablesOf(const std::vector<std::string>& environment);

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_CREDENTIAL_CHAIN_H_
