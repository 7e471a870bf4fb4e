// The part of OpenSSL that makes and reads certificates, with owners for its objects and absl::Status for its
// errors. For the libraries beside this one. Thread-safe.

#ifndef ADAPTDL_LIBS_CERTIFICATES_OPENSSL_H_
#define ADAPTDL_LIBS_CERTIFICATES_OPENSSL_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/certificates/openssl_ptr.h"

namespace adaptdl::certificates {

using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;

// INTERNAL with `what` and OpenSSL's own words.
absl::Status OpensslError(absl::string_view what);

absl::StatusOr<KeyPtr> MakeKey();

// What a certificate says.
struct Contents {
  std::string common_name;
  // Empty for an authority.
  std::string dns_name;
  std::string uri;
  absl::Time not_before;
  absl::Time not_after;
};

// A certificate of `key`, signed by the issuer; without one it is an authority's, signed by itself. The texts
// of `contents` must be free of commas and line ends.
absl::StatusOr<CertificatePtr> MakeCertificate(const Contents& contents, EVP_PKEY* key, X509* issuer,
                                               EVP_PKEY* issuer_key);

std::string ToPem(X509* certificate);
// PKCS #8, not encrypted.
std::string ToPem(EVP_PKEY* key);
// The first one in the text. INVALID_ARGUMENT: there is none.
absl::StatusOr<CertificatePtr> CertificateFromPem(absl::string_view pem);
absl::StatusOr<KeyPtr> KeyFromPem(absl::string_view pem);

absl::Time NotBefore(X509* certificate);
absl::Time NotAfter(X509* certificate);
// DNS names and URIs that the certificate is for, in its order.
std::vector<std::string> Names(X509* certificate);

}  // namespace adaptdl::certificates

#endif  // ADAPTDL_LIBS_CERTIFICATES_OPENSSL_H_
