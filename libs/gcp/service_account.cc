#include "libs/gcp/service_account.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cstddef>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "nlohmann/json.hpp"

namespace adaptdl::gcp {
namespace {

using nlohmann::json;

constexpr absl::Duration kLife = absl::Hours(1);
constexpr absl::Duration kExchangeTimeout = absl::Seconds(20);
constexpr int kLeastKeyBits = 2048;

int NoPassPhrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

std::string FieldOf(const json& file, const char* name) {
  const auto field = file.find(name);
  return field != file.end() && field->is_string() ? field->get<std::string>() : "";
}

absl::Status BadKey(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the key of a service account ", why, ": make one by \"gcloud iam service-accounts keys create\""));
}

std::shared_ptr<void> ReadKey(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> reader(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  if (reader == nullptr) return nullptr;
  return {PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassPhrase, nullptr),
          [](void* key) { EVP_PKEY_free(static_cast<EVP_PKEY*>(key)); }};
}

std::string Base64Url(absl::string_view bytes) { return absl::WebSafeBase64Escape(bytes); }

absl::StatusOr<std::string> SignSha256(EVP_PKEY* key, absl::string_view text) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  size_t size = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  if (context == nullptr || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, data, text.size()) != 1)
    return absl::InternalError("OpenSSL can't sign with the service account's key");
  std::vector<unsigned char> signature(size);
  if (EVP_DigestSign(context.get(), signature.data(), &size, data, text.size()) != 1)
    return absl::InternalError("OpenSSL can't sign with the service account's key");
  return std::string(signature.begin(), signature.begin() + static_cast<std::ptrdiff_t>(size));
}

// An answer that refuses a token: RFC 6749, 5.2.
absl::Status RefusalOf(const HttpResponse& response) {
  const json answer = json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const std::string code = answer.is_object() ? FieldOf(answer, "error") : "";
  const std::string words = answer.is_object() ? FieldOf(answer, "error_description") : "";
  const std::string text = ToUtf8(
      absl::StrCat("the service account gets no token: HTTP status ", response.status, " ", code, " ", words),
      500);
  if (response.status >= 500 || response.status == 429) return absl::UnavailableError(text);
  return absl::UnauthenticatedError(
      absl::StrCat(text, ". Is its key still there, and this machine's clock right?"));
}

}  // namespace

absl::StatusOr<ServiceAccountKey> ServiceAccountKey::Parse(absl::string_view file) {
  const json read = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object()) return BadKey("is no JSON object");
  if (const std::string type = FieldOf(read, "type"); type != "service_account")
    return BadKey(absl::StrCat("has the type \"", ToUtf8(type, 50), "\", not \"service_account\""));
  ServiceAccountKey key;
  key.email_ = FieldOf(read, "client_email");
  key.key_id_ = FieldOf(read, "private_key_id");
  key.token_uri_ = FieldOf(read, "token_uri");
  if (key.email_.empty()) return BadKey("has no client_email");
  if (!absl::StartsWith(key.token_uri_, "https://") && !absl::StartsWith(key.token_uri_, "http://127.0.0.1:"))
    return BadKey("has no token_uri with https");
  key.key_ = ReadKey(FieldOf(read, "private_key"));
  auto* pkey = static_cast<EVP_PKEY*>(key.key_.get());
  if (pkey == nullptr || EVP_PKEY_get_base_id(pkey) != EVP_PKEY_RSA ||
      EVP_PKEY_get_bits(pkey) < kLeastKeyBits)
    return BadKey(absl::StrCat("has no private_key of RSA with at least ", kLeastKeyBits, " bits in PEM"));
  return key;
}

absl::StatusOr<std::string> ServiceAccountKey::Assertion(absl::string_view scope, absl::Time now) const {
  json header = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (!key_id_.empty()) header["kid"] = key_id_;
  const json claims = {{"iss", email_},
                       {"scope", std::string(scope)},
                       {"aud", token_uri_},
                       {"iat", absl::ToUnixSeconds(now)},
                       {"exp", absl::ToUnixSeconds(now + kLife)}};
  const auto dump = [](const json& value) {
    return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  };
  const std::string text = absl::StrCat(Base64Url(dump(header)), ".", Base64Url(dump(claims)));
  const absl::StatusOr<std::string> signature = SignSha256(static_cast<EVP_PKEY*>(key_.get()), text);
  if (!signature.ok()) return signature.status();
  return absl::StrCat(text, ".", Base64Url(*signature));
}

absl::StatusOr<Token> FetchServiceAccountToken(const ServiceAccountKey& key, HttpClient* http,
                                               const Clock* clock, const std::stop_token& stop) {
  const absl::StatusOr<std::string> assertion = key.Assertion(kCloudPlatformScope, clock->Now());
  if (!assertion.ok()) return assertion.status();
  const absl::StatusOr<HttpResponse> response = http->Send(
      {.method = "POST",
       .url = key.token_uri(),
       .headers = {"Content-Type: application/x-www-form-urlencoded"},
       .body = absl::StrCat("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=",
                            *assertion),
       .timeout = kExchangeTimeout},
      stop);
  if (!response.ok()) return response.status();
  if (response->status != 200) return RefusalOf(*response);
  return ParseToken(response->body, clock->Now());
}

}  // namespace adaptdl::gcp
