#include "libs/service/security/server_security.h"

#include <memory>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Option.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "libs/service/flags.h"
#include "libs/service/listen_address.h"

namespace adaptdl::security {
namespace {

namespace tls = grpc::experimental;

bool HasTls(const SecurityOptions& options) {
  return !options.tls.ca.empty() || !options.tls.certificate.empty() || !options.tls.key.empty();
}

absl::Status CheckPlaintext(const SecurityOptions& options, const service::ListenAddress& listen) {
  if (HasTls(options)) {
    return absl::InvalidArgumentError(
        "--insecure contradicts --tls-cert, --tls-key and --tls-ca; leave it out");
  }
  if (!options.token_file.empty() || !options.jwks_file.empty()) {
    return absl::InvalidArgumentError(
        "--insecure contradicts --token-file and --jwks-file: whoever can listen would learn the tokens");
  }
  if (options.insecure_anywhere || service::IsLoopback(listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--insecure on ", listen.host,
      ": whoever reaches this address could run programs on the cluster; use "
      "--tls-cert, --tls-key and --tls-ca, or --insecure-anywhere as well if nobody else can reach it"));
}

absl::Status CheckTls(const SecurityOptions& options) {
  if (options.tls.ca.empty() || options.tls.certificate.empty() || options.tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert, --tls-key and --tls-ca are needed, all three; \"adaptdl admin certificates\" makes such "
        "files");
  }
  const absl::Status status = rpc::CheckTlsFiles(options.tls);
  // Whatever is wrong with the files, it is the flags that have to be looked at.
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

}  // namespace

void AddSecurityFlags(CLI::App& app, SecurityOptions* options) {
  const auto add = [&app](const std::string& name, std::string& value, const std::string& help) {
    return service::ReadFromEnvironment(app.add_option(name, value, help))->type_name("FILE");
  };
  add("--tls-cert", options->tls.certificate,
      "Certificate of this service, in PEM (\"adaptdl admin certificates\")");
  add("--tls-key", options->tls.key, "Its private key, in PEM");
  add("--tls-ca", options->tls.ca, "Certificates of the cluster's CA, in PEM: who is trusted");
  service::ReadFromEnvironment(
      app.add_flag("--insecure", options->insecure,
                   "Serve in plaintext, to everybody, without credentials; on loopback only"));
  service::ReadFromEnvironment(
      app.add_flag("--insecure-anywhere", options->insecure_anywhere,
                   "With --insecure: on every address. Whoever reaches it owns the cluster"));
  add("--token-file", options->token_file,
      "Tokens of people (\"adaptdl admin token\"); read again when it changes");
  add("--jwks-file", options->jwks_file,
      "Keys of an identity provider (a JWK set); read again when it changes");
  add("--jwt-issuer", options->jwt.issuer, "With --jwks-file: the provider, as its tokens name it (\"iss\")")
      ->type_name("URL");
  add("--jwt-audience", options->jwt.audience,
      "With --jwks-file: this cluster, as the tokens name it (\"aud\")")
      ->type_name("NAME");
  add("--audit-log", options->audit_log, "Who changed what, and who was refused, as lines of JSON");
  service::ReadFromEnvironment(
      app.add_option("--audit-log-days", options->audit_log_days, "How long old files of it are kept")
          ->check(CLI::Range(1, 36500))
          ->capture_default_str());
  service::AddBytesFlag(app, "--audit-log-bytes", &options->audit_log_bytes,
                        "Most bytes of all of its files together; the oldest go before their time",
                        int64_t{64} << 20);
}

absl::Status CheckSecurity(const SecurityOptions& options, const std::string& listen) {
  const absl::StatusOr<service::ListenAddress> address = service::ParseListenAddress("--listen", listen);
  if (!address.ok()) return address.status();
  const bool jwt = !options.jwt.issuer.empty() && !options.jwt.audience.empty();
  if (!options.jwks_file.empty() && !jwt)
    return absl::InvalidArgumentError("--jwks-file needs --jwt-issuer and --jwt-audience");
  if (options.insecure) return CheckPlaintext(options, *address);
  if (options.insecure_anywhere) return absl::InvalidArgumentError("--insecure-anywhere needs --insecure");
  if (!HasTls(options)) {
    return absl::InvalidArgumentError(
        "give --tls-cert, --tls-key and --tls-ca (\"adaptdl admin certificates\" makes such files), or "
        "--insecure "
        "for plaintext without credentials on loopback");
  }
  return CheckTls(options);
}

absl::StatusOr<std::shared_ptr<const Guard>> MakeGuard(const SecurityOptions& options, const Clock* clock,
                                                       const Authorities& authorities) {
  GuardOptions guard_options;
  guard_options.open = options.insecure;
  guard_options.token_file = options.token_file;
  guard_options.jwks_file = options.jwks_file;
  guard_options.jwt = options.jwt;
  guard_options.authorities = authorities;
  guard_options.audit.path = options.audit_log;
  guard_options.audit.keep = absl::Hours(24) * options.audit_log_days;
  guard_options.audit.max_total_bytes = options.audit_log_bytes;
  absl::StatusOr<std::unique_ptr<Guard>> guard = Guard::Create(guard_options, clock);
  if (!guard.ok()) return guard.status();
  return std::shared_ptr<const Guard>(*std::move(guard));
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const SecurityOptions& options,
                                                               std::shared_ptr<const Guard> guard) {
  if (options.insecure) return grpc::InsecureServerCredentials();
  tls::TlsServerCredentialsOptions tls_options(std::make_shared<tls::FileWatcherCertificateProvider>(
      options.tls.key, options.tls.certificate, options.tls.ca, rpc::kTlsRefreshSeconds));
  tls_options.watch_root_certs();
  tls_options.watch_identity_key_cert_pairs();
  tls_options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  std::shared_ptr<grpc::ServerCredentials> credentials = tls::TlsServerCredentials(tls_options);
  credentials->SetAuthMetadataProcessor(MakeProcessor(std::move(guard)));
  return credentials;
}

rpc::ClientSecurity ClientSide(const SecurityOptions& options, absl::string_view server_name) {
  rpc::ClientSecurity client;
  client.insecure = options.insecure;
  client.tls = options.tls;
  client.server_name = std::string(server_name);
  return client;
}

}  // namespace adaptdl::security
