// Certificates of an authority that a test makes for itself, good and bad ones.

#ifndef ADAPTDL_TESTS_LIBS_SERVICE_SECURITY_TEST_CERTIFICATES_H_
#define ADAPTDL_TESTS_LIBS_SERVICE_SECURITY_TEST_CERTIFICATES_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/openssl.h"
#include "libs/rpc/security.h"

namespace adaptdl::security {

class TestAuthority {
 public:
  // Files go to `folder`, their names begin with `name`.
  TestAuthority(std::string folder, std::string name)
      : prefix_(absl::StrCat(folder, "/", name)), key_(*certificates::MakeKey()) {
    const absl::Time now = absl::Now();
    certificate_ = *certificates::MakeCertificate({.common_name = name,
                                                   .dns_name = "",
                                                   .uri = "",
                                                   .not_before = now - absl::Hours(1),
                                                   .not_after = now + absl::Hours(10),
                                                   .kind = certificates::Kind::kAuthority},
                                                  key_.get(), nullptr, nullptr);
    Write(CaFile(), certificates::ToPem(certificate_.get()));
  }

  std::string CaFile() const { return absl::StrCat(prefix_, "-ca.pem"); }

  // A certificate for `path` of "spiffe://adaptdl/path", which ends `lifetime` from now. `dns_name`: see
  // libs/rpc/security.h.
  rpc::TlsFiles Issue(const std::string& path, const std::string& dns_name = "worker.adaptdl",
                      absl::Duration lifetime = absl::Hours(1)) {
    const certificates::KeyPtr key = *certificates::MakeKey();
    const absl::Time now = absl::Now();
    const certificates::CertificatePtr certificate =
        *certificates::MakeCertificate({.common_name = "test",
                                        .dns_name = dns_name,
                                        .uri = absl::StrCat("spiffe://adaptdl/", path),
                                        .not_before = now - absl::Hours(1),
                                        .not_after = now + lifetime},
                                       key.get(), certificate_.get(), key_.get());
    const std::string file = absl::StrCat(prefix_, "-", issued_++);
    Write(absl::StrCat(file, ".pem"), certificates::ToPem(certificate.get()));
    Write(absl::StrCat(file, ".key"), certificates::ToPem(key.get()));
    return {.ca = CaFile(), .certificate = absl::StrCat(file, ".pem"), .key = absl::StrCat(file, ".key")};
  }

 private:
  static void Write(const std::string& path, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomically(path, content, 0600).ok());
  }

  const std::string prefix_;
  const certificates::KeyPtr key_;
  certificates::CertificatePtr certificate_;
  int issued_ = 0;
};

}  // namespace adaptdl::security

#endif  // ADAPTDL_TESTS_LIBS_SERVICE_SECURITY_TEST_CERTIFICATES_H_
