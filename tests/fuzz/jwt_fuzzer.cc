// Web tokens and key sets of an identity provider. The first byte says what the rest is: a key set; a token
// that nobody signed, which must be refused; or claims that a known key has signed, of which only a caller
// within the rules may come.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/service/security/jwt.h"
#include "tests/libs/service/security/jwt_fixture.h"

namespace {

namespace security = adaptdl::security;

const absl::Time kNow = absl::FromUnixSeconds(1'769'860'800);

struct Provider {
  const security::SigningKey key = security::SigningKey::P256("key");
  const std::shared_ptr<const security::JwtVerifier> verifier = *security::JwtVerifier::Create(
      security::JwkSet({key.Jwk()}).dump(), {security::kIssuer, security::kAudience});
};

const Provider& TheProvider() {
  static const Provider provider;
  return provider;
}

void CheckCaller(const security::JwtIdentity& identity) {
  const security::Caller& caller = identity.caller;
  if (caller.name.empty() || identity.expires <= kNow || identity.not_before > kNow) std::abort();
  if (caller.role != security::Role::kUser && caller.role != security::Role::kOperator &&
      caller.role != security::Role::kAdmin) {
    std::abort();
  }
  if ((caller.role == security::Role::kUser) == caller.namespaces.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      security::JwtVerifier::Create(text, {security::kIssuer, security::kAudience}).status().IgnoreError();
      break;
    case 1:
      security::LooksLikeJwt(text);
      if (TheProvider().verifier->Verify(text, kNow).ok()) std::abort();
      break;
    case 2: {
      const auto identity = TheProvider().verifier->Verify(
          TheProvider().key.SignText(R"({"alg":"ES256","kid":"key"})", text), kNow);
      if (identity.ok()) CheckCaller(*identity);
      break;
    }
  }
  return 0;
}
