#include "libs/rpc/security.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "libs/base/file.h"

namespace adaptdl::rpc {
namespace {

namespace tls = grpc::experimental;

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

constexpr int64_t kMaxPemBytes = 1 << 20;

// A key with a pass phrase is refused, not asked for at the terminal.
int NoPassPhrase(char*, int, int, void*) { return 0; }

absl::StatusOr<BioPtr> OpenPem(absl::string_view what, const std::string& path) {
  const absl::StatusOr<std::string> content = ReadWholeFile(path, kMaxPemBytes);
  if (!content.ok()) {
    return absl::Status(content.status().code(), absl::StrCat(what, ": ", content.status().message()));
  }
  BioPtr bio(BIO_new(BIO_s_mem()));
  BIO_write(bio.get(), content->data(), static_cast<int>(content->size()));
  return bio;
}

absl::StatusOr<CertificatePtr> ReadCertificate(absl::string_view what, const std::string& path) {
  absl::StatusOr<BioPtr> bio = OpenPem(what, path);
  if (!bio.ok()) return bio.status();
  CertificatePtr certificate(PEM_read_bio_X509(bio->get(), nullptr, NoPassPhrase, nullptr));
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(absl::StrCat(what, ": no certificate in PEM in ", path));
}

absl::StatusOr<KeyPtr> ReadKey(const std::string& path) {
  absl::StatusOr<BioPtr> bio = OpenPem("the key of TLS", path);
  if (!bio.ok()) return bio.status();
  KeyPtr key(PEM_read_bio_PrivateKey(bio->get(), nullptr, NoPassPhrase, nullptr));
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(
      absl::StrCat("the key of TLS: no private key in PEM, without a pass phrase, in ", path));
}

// Adds the token to each call. gRPC asks it for channels with TLS only.
class BearerToken final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit BearerToken(absl::string_view token) : value_(absl::StrCat("Bearer ", token)) {}

  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "adaptdl_bearer_token"; }
  grpc::string DebugString() override { return "BearerToken"; }
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->emplace("authorization", value_);
    return grpc::Status::OK;
  }

 private:
  const std::string value_;
};

// gRPC ends the program when it gets half of a pair or nothing to trust.
bool IsComplete(const TlsFiles& files) {
  return !files.ca.empty() && files.certificate.empty() == files.key.empty();
}

std::shared_ptr<grpc::ChannelCredentials> TlsCredentials(const TlsFiles& files) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.ca, kTlsRefreshSeconds));
  options.watch_root_certs();
  if (!files.certificate.empty()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
  return tls::TlsCredentials(options);
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.ca.empty()) return absl::InvalidArgumentError("TLS needs the file of a CA to trust");
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError("TLS needs a certificate and its key, or neither");
  }
  if (absl::Status status = ReadCertificate("the CA of TLS", files.ca).status(); !status.ok()) return status;
  if (files.certificate.empty()) return absl::OkStatus();
  const absl::StatusOr<CertificatePtr> certificate =
      ReadCertificate("the certificate of TLS", files.certificate);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<KeyPtr> key = ReadKey(files.key);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(certificate->get(), key->get()) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the certificate in ", files.certificate, " does not belong to the key in ", files.key));
}

ClientSecurity Plaintext() { return {.insecure = true, .tls = {}, .token = "", .server_name = ""}; }

ClientSecurity ForServer(ClientSecurity security, absl::string_view server_name) {
  security.server_name = std::string(server_name);
  return security;
}

absl::Status CheckClientSecurity(const ClientSecurity& security) {
  return security.insecure ? absl::OkStatus() : CheckTlsFiles(security.tls);
}

ClientCredentials MakeClientCredentials(const ClientSecurity& security) {
  if (security.insecure) return {grpc::InsecureChannelCredentials(), ""};
  if (!IsComplete(security.tls)) return {nullptr, ""};
  std::shared_ptr<grpc::ChannelCredentials> channel = TlsCredentials(security.tls);
  if (!security.token.empty()) {
    channel = grpc::CompositeChannelCredentials(
        channel, grpc::MetadataCredentialsFromPlugin(std::make_unique<BearerToken>(security.token)));
  }
  return {std::move(channel), security.server_name};
}

}  // namespace adaptdl::rpc
