// What strangers send to join a cluster: requests for certificates, and join tokens. The first byte says what the rest
// is: a request in PEM; a request in DER, put into PEM here so that the bytes get as far as OpenSSL; or a token. A request
// that is taken has a key that a certificate can be made for.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/certificates/certificate_request.h"
#include "libs/enrolment/join_token.h"

namespace {

namespace certificates = adaptdl::certificates;
namespace enrolment = adaptdl::enrolment;

void CheckRequest(absl::string_view pem) {
  const absl::StatusOr<certificates::KeyPtr> key = certificates::KeyOfRequest(pem);
  if (!key.ok()) return;
  if (pem.size() > certificates::kMaxRequestBytes) std::abort();
  const absl::StatusOr<std::string> fingerprint = certificates::KeyFingerprint(key->get());
  if (!fingerprint.ok() || fingerprint->size() != 64) std::abort();
}

std::string PemOf(absl::string_view der) {
  const std::string base64 = absl::Base64Escape(der);
  std::string pem = "-----BEGIN CERTIFICATE REQUEST-----\n";
  for (size_t at = 0; at < base64.size(); at += 64) absl::StrAppend(&pem, base64.substr(at, 64), "\n");
  return absl::StrCat(pem, "-----END CERTIFICATE REQUEST-----\n");
}

void CheckToken(absl::string_view text) {
  const absl::StatusOr<enrolment::JoinToken> token = enrolment::ParseJoinToken(text);
  if (!token.ok()) return;
  const absl::StatusOr<std::string> again = enrolment::FormatJoinToken(*token);
  if (!enrolment::IsSecret(token->secret) || !again.ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      CheckRequest(text);
      break;
    case 1:
      CheckRequest(PemOf(text));
      break;
    default:
      CheckToken(text);
  }
  return 0;
}
