// The part of OpenSSL that makes and reads certificates, with owners for its objects and absl::Status for its
// errors. For the libraries beside this one. Thread-safe.

#ifndef ADAPTDL_LIBS_CERTIFICATES_OPENSSL_H_
#define ADAPTDL_LIBS_CERTIFICATES_OPENSSL_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstddef>
#include <cstdint>
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

// How a certificate with these contents may be used.
enum class Kind {
  kService,
  // Signs those of services and of node authorities.
  kAuthority,
  // Signs those of workers: X.509 lets it vouch for no other DNS name than `dns_name`, and for no authority.
  kNodeAuthority,
};

// INTERNAL with `what` and OpenSSL's own words.
absl::Status OpensslError(absl::string_view what);
// Forgets what OpenSSL has noted of failures of this thread.
void ClearErrors();

absl::StatusOr<KeyPtr> MakeKey();

// Of a file with PEM in it.
inline constexpr int64_t kMaxPemFileBytes = 1 << 20;

// What a certificate says.
struct Contents {
  std::string common_name;
  // Empty for an authority; for a node authority, the only one that it may vouch for.
  std::string dns_name;
  // Empty for both.
  std::string uri;
  absl::Time not_before;
  absl::Time not_after;
  Kind kind = Kind::kService;
};

// A certificate of `key`, signed by the issuer; without one it is signed by itself, as an authority's is. The texts
// of `contents` must be free of commas and line ends.
absl::StatusOr<CertificatePtr> MakeCertificate(const Contents& contents, EVP_PKEY* key, X509* issuer,
                                               EVP_PKEY* issuer_key);

std::string ToPem(X509* certificate);
// PKCS #8, not encrypted.
std::string ToPem(EVP_PKEY* key);
// The first one in the text. INVALID_ARGUMENT: there is none.
absl::StatusOr<CertificatePtr> CertificateFromPem(absl::string_view pem);
absl::StatusOr<KeyPtr> KeyFromPem(absl::string_view pem);
// All in the text, of which there may be `most`. INVALID_ARGUMENT: there is none, or there are more.
absl::StatusOr<std::vector<CertificatePtr>> CertificatesFromPem(absl::string_view pem, size_t most);

absl::Time NotBefore(X509* certificate);
absl::Time NotAfter(X509* certificate);
// The common name of its issuer, and its own. Empty: it has none, or several.
std::string IssuerName(X509* certificate);
std::string SubjectName(X509* certificate);
// The number of authorities that may stand below this one; -1: it is none, or has no bound.
long PathLength(X509* certificate);
// DNS names and URIs that the certificate is for, in its order.
std::vector<std::string> Names(X509* certificate);

}  // namespace adaptdl::certificates

#endif  // ADAPTDL_LIBS_CERTIFICATES_OPENSSL_H_
