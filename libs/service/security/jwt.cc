#include "libs/service/security/jwt.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/certificates/openssl_ptr.h"
#include "nlohmann/json.hpp"

namespace adaptdl::security {
namespace {

using nlohmann::json;

constexpr size_t kMaxTokenBytes = 16 << 10;
constexpr size_t kMaxSubject = 255;
constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 16384;  // Larger ones are a way to keep us busy.
constexpr size_t kP256Bytes = 32;

using certificates::Freed;
using certificates::KeyPtr;
using KeyContextPtr = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using DigestContextPtr = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using BuilderPtr = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using ParametersPtr = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;
using SignaturePtr = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

NumberPtr ToNumber(absl::string_view bytes) {
  return NumberPtr(BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr));
}

absl::Status Refused(absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat("the token of the identity provider ", why));
}

// The text of a member; empty if it is absent or no text.
std::string Text(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string Decoded(const json& object, const char* name) {
  std::string bytes;
  return absl::WebSafeBase64Unescape(Text(object, name), &bytes) ? bytes : "";
}

// A key from parameters of OpenSSL; null if they make none.
KeyPtr MakeKey(const char* type, OSSL_PARAM_BLD* builder) {
  const ParametersPtr parameters(OSSL_PARAM_BLD_to_param(builder));
  const KeyContextPtr context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  const bool made = parameters != nullptr && context != nullptr &&
                    EVP_PKEY_fromdata_init(context.get()) == 1 &&
                    EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) == 1;
  KeyPtr owned(key);
  if (!made) return nullptr;
  const KeyContextPtr check(EVP_PKEY_CTX_new_from_pkey(nullptr, owned.get(), nullptr));
  if (check == nullptr || EVP_PKEY_public_check(check.get()) != 1) return nullptr;
  return owned;
}

KeyPtr RsaKey(const json& jwk) {
  const NumberPtr modulus = ToNumber(Decoded(jwk, "n"));
  const NumberPtr exponent = ToNumber(Decoded(jwk, "e"));
  const int bits = BN_num_bits(modulus.get());
  if (bits < kMinRsaBits || bits > kMaxRsaBits) return nullptr;
  const BuilderPtr builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
  return MakeKey("RSA", builder.get());
}

KeyPtr P256Key(const json& jwk) {
  const std::string x = Decoded(jwk, "x");
  const std::string y = Decoded(jwk, "y");
  if (Text(jwk, "crv") != "P-256" || x.size() != kP256Bytes || y.size() != kP256Bytes) return nullptr;
  const std::string point = absl::StrCat("\x04", x, y);  // Uncompressed.
  const BuilderPtr builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size());
  return MakeKey("EC", builder.get());
}

// The two numbers of an ES256 signature in the form that OpenSSL reads; empty if they are none.
std::string ToDer(absl::string_view signature) {
  if (signature.size() != 2 * kP256Bytes) return "";
  const SignaturePtr numbers(ECDSA_SIG_new());
  // Takes both numbers over.
  ECDSA_SIG_set0(numbers.get(), ToNumber(signature.substr(0, kP256Bytes)).release(),
                 ToNumber(signature.substr(kP256Bytes)).release());
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(numbers.get(), &der);
  std::string text(reinterpret_cast<char*>(der), std::max(size, 0));
  OPENSSL_free(der);
  return text;
}

struct Key {
  std::string id;
  // "RS256" or "ES256".
  std::string algorithm;
  KeyPtr key;
};

// Nothing: a key that is not for us.
std::optional<Key> ReadKey(const json& jwk) {
  if (!jwk.is_object()) return std::nullopt;
  Key key;
  key.id = Text(jwk, "kid");
  if (jwk.contains("use") && Text(jwk, "use") != "sig") return std::nullopt;
  if (Text(jwk, "kty") == "RSA") {
    key.algorithm = "RS256";
    key.key = RsaKey(jwk);
  } else if (Text(jwk, "kty") == "EC") {
    key.algorithm = "ES256";
    key.key = P256Key(jwk);
  }
  if (key.key == nullptr || (jwk.contains("alg") && Text(jwk, "alg") != key.algorithm)) return std::nullopt;
  return key;
}

bool IsSigned(const Key& key, absl::string_view content, absl::string_view signature) {
  const std::string der = key.algorithm == "ES256" ? ToDer(signature) : std::string(signature);
  const DigestContextPtr context(EVP_MD_CTX_new());
  return context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.key.get()) == 1 &&
         EVP_DigestVerify(context.get(), Bytes(der), der.size(), Bytes(content), content.size()) == 1;
}

// Seconds since 1970, which may have a fraction. Nothing: absent, or no time.
std::optional<absl::Time> ReadTime(const json& claims, const char* name) {
  const auto it = claims.find(name);
  constexpr double kLatest = 253402300799;  // The end of the year 9999.
  if (it == claims.end() || !it->is_number() || it->get<double>() < 0 || it->get<double>() > kLatest)
    return std::nullopt;
  return absl::UnixEpoch() + absl::Seconds(it->get<double>());
}

bool HasAudience(const json& claims, const std::string& audience) {
  const auto it = claims.find("aud");
  if (it == claims.end()) return false;
  if (it->is_string()) return it->get<std::string>() == audience;
  return it->is_array() && std::any_of(it->begin(), it->end(), [&](const json& entry) {
           return entry.is_string() && entry.get<std::string>() == audience;
         });
}

