// An identity provider for tests: keys, their JWK set, and tokens signed with them.

#ifndef ADAPTDL_TESTS_LIBS_SERVICE_SECURITY_JWT_FIXTURE_H_
#define ADAPTDL_TESTS_LIBS_SERVICE_SECURITY_JWT_FIXTURE_H_

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace adaptdl::security {

class SigningKey {
 public:
  static SigningKey Rsa(std::string id, unsigned bits = 2048) {
    return SigningKey(std::move(id), "RS256", EVP_RSA_gen(bits));
  }
  static SigningKey P256(std::string id) { return SigningKey(std::move(id), "ES256", EVP_EC_gen("P-256")); }

  // Its public half.
  nlohmann::json Jwk() const {
    nlohmann::json jwk = {{"kid", id_}, {"use", "sig"}, {"alg", algorithm_}};
    if (algorithm_ == "RS256") {
      jwk["kty"] = "RSA";
      jwk["n"] = Number(OSSL_PKEY_PARAM_RSA_N);
      jwk["e"] = Number(OSSL_PKEY_PARAM_RSA_E);
    } else {
      jwk["kty"] = "EC";
      jwk["crv"] = "P-256";
      jwk["x"] = Number(OSSL_PKEY_PARAM_EC_PUB_X, 32);
      jwk["y"] = Number(OSSL_PKEY_PARAM_EC_PUB_Y, 32);
    }
    return jwk;
  }

  std::string Sign(const nlohmann::json& claims) const {
    return Sign({{"alg", algorithm_}, {"kid", id_}, {"typ", "JWT"}}, claims);
  }
  std::string Sign(const nlohmann::json& header, const nlohmann::json& claims) const {
    return SignText(header.dump(), claims.dump());
  }
  // The same for parts that need not be JSON.
  std::string SignText(absl::string_view header, absl::string_view claims) const {
    const std::string content =
        absl::StrCat(absl::WebSafeBase64Escape(header), ".", absl::WebSafeBase64Escape(claims));
    return absl::StrCat(content, ".", absl::WebSafeBase64Escape(SignatureOf(content)));
  }

 private:
  struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };

  SigningKey(std::string id, std::string algorithm, EVP_PKEY* key)
      : id_(std::move(id)), algorithm_(std::move(algorithm)), key_(key) {}

  std::string Number(const char* parameter, int bytes = 0) const {
    BIGNUM* number = nullptr;
    EVP_PKEY_get_bn_param(key_.get(), parameter, &number);
    std::string text(bytes > 0 ? bytes : BN_num_bytes(number), '\0');
    BN_bn2binpad(number, reinterpret_cast<unsigned char*>(text.data()), static_cast<int>(text.size()));
    BN_free(number);
    return absl::WebSafeBase64Escape(text);
  }

  std::string SignatureOf(const std::string& content) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key_.get());
    std::string signature(1024, '\0');
    size_t size = signature.size();
    EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                   reinterpret_cast<const unsigned char*>(content.data()), content.size());
    EVP_MD_CTX_free(context);
    signature.resize(size);
    return algorithm_ == "RS256" ? signature : ToNumbers(signature);
  }

  static std::string ToNumbers(const std::string& der) {
    const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
    ECDSA_SIG* numbers = d2i_ECDSA_SIG(nullptr, &begin, static_cast<long>(der.size()));
    std::string text(64, '\0');
    auto* out = reinterpret_cast<unsigned char*>(text.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(numbers), out, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(numbers), out + 32, 32);
    ECDSA_SIG_free(numbers);
    return text;
  }

  const std::string id_;
  const std::string algorithm_;
  const std::unique_ptr<EVP_PKEY, FreeKey> key_;
};

inline constexpr char kIssuer[] = "https://login.example.org";
inline constexpr char kAudience[] = "adaptdl";

inline nlohmann::json JwkSet(const std::vector<nlohmann::json>& keys) {
  return nlohmann::json{{"keys", keys}};
}

}  // namespace adaptdl::security

#endif  // ADAPTDL_TESTS_LIBS_SERVICE_SECURITY_JWT_FIXTURE_H_
