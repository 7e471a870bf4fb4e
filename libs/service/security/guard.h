// The guard of a server: finds out who calls, and lets nobody call what is not theirs to call
// (permissions.h).
//
// It stands at two places. Before any handler, its processor refuses a call whose caller may not make it. In
// the handlers, CallerOf() tells who it is, so that they can check what is named in the request:
//
//   if (const absl::Status status = guard->CheckNamespace(*context, request->namespace_()); !status.ok()) ...
//
// Callers prove who they are by
//   - a token of the token file or of the identity provider, as "authorization: Bearer TOKEN";
//   - else a certificate of the cluster's CA whose only URI is "spiffe://adaptdl/SERVICE" (supervisor,
//   allocator,
//     autoscaler, worker) or "spiffe://adaptdl/worker/NODE".
// A token that is not valid is refused, whatever the certificate says.
//
// A guard without credentials to check (--insecure) takes everybody for an admin.
//
// Thread-safe. Files of credentials are read again when they change, within a second or so.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_GUARD_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_GUARD_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/server_context.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/service/security/audit_log.h"
#include "libs/service/security/identity.h"
#include "libs/service/security/jwt.h"
#include "libs/service/security/token_file.h"
#include "libs/service/security/watched_file.h"

namespace adaptdl::security {

struct GuardOptions {
  // Everybody is an admin, and the other fields are empty but for the audit log.
  bool open = false;
  // Empty: there are no such tokens.
  std::string token_file;
  // A JWK set. Empty: there is no identity provider.
  std::string jwks_file;
  JwtOptions jwt;
  // Path empty: none.
  AuditOptions audit;
};

// What a call brings along.
struct Credentials {
  // Without "Bearer ".
  std::string bearer;
  // URIs of the certificate, which TLS has verified.
  std::vector<std::string> uris;
};

// Those of a call.
Credentials CredentialsOf(const grpc::ServerContextBase& context);

class Guard {
 public:
  // `clock` outlives it. Fails if a file can't be read.
  static absl::StatusOr<std::unique_ptr<Guard>> Create(const GuardOptions& options, const Clock* clock);
  // Everybody is an admin.
  static std::unique_ptr<Guard> Open();

  bool open() const { return options_.open; }

  // UNAUTHENTICATED unless the credentials prove who the caller is.
  absl::StatusOr<Caller> Identify(const Credentials& credentials) const;

  // Whether such a caller may call `method` ("/package.Service/Method"): UNAUTHENTICATED, PERMISSION_DENIED,
  // or UNIMPLEMENTED for a method that is not known, from somebody who is.
  absl::Status Authorize(absl::string_view method, const Credentials& credentials) const;

  // Who makes the call.
  absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context) const;
  // For handlers: security::CheckNamespace() and CheckNode() with the call's caller.
  absl::Status CheckNamespace(const grpc::ServerContextBase& context, absl::string_view name_space) const;
  absl::Status CheckNode(const grpc::ServerContextBase& context, absl::string_view node_id) const;
  // The same for what a call brought along: for streams that outlive what allowed them.
  absl::Status CheckNamespace(const Credentials& credentials, absl::string_view name_space) const;

  // Null: none.
  AuditLog* audit_log() const { return audit_log_.get(); }

 private:
  Guard(const GuardOptions& options, const Clock* clock) : options_(options), clock_(clock) {}

  absl::Status OpenFiles();
  absl::StatusOr<Caller> IdentifyToken(const std::string& token) const;
  absl::StatusOr<Caller> IdentifyJwt(const std::string& token) const;

  const GuardOptions options_;
  const Clock* const clock_;
  std::unique_ptr<WatchedFile<TokenTable>> tokens_;
  std::unique_ptr<WatchedFile<JwtVerifier>> keys_;
  std::unique_ptr<AuditLog> audit_log_;

  // Tokens of the identity provider that were verified, by SHA-256, as signatures take their time. Belongs to
  // the keys they were verified with.
  mutable Mutex mutex_;
  mutable std::shared_ptr<const JwtVerifier> verified_by_ ABSL_GUARDED_BY(mutex_);
  mutable std::unordered_map<std::string, JwtIdentity> verified_ ABSL_GUARDED_BY(mutex_);
};

// The guard's place before the handlers, for a server's credentials. Keeps `guard` alive.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeProcessor(std::shared_ptr<const Guard> guard);

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_GUARD_H_