bool IsSubject(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxSubject &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return c > ' ' && c != '"' && c < 0x7f; });
}

absl::StatusOr<Caller> ReadCaller(const json& claims) {
  const std::string subject = Text(claims, "sub");
  if (!IsSubject(subject)) return Refused("has no \"sub\" that could be a name");
  const std::optional<Role> role = ParseRole(Text(claims, "adaptdl_role"));
  if (!role.has_value() || !IsRoleOfPeople(*role)) {
    return Refused("has no \"adaptdl_role\" of \"user\", \"operator\" or \"admin\"");
  }
  Caller caller{.proof = "identity", .name = subject, .role = *role, .namespaces = {}, .node_id = ""};
  if (*role != Role::kUser) return caller;
  const auto namespaces = claims.find("adaptdl_namespaces");
  if (namespaces == claims.end() || !namespaces->is_array() || namespaces->empty() ||
      namespaces->size() > kMaxNamespaces) {
    return Refused("has no list \"adaptdl_namespaces\", which a user needs");
  }
  for (const json& entry : *namespaces) {
    if (!entry.is_string() || !IsNamespaceName(entry.get<std::string>())) {
      return Refused("has something in \"adaptdl_namespaces\" that is no namespace");
    }
    caller.namespaces.push_back(entry.get<std::string>());
  }
  return caller;
}

// An object of JSON in base64url; a discarded value if it is none.
json DecodeObject(absl::string_view part) {
  std::string text;
  if (!absl::WebSafeBase64Unescape(part, &text)) return json(json::value_t::discarded);
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : json(json::value_t::discarded);
}

class Verifier final : public JwtVerifier {
 public:
  Verifier(std::vector<Key> keys, const JwtOptions& options) : keys_(std::move(keys)), options_(options) {}

  absl::StatusOr<JwtIdentity> Verify(absl::string_view token, absl::Time now) const override {
    if (token.size() > kMaxTokenBytes) return Refused("is too long");
    const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
    if (parts.size() != 3) return Refused("is none: it has not three parts");
    const json header = DecodeObject(parts[0]);
    std::string signature;
    if (header.is_discarded() || !absl::WebSafeBase64Unescape(parts[2], &signature)) {
      return Refused("is none: it can't be decoded");
    }
    // Extensions that must be understood: there are none that we do.
    if (header.contains("crit")) return Refused("has a critical extension");
    const absl::string_view content = token.substr(0, parts[0].size() + 1 + parts[1].size());
    if (!IsSignedByAny(header, content, signature)) return Refused("is not signed by a known key");
    const json claims = DecodeObject(parts[1]);
    if (claims.is_discarded()) return Refused("has no claims");
    return Check(claims, now);
  }

 private:
  bool IsSignedByAny(const json& header, absl::string_view content, absl::string_view signature) const {
    const std::string id = Text(header, "kid");
    const std::string algorithm = Text(header, "alg");
    return std::any_of(keys_.begin(), keys_.end(), [&](const Key& key) {
      return key.algorithm == algorithm && (id.empty() || id == key.id) && IsSigned(key, content, signature);
    });
  }

  absl::StatusOr<JwtIdentity> Check(const json& claims, absl::Time now) const {
    if (Text(claims, "iss") != options_.issuer) return Refused("is of another issuer");
    if (!HasAudience(claims, options_.audience)) return Refused("is for another audience");
    const std::optional<absl::Time> expires = ReadTime(claims, "exp");
    if (!expires.has_value()) return Refused("has no \"exp\"");
    if (now >= *expires + kClockSkew) return Refused("has expired");
    const std::optional<absl::Time> not_before = ReadTime(claims, "nbf");
    if (claims.contains("nbf") && !not_before.has_value()) return Refused("has an \"nbf\" that is no time");
    const absl::Time begins = not_before.value_or(absl::UnixEpoch()) - kClockSkew;
    if (now < begins) return Refused("is not valid yet");
    absl::StatusOr<Caller> caller = ReadCaller(claims);
    if (!caller.ok()) return caller.status();
    return JwtIdentity{*std::move(caller), begins, *expires + kClockSkew};
  }

  const std::vector<Key> keys_;
  const JwtOptions options_;
};

}  // namespace

bool LooksLikeJwt(absl::string_view token) { return std::count(token.begin(), token.end(), '.') == 2; }

absl::StatusOr<std::shared_ptr<const JwtVerifier>> JwtVerifier::Create(absl::string_view jwks,
                                                                       const JwtOptions& options) {
  if (options.issuer.empty() || options.audience.empty()) {
    return absl::InvalidArgumentError("keys of an identity provider need --jwt-issuer and --jwt-audience");
  }
  const json document = json::parse(jwks.begin(), jwks.end(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("keys") || !document["keys"].is_array()) {
    return absl::InvalidArgumentError("is no JWK set: it has not the form {\"keys\": [...]}");
  }
  std::vector<Key> keys;
  for (const json& jwk : document["keys"]) {
    if (std::optional<Key> key = ReadKey(jwk)) keys.push_back(*std::move(key));
  }
  if (keys.empty()) {
    return absl::InvalidArgumentError(
        "has no key that can be used: give RSA keys of 2048 bits or more (RS256), or keys of P-256 (ES256)");
  }
  return std::make_shared<const Verifier>(std::move(keys), options);
}

}  // namespace adaptdl::security
