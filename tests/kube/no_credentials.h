// For API servers that ask for none.

#ifndef ADAPTDL_TESTS_KUBE_NO_CREDENTIALS_H_
#define ADAPTDL_TESTS_KUBE_NO_CREDENTIALS_H_

#include <stop_token>

#include "absl/status/statusor.h"
#include "libs/kube/access/credentials.h"

namespace adaptdl::kube {

class NoCredentials final : public CredentialSource {
 public:
  absl::StatusOr<Credentials> Get(const std::stop_token& /*stop*/) override { return Credentials(); }
  void Refused(const Credentials& /*credentials*/) override {}
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_TESTS_KUBE_NO_CREDENTIALS_H_
