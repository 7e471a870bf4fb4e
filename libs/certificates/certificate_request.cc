#include "libs/certificates/certificate_request.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/certificates/openssl.h"

namespace adaptdl::certificates {
namespace {

using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using NumberPtr = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, Freed<X509_REQ_free>>;

constexpr absl::string_view kBegin = "-----BEGIN CERTIFICATE REQUEST-----";
constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 4096;
constexpr unsigned long kRsaExponent = 65537;

absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("certificate_request: ", why));
}

absl::Status CheckRsa(EVP_PKEY* key) {
  const int bits = EVP_PKEY_get_bits(key);
  BIGNUM* number = nullptr;
  EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &number);
  const NumberPtr exponent(number);
  // Another exponent may be weak, or make the check of a signature take long.
  if (bits < kMinRsaBits || bits > kMaxRsaBits || exponent == nullptr ||
      BN_is_word(exponent.get(), kRsaExponent) != 1) {
    return Refused(absl::StrCat("a key of RSA has ", kMinRsaBits, " to ", kMaxRsaBits,
                                " bits and the exponent ", kRsaExponent));
  }
  return absl::OkStatus();
}

absl::Status CheckElliptic(EVP_PKEY* key) {
  char group[64] = "";
  size_t length = 0;
  if (EVP_PKEY_get_group_name(key, group, sizeof(group), &length) == 1) {
    const int curve = OBJ_txt2nid(group);
    if (curve == NID_X9_62_prime256v1 || curve == NID_secp384r1) return absl::OkStatus();
  }
  return Refused("a key of ECDSA is one of P-256 or P-384");
}

absl::Status CheckKey(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_EC:
      return CheckElliptic(key);
    case EVP_PKEY_RSA:
      return CheckRsa(key);
    default:
      return Refused("its key is neither of ECDSA nor of RSA; make one on P-256");
  }
}

}  // namespace

absl::StatusOr<std::string> MakeRequest(EVP_PKEY* key) {
  const RequestPtr request(X509_REQ_new());
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (request == nullptr || bio == nullptr || X509_REQ_set_pubkey(request.get(), key) != 1 ||
      X509_REQ_sign(request.get(), key, EVP_sha256()) == 0 ||
      PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1) {
    return OpensslError("make a request for a certificate");
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<KeyPtr> KeyOfRequest(absl::string_view pem) {
  if (pem.size() > kMaxRequestBytes) {
    return Refused(absl::StrCat("it has ", pem.size(), " bytes, and may have ", kMaxRequestBytes));
  }
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(pem);
  absl::string_view rest = text;
  // OpenSSL would look for one among whatever else there is.
  if (!absl::ConsumePrefix(&rest, kBegin) || absl::StrContains(rest, "-----BEGIN")) {
    return Refused(absl::StrCat("give one request in PEM, which begins with ", kBegin));
  }
  const BioPtr reader(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  const RequestPtr request(PEM_read_bio_X509_REQ(reader.get(), nullptr, nullptr, nullptr));
  KeyPtr key(request == nullptr ? nullptr : X509_REQ_get_pubkey(request.get()));
  ERR_clear_error();
  if (key == nullptr) return Refused("it can't be read");
  if (absl::Status status = CheckKey(key.get()); !status.ok()) return status;
  const bool own = X509_REQ_verify(request.get(), key.get()) == 1;
  ERR_clear_error();
  if (!own) return Refused("its signature is not that of its key");
  return key;
}

absl::StatusOr<std::string> KeyFingerprint(EVP_PKEY* key) {
  unsigned char* data = nullptr;
  const int size = i2d_PUBKEY(key, &data);
  if (size <= 0) return OpensslError("write a public key");
  const std::unique_ptr<unsigned char, Freed<[](unsigned char* p) { OPENSSL_free(p); }>> owner(data);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(data, static_cast<size_t>(size), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

}  // namespace adaptdl::certificates
