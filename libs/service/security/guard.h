// The guard of a server: finds out who calls, and lets nobody call what is not theirs to call
// (permissions.h).
//
// It stands at two places. Before any handler, its processor refuses a call whose caller may not make it. In
// the handlers, CallerOf() tells who it is, so that they can check what is named in the request:
//
//   if (const absl::Status status = guard->CheckNamespace(CredentialsOf(*context), kMethod, request->namespace_());
//       !status.ok()) ...
//
// Callers prove who they are by
//   - a token of the token file or of the identity provider, or one that this server has given to a job
//   (authority.h), as "authorization: Bearer TOKEN";
//   - else a certificate of the cluster's CA whose only URI is "spiffe://adaptdl/SERVICE" (supervisor,
//   allocator,
//     autoscaler, worker) or "spiffe://adaptdl/worker/NODE". One that the node authority has issued
//     (libs/certificates/node_authority.h) makes its owner the worker of one node, and nobody else.
// A token that is not valid is refused, whatever the certificate says.
//
// A cluster may have tokens and rules of its own (authority.h): it is asked about tokens that are none of those,
// and what their callers may do. That may take its time, so Authorize() and CheckNamespace() may wait then, and are
// called where one may; CallerOf() and Identify() never do, and go by what the cluster said last.
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
#include "libs/service/security/authority.h"
#include "libs/service/security/identity.h"
#include "libs/service/security/jwt.h"
#include "libs/service/security/permissions.h"
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
  // Of a cluster with tokens of its own, and of jobs. Null: there is none.
  Authorities authorities = {};
};

// What a call brings along.
struct Credentials {
  // Without "Bearer ".
  std::string bearer;
  // URIs of the certificate, which TLS has verified.
  std::vector<std::string> uris;
  // The certificate, in PEM, where it claims to be more than the worker of one node.
  std::string certificate = {};
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
  // Whether Authorize() and CheckNamespace() may wait.
  bool may_wait() const { return options_.authorities.tokens != nullptr; }

  // UNAUTHENTICATED unless the credentials prove who the caller is.
  absl::StatusOr<Caller> Identify(const Credentials& credentials) const;

  // Whether such a caller may call `method` ("/package.Service/Method"): UNAUTHENTICATED, PERMISSION_DENIED,
  // or UNIMPLEMENTED for a method that is not known, from somebody who is.
  absl::Status Authorize(absl::string_view method, const Credentials& credentials) const;

  // Who makes the call.
  absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context) const;
  // For handlers of methods that are `in_namespace`, and for streams that outlive what allowed them: whether who
  // brought these along may use the method in the namespace.
  absl::Status CheckNamespace(const Credentials& credentials, absl::string_view method,
                              absl::string_view name_space) const;
  // For handlers: security::CheckNode() with the call's caller.
  absl::Status CheckNode(const grpc::ServerContextBase& context, absl::string_view node_id) const;

  // Null: none.
  AuditLog* audit_log() const { return audit_log_.get(); }

 private:
  Guard(const GuardOptions& options, const Clock* clock) : options_(options), clock_(clock) {}

  absl::Status OpenFiles();
  // As Identify(), but the cluster is asked.
  absl::StatusOr<Caller> Prove(const Credentials& credentials) const;
  // Without the cluster.
  absl::StatusOr<Caller> IdentifyOurs(const Credentials& credentials) const;
  // Whether the cluster is to say whose these are, which are nobody's of ours.
  bool IsForCluster(const Credentials& credentials, const absl::StatusOr<Caller>& caller) const;
  absl::StatusOr<Caller> IdentifyToken(const std::string& token) const;
  // `name_space`: "*" for the whole cluster.
  absl::Status CheckAccount(const Caller& caller, const Permission& permission,
                            absl::string_view name_space) const;
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
