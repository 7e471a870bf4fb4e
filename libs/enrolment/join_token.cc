#include "libs/enrolment/join_token.h"

#include <openssl/crypto.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/certificates/openssl.h"

namespace adaptdl::enrolment {
namespace {

constexpr size_t kMostCertificates = 8;

absl::Status NoToken() {
  return absl::InvalidArgumentError(
      "this is no join token: give all of the line that \"adaptdl admin join-token create\" has printed");
}

std::string DerOf(X509* certificate) {
  unsigned char* data = nullptr;
  const int size = i2d_X509(certificate, &data);
  if (size <= 0) return "";
  std::string der(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  OPENSSL_free(data);
  return der;
}

}  // namespace

bool IsSecret(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kSecretPrefix) || text.size() != 2 * kSecretBytes) return false;
  return text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

absl::StatusOr<std::string> FormatJoinToken(const JoinToken& token) {
  if (token.authority.empty()) return token.secret;
  const auto certificates = certificates::CertificatesFromPem(token.authority, kMostCertificates);
  if (!certificates.ok()) return certificates.status();
  std::string der;
  for (const auto& certificate : *certificates) der += DerOf(certificate.get());
  return absl::StrCat(token.secret, ".", absl::WebSafeBase64Escape(der));
}

absl::StatusOr<JoinToken> ParseJoinToken(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() > kMaxTokenBytes) return NoToken();
  const size_t dot = text.find('.');
  JoinToken token{.secret = std::string(text.substr(0, dot)), .authority = ""};
  if (!IsSecret(token.secret)) return NoToken();
  if (dot == absl::string_view::npos) return token;
  std::string der;
  if (!absl::WebSafeBase64Unescape(text.substr(dot + 1), &der) || der.empty()) return NoToken();
  const auto* next = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* end = next + der.size();
  for (size_t count = 0; next != end; ++count) {
    const certificates::CertificatePtr certificate(d2i_X509(nullptr, &next, end - next));
    if (certificate == nullptr || count == kMostCertificates) {
      certificates::ClearErrors();
      return NoToken();
    }
    token.authority += certificates::ToPem(certificate.get());
  }
  return token;
}

}  // namespace adaptdl::enrolment
