// Certificates for tests: each identity has an authority of its own.

#ifndef ADAPTDL_TESTS_LIBS_HTTP_TEST_IDENTITY_H_
#define ADAPTDL_TESTS_LIBS_HTTP_TEST_IDENTITY_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/time/clock.h"
#include "libs/base/file.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/openssl.h"

namespace adaptdl {

struct TestIdentity {
  std::string ca_pem;
  std::string certificate_pem;
  std::string key_pem;
  std::string common_name;
};

// Its DNS name is "SERVICE.adaptdl".
inline TestIdentity MakeTestIdentity(const std::string& service) {
  char folder[] = "/tmp/adaptdl-identity-XXXXXX";
  const certificates::Identity identity = {.service = service};
  certificates::MakeCertificates({.folder = mkdtemp(folder), .identities = {identity}, .now = absl::Now()})
      .value();
  const auto read = [&](const std::string& name) {
    return ReadWholeFile(folder + ("/" + service) + "/" + name).value();
  };
  TestIdentity made = {read("ca.pem"), read("cert.pem"), read("key.pem"), ""};
  std::filesystem::remove_all(folder);
  const auto certificate = certificates::CertificateFromPem(made.certificate_pem).value();
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name, sizeof(name));
  made.common_name = name;
  return made;
}

}  // namespace adaptdl

#endif  // ADAPTDL_TESTS_LIBS_HTTP_TEST_IDENTITY_H_
