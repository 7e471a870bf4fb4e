#include "libs/certificates/openssl.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adaptdl::certificates {
namespace {

using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using NumberPtr = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

constexpr long kVersion3 = 2;
// Random, so that no two certificates of an authority ever share one (RFC 5280, 4.1.2.2: at most 20 octets,
// positive).
constexpr int kSerialBits = 127;

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

BioPtr Reader(absl::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A key with a pass phrase is refused, not asked for at the terminal.
int NoPassPhrase(char*, int, int, void*) { return 0; }

absl::Status SetSerial(X509* certificate) {
  const NumberPtr number(BN_new());
  if (BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return OpensslError("make a serial number");
  }
  return absl::OkStatus();
}

absl::Status SetName(X509* certificate, const std::string& common_name) {
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto add = [name](const char* field, const std::string& value) {
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.data()),
                                      static_cast<int>(value.size()), -1, 0) == 1;
  };
  if (add("O", "AdaptDL") && add("CN", common_name)) return absl::OkStatus();
  return OpensslError(absl::StrCat("name a certificate ", common_name));
}

absl::Status AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1) return absl::OkStatus();
  return OpensslError(absl::StrCat("give a certificate the extension ", value));
}

using Extensions = std::vector<std::pair<int, std::string>>;

// RFC 5280, 4.2.1.
Extensions ExtensionsOfAuthority() {
  return {{NID_basic_constraints, "critical,CA:TRUE,pathlen:1"},
          {NID_key_usage, "critical,keyCertSign,cRLSign"},
          {NID_subject_key_identifier, "hash"}};
}

// A URI's path can't be constrained; the guard of a server looks at that (libs/service/security/guard.cc).
Extensions ExtensionsOfNodeAuthority(const Contents& contents) {
  return {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
          {NID_key_usage, "critical,keyCertSign"},
          {NID_ext_key_usage, "serverAuth,clientAuth"},
          {NID_subject_key_identifier, "hash"},
          {NID_authority_key_identifier, "keyid:always"},
          {NID_name_constraints,
           absl::StrCat(
               "critical,permitted;DNS:", contents.dns_name,
               ",permitted;URI:adaptdl,excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:::/::,excluded;email:.")}};
}

Extensions ExtensionsOfService(const Contents& contents) {
  return {{NID_basic_constraints, "critical,CA:FALSE"},
          {NID_key_usage, "critical,digitalSignature"},
          {NID_ext_key_usage, "serverAuth,clientAuth"},
          {NID_subject_key_identifier, "hash"},
          {NID_authority_key_identifier, "keyid:always"},
          {NID_subject_alt_name, absl::StrCat("DNS:", contents.dns_name, ",URI:", contents.uri)}};
}

Extensions ExtensionsOf(const Contents& contents) {
  switch (contents.kind) {
    case Kind::kAuthority:
      return ExtensionsOfAuthority();
    case Kind::kNodeAuthority:
      return ExtensionsOfNodeAuthority(contents);
    case Kind::kService:
      break;
  }
  return ExtensionsOfService(contents);
}

absl::Time FromAsn1(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string CommonName(const X509_NAME* name) {
  const int first = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (first < 0 || X509_NAME_get_index_by_NID(name, NID_commonName, first) >= 0) return "";
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, first));
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

}  // namespace

absl::Status OpensslError(absl::string_view what) {
  char text[256] = "no reason given";
  if (const unsigned long error = ERR_get_error(); error != 0) ERR_error_string_n(error, text, sizeof(text));
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", text));
}

void ClearErrors() { ERR_clear_error(); }

absl::StatusOr<KeyPtr> MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpensslError("make a key");
  return key;
}

absl::StatusOr<CertificatePtr> MakeCertificate(const Contents& contents, EVP_PKEY* key, X509* issuer,
                                               EVP_PKEY* issuer_key) {
  CertificatePtr certificate(X509_new());
  X509* x509 = certificate.get();
  const bool self_signed = issuer == nullptr;
  if (x509 == nullptr || X509_set_version(x509, kVersion3) != 1 || X509_set_pubkey(x509, key) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(x509), absl::ToTimeT(contents.not_before)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(x509), absl::ToTimeT(contents.not_after)) == nullptr) {
    return OpensslError("begin a certificate");
  }
  if (absl::Status status = SetSerial(x509); !status.ok()) return status;
  if (absl::Status status = SetName(x509, contents.common_name); !status.ok()) return status;
  if (X509_set_issuer_name(x509, X509_get_subject_name(self_signed ? x509 : issuer)) != 1)
    return OpensslError("name the issuer of a certificate");
  for (const auto& [kind, value] : ExtensionsOf(contents)) {
    const absl::Status status = AddExtension(x509, self_signed ? x509 : issuer, kind, value);
    if (!status.ok()) return status;
  }
  if (X509_sign(x509, self_signed ? key : issuer_key, EVP_sha256()) == 0)
    return OpensslError("sign a certificate");
  return certificate;
}

std::string ToPem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return TextOf(bio.get());
}

std::string ToPem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(bio.get());
}

absl::StatusOr<CertificatePtr> CertificateFromPem(absl::string_view pem) {
  CertificatePtr certificate(PEM_read_bio_X509(Reader(pem).get(), nullptr, NoPassPhrase, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) return absl::InvalidArgumentError("no certificate in PEM");
  return certificate;
}

absl::StatusOr<KeyPtr> KeyFromPem(absl::string_view pem) {
  KeyPtr key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, NoPassPhrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) return absl::InvalidArgumentError("no private key in PEM");
  return key;
}

absl::StatusOr<std::vector<CertificatePtr>> CertificatesFromPem(absl::string_view pem, size_t most) {
  const BioPtr reader = Reader(pem);
  std::vector<CertificatePtr> certificates;
  while (X509* next = PEM_read_bio_X509(reader.get(), nullptr, NoPassPhrase, nullptr)) {
    certificates.emplace_back(next);
    if (certificates.size() > most) {
      ERR_clear_error();
      return absl::InvalidArgumentError(absl::StrCat("more than ", most, " certificates in PEM"));
    }
  }
  ERR_clear_error();
  if (certificates.empty()) return absl::InvalidArgumentError("no certificate in PEM");
  return certificates;
}

std::string IssuerName(X509* certificate) { return CommonName(X509_get_issuer_name(certificate)); }
std::string SubjectName(X509* certificate) { return CommonName(X509_get_subject_name(certificate)); }

long PathLength(X509* certificate) { return X509_get_pathlen(certificate); }

absl::Time NotBefore(X509* certificate) { return FromAsn1(X509_get0_notBefore(certificate)); }
absl::Time NotAfter(X509* certificate) { return FromAsn1(X509_get0_notAfter(certificate)); }

std::vector<std::string> Names(X509* certificate) {
  std::vector<std::string> texts;
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type);
    if (type != GEN_DNS && type != GEN_URI) continue;
    const auto* text = static_cast<const ASN1_IA5STRING*>(value);
    texts.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<size_t>(ASN1_STRING_length(text)));
  }
  return texts;
}

}  // namespace adaptdl::certificates
