// Credentials of the role of the machine that this runs on, from the instance metadata service, version 2: a token is asked for,
// which shows that the request is none that somebody else has this process make. Part of the chain (credential_chain.h).

#ifndef ADAPTDL_LIBS_AWS_INSTANCE_CREDENTIALS_H_
#define ADAPTDL_LIBS_AWS_INSTANCE_CREDENTIALS_H_

#include <string>
#include <utility>

#include "libs/aws/credentials.h"
#include "libs/http/http_client.h"

namespace adaptdl::aws {

class InstanceCredentials final : public CredentialPlace {
 public:
  // `endpoint`: "http://169.254.169.254". The client outlives it.
  InstanceCredentials(std::string endpoint, HttpClient* http)
      : endpoint_(std::move(endpoint)), http_(*http) {}

  std::string name() const override { return "the machine's role"; }
  absl::StatusOr<Credentials> Fetch(const std::stop_token& stop) override;

 private:
  absl::StatusOr<std::string> Send(const std::string& method, const std::string& path,
                                   const std::string& header, const std::stop_token& stop);

  const std::string endpoint_;
  HttpClient& http_;
};

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_INSTANCE_CREDENTIALS_H_
