// How a server is secured: its flags, what they must fulfil, and the credentials that come of them.
//
// Values and functions; thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_SERVER_SECURITY_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_SERVER_SECURITY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/base/clock.h"
#include "libs/rpc/security.h"
#include "libs/service/security/guard.h"

namespace CLI {
class App;
}  // namespace CLI

namespace adaptdl::security {

struct SecurityOptions {
  // Certificate, key and CA of TLS. All three, unless `insecure`.
  rpc::TlsFiles tls;
  // Plaintext, and everybody is an admin. Only on loopback, unless `insecure_anywhere`.
  bool insecure = false;
  bool insecure_anywhere = false;
  // Who may call, besides services with certificates: see guard.h. Empty: nobody else.
  std::string token_file;
  std::string jwks_file;
  JwtOptions jwt;
  // File of the audit log. Empty: none.
  std::string audit_log;
  // How long its old files are kept, and most bytes of all of them together, which comes first.
  int audit_log_days = 90;
  int64_t audit_log_bytes = int64_t{4} << 30;
};

// Adds --tls-cert, --tls-key, --tls-ca, --insecure, --insecure-anywhere, --token-file, --jwks-file,
// --jwt-issuer, --jwt-audience, --audit-log, --audit-log-days and --audit-log-bytes. `options` must outlive
// the parsing.
void AddSecurityFlags(CLI::App& app, SecurityOptions* options);

// INVALID_ARGUMENT names the flags that are missing or contradict each other: neither TLS nor plaintext,
// plaintext on an address that others can reach, tokens that plaintext would give away, or a file of TLS that
// can't be used.
// `listen`: the address, "host:port".
absl::Status CheckSecurity(const SecurityOptions& options, const std::string& listen);

// The guard that `options` ask for. `clock` outlives it.
absl::StatusOr<std::shared_ptr<const Guard>> MakeGuard(const SecurityOptions& options, const Clock* clock,
                                                       const Authorities& authorities = {});

// For options that CheckSecurity() accepts. Certificates of clients are asked for and verified, but not
// needed: people have tokens. Files that change are used for connections made later.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const SecurityOptions& options,
                                                               std::shared_ptr<const Guard> guard);

// A service is a client of others with the same certificate: how it talks to `server_name`, one of the names
// in libs/rpc/security.h.
rpc::ClientSecurity ClientSide(const SecurityOptions& options, absl::string_view server_name);

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_SERVER_SECURITY_H_
