// How to prove to an API server who we are.

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_CREDENTIALS_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_CREDENTIALS_H_

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "libs/kube/access/text_or_file.h"

namespace adaptdl::kube {

// What is empty is not shown. PEM texts.
struct Credentials {
  std::string bearer_token = {};
  std::string certificate_pem = {};
  std::string key_pem = {};
  // By HTTP's basic scheme: old servers, and proxies before them.
  std::string username = {};
  std::string password = {};

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// All implementations are thread-safe.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;

  // Those of now. UNAUTHENTICATED: there are none to be had, and why. CANCELLED: a stop was requested.
  virtual absl::StatusOr<Credentials> Get(const std::stop_token& stop) = 0;

  // The server has refused these: others are to be had next time, if there are any.
  virtual void Refused(const Credentials& credentials) = 0;
};

// What stands in a configuration, and in the files that it names.
class ConfiguredCredentials final : public CredentialSource {
 public:
  struct Options {
    TextOrFile bearer_token = {};
    TextOrFile certificate = {};
    TextOrFile key = {};
    std::string username = {};
    std::string password = {};
  };

  explicit ConfiguredCredentials(Options options);

  absl::StatusOr<Credentials> Get(const std::stop_token& stop) override;
  void Refused(const Credentials& /*credentials*/) override {}  // files are read each time anyway

 private:
  const Options options_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_CREDENTIALS_H_
