// Requests for certificates (PKCS #10): made by who wants one, and checked by who may give one. What a request says
// of its maker is ignored: only its key counts, and that whoever made it has the private half.
//
// Takes whatever strangers send: sizes and kinds of keys are bounded before anything is computed with them.
// Thread-safe.

#ifndef ADAPTDL_LIBS_CERTIFICATES_CERTIFICATE_REQUEST_H_
#define ADAPTDL_LIBS_CERTIFICATES_CERTIFICATE_REQUEST_H_

#include <openssl/evp.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/certificates/openssl_ptr.h"

namespace adaptdl::certificates {

inline constexpr size_t kMaxRequestBytes = size_t{16} << 10;

// A request of `key`, in PEM, signed with it.
absl::StatusOr<std::string> MakeRequest(EVP_PKEY* key);

// The key of the request. INVALID_ARGUMENT: it is too long, no single request in PEM, its key is neither of ECDSA on
// P-256 or P-384, nor of RSA with 2048 to 4096 bits and the exponent 65537, or its signature is not that key's.
absl::StatusOr<KeyPtr> KeyOfRequest(absl::string_view pem);

// SHA-256 of the public key (its SubjectPublicKeyInfo), in hexadecimal digits.
absl::StatusOr<std::string> KeyFingerprint(EVP_PKEY* key);

}  // namespace adaptdl::certificates

#endif  // ADAPTDL_LIBS_CERTIFICATES_CERTIFICATE_REQUEST_H_
