#include "libs/rpc/security.h"

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
#include "libs/certificates/openssl.h"

namespace adaptdl::rpc {
namespace {

namespace tls = grpc::experimental;

constexpr int64_t kMaxPemBytes = 1 << 20;

absl::Status About(absl::string_view what, const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(what, " in ", path, ": ", status.message()));
}

absl::StatusOr<certificates::CertificatePtr> ReadCertificate(absl::string_view what,
                                                             const std::string& path) {
  const absl::StatusOr<std::string> pem = ReadWholeFile(path, kMaxPemBytes);
  if (!pem.ok()) return About(what, path, pem.status());
  absl::StatusOr<certificates::CertificatePtr> certificate = certificates::CertificateFromPem(*pem);
  return certificate.ok() ? std::move(certificate) : About(what, path, certificate.status());
}

absl::StatusOr<certificates::KeyPtr> ReadKey(const std::string& path) {
  const absl::StatusOr<std::string> pem = ReadWholeFile(path, kMaxPemBytes);
  if (!pem.ok()) return About("the key of TLS", path, pem.status());
  absl::StatusOr<certificates::KeyPtr> key = certificates::KeyFromPem(*pem);
  return key.ok() ? std::move(key) : About("the key of TLS", path, key.status());
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
  const auto certificate = ReadCertificate("the certificate of TLS", files.certificate);
  if (!certificate.ok()) return certificate.status();
  const auto key = ReadKey(files.key);
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
