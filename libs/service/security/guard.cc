#include "libs/service/security/guard.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpc/grpc_security_constants.h"
#include "libs/base/file.h"
#include "libs/certificates/node_authority.h"
#include "libs/certificates/openssl.h"
#include "libs/rpc/status.h"
#include "libs/service/security/permissions.h"

namespace adaptdl::security {
namespace {

constexpr char kUriPrefix[] = "spiffe://adaptdl/";
constexpr size_t kMaxVerified = 4096;
constexpr int64_t kMaxJwksBytes = 1 << 20;

absl::Status NoCredentials() {
  return absl::UnauthenticatedError(
      "no credentials: send a token as \"authorization: Bearer TOKEN\" (adaptdl reads it from "
      "ADAPTDL_TOKEN_FILE), or use a certificate of the cluster's CA");
}

// One text for all of them: a stranger does not learn which tokens there are.
absl::Status NoSuchToken() {
  return absl::UnauthenticatedError("the token is unknown, revoked or expired; ask an admin for another");
}

// "adaptdl_..." of "Bearer adaptdl_..."; empty if it is no bearer token.
std::string BearerToken(grpc::string_ref header) {
  const absl::string_view value(header.data(), header.size());
  constexpr absl::string_view kScheme = "Bearer ";
  return absl::StartsWithIgnoreCase(value, kScheme) ? std::string(value.substr(kScheme.size())) : "";
}

// Whether the URI is that of one node's worker.
bool NamesNode(absl::string_view uri) {
  return absl::ConsumePrefix(&uri, kUriPrefix) && absl::ConsumePrefix(&uri, "worker/") && !uri.empty();
}

// Both places of the guard see the same two things.
Credentials ReadCredentials(const grpc::AuthMetadataProcessor::InputMetadata& metadata,
                            const grpc::AuthContext& context) {
  Credentials credentials;
  const auto header = metadata.find("authorization");
  if (header != metadata.end()) credentials.bearer = BearerToken(header->second);
  for (const grpc::string_ref& uri : context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    credentials.uris.emplace_back(uri.data(), uri.size());
  }
  if (credentials.bearer.empty() && !credentials.uris.empty() && !NamesNode(credentials.uris.front())) {
    for (const grpc::string_ref& pem : context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
      credentials.certificate.assign(pem.data(), pem.size());
    }
  }
  return credentials;
}

// Whoever has the node authority's key may make certificates of workers, and none by which anybody is more. Its issuer's
// name says which authority has signed a certificate, as TLS has verified that, and no other has this name.
bool MayBeMoreThanOneNode(const std::string& pem) {
  const absl::StatusOr<certificates::CertificatePtr> certificate = certificates::CertificateFromPem(pem);
  return certificate.ok() && !certificates::IssuedByNodeAuthority(certificate->get());
}

absl::StatusOr<Caller> IdentifyCertificate(const Credentials& credentials) {
  const std::vector<std::string>& uris = credentials.uris;
  absl::string_view path = uris.front();
  if (uris.size() != 1 || !absl::ConsumePrefix(&path, kUriPrefix)) {
    return absl::UnauthenticatedError(
        "the certificate names no service of a cluster: its only URI must be spiffe://adaptdl/SERVICE");
  }
  Caller caller{.proof = "certificate",
                .name = std::string(path),
                .role = Role::kUser,
                .namespaces = {},
                .node_id = ""};
  const size_t slash = path.find('/');
  const absl::string_view service = path.substr(0, slash);
  const absl::string_view node = slash == absl::string_view::npos ? "" : path.substr(slash + 1);
  const std::optional<Role> role = ParseRole(service);
  const bool of_node = role == Role::kWorker && !node.empty();
  if (!role.has_value() || IsRoleOfPeople(*role) || (slash != absl::string_view::npos && !of_node)) {
    return absl::UnauthenticatedError(
        "the certificate names no service: give supervisor, allocator, autoscaler, worker or worker/NODE");
  }
  if (!of_node && !credentials.certificate.empty() && !MayBeMoreThanOneNode(credentials.certificate)) {
    return absl::UnauthenticatedError(
        "the node authority has issued this certificate, which may name spiffe://adaptdl/worker/NODE only");
  }
  caller.role = *role;
  caller.node_id = std::string(node);
  return caller;
}

std::string Named(absl::string_view method) { return std::string(absl::StripPrefix(method, "/")); }

class Processor final : public grpc::AuthMetadataProcessor {
 public:
  explicit Processor(std::shared_ptr<const Guard> guard) : guard_(std::move(guard)) {}

  // gRPC has threads of its own for those that may.
  bool IsBlocking() const override { return guard_->may_wait(); }

  // Consumes nothing: the handlers look at the token as well. Adds nothing to the context, which belongs to
  // the connection, and so to calls of others.
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) override {
    const auto path = metadata.find(":path");
    const std::string method =
        path == metadata.end() ? "" : std::string(path->second.data(), path->second.size());
    const Credentials credentials = ReadCredentials(metadata, *context);
    const absl::Status status = guard_->Authorize(method, credentials);
    if (!status.ok()) Note(method, credentials, status);
    return rpc::ToGrpcStatus(status);
  }

 private:
  // gRPC does not tell from where a call comes before it reaches a handler.
  void Note(const std::string& method, const Credentials& credentials, const absl::Status& status) const {
    if (guard_->audit_log() == nullptr || absl::IsUnimplemented(status)) return;
    AuditRecord record;
    record.method = method;
    record.code = status.code();
    record.refused = true;
    if (const absl::StatusOr<Caller> caller = guard_->Identify(credentials); caller.ok()) {
      record.caller = Describe(*caller);
      record.role = std::string(RoleName(caller->role));
    }
    guard_->audit_log()->Write(record);
  }

  const std::shared_ptr<const Guard> guard_;
};

absl::StatusOr<std::shared_ptr<const TokenTable>> ReadTokens(const std::string& path) {
  absl::StatusOr<std::vector<Token>> tokens = ReadTokenFile(path);
  if (!tokens.ok()) return tokens.status();
  return std::make_shared<const TokenTable>(*std::move(tokens));
}

absl::StatusOr<std::shared_ptr<const JwtVerifier>> ReadKeys(const std::string& path,
                                                            const JwtOptions& options) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxJwksBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::shared_ptr<const JwtVerifier>> keys = JwtVerifier::Create(*text, options);
  if (!keys.ok()) {
    return absl::Status(keys.status().code(), absl::StrCat(path, ": ", keys.status().message()));
  }
  return keys;
}

}  // namespace

Credentials CredentialsOf(const grpc::ServerContextBase& context) {
  return ReadCredentials(context.client_metadata(), *context.auth_context());
}

absl::StatusOr<std::unique_ptr<Guard>> Guard::Create(const GuardOptions& options, const Clock* clock) {
  std::unique_ptr<Guard> guard(new Guard(options, clock));
  if (const absl::Status status = guard->OpenFiles(); !status.ok()) return status;
  return guard;
}

std::unique_ptr<Guard> Guard::Open() {
  GuardOptions options;
  options.open = true;
  // An open guard has nothing that expires.
  return std::unique_ptr<Guard>(new Guard(options, nullptr));
}

absl::Status Guard::OpenFiles() {
  if (!options_.audit.path.empty()) {
    absl::StatusOr<std::unique_ptr<AuditLog>> log = AuditLog::Open(options_.audit, clock_);
    if (!log.ok()) return log.status();
    audit_log_ = *std::move(log);
  }
  if (!options_.token_file.empty()) {
    auto tokens = WatchedFile<TokenTable>::Open(options_.token_file, ReadTokens);
    if (!tokens.ok()) return tokens.status();
    tokens_ = *std::move(tokens);
  }
  if (!options_.jwks_file.empty()) {
    auto keys = WatchedFile<JwtVerifier>::Open(
        options_.jwks_file, [jwt = options_.jwt](const std::string& path) { return ReadKeys(path, jwt); });
    if (!keys.ok()) return keys.status();
    keys_ = *std::move(keys);
  }
  return absl::OkStatus();
}

absl::StatusOr<Caller> Guard::Identify(const Credentials& credentials) const {
  absl::StatusOr<Caller> caller = IdentifyOurs(credentials);
  if (!IsForCluster(credentials, caller)) return caller;
  const std::optional<Caller> known = options_.authorities.tokens->Recall(credentials.bearer);
  return known.has_value() ? absl::StatusOr<Caller>(*known) : caller;
}

absl::StatusOr<Caller> Guard::Prove(const Credentials& credentials) const {
  absl::StatusOr<Caller> caller = IdentifyOurs(credentials);
  return IsForCluster(credentials, caller) ? options_.authorities.tokens->Ask(credentials.bearer) : caller;
}

bool Guard::IsForCluster(const Credentials& credentials, const absl::StatusOr<Caller>& caller) const {
  // One of ours that was revoked is nobody else's business.
  return may_wait() && !caller.ok() && !credentials.bearer.empty() &&
         !absl::StartsWith(credentials.bearer, kTokenPrefix);
}

absl::StatusOr<Caller> Guard::IdentifyOurs(const Credentials& credentials) const {
  if (options_.open) return Anonymous();
  if (!credentials.bearer.empty()) return IdentifyToken(credentials.bearer);
  if (!credentials.uris.empty()) return IdentifyCertificate(credentials);
  return NoCredentials();
}

absl::StatusOr<Caller> Guard::IdentifyToken(const std::string& token) const {
  if (options_.authorities.jobs != nullptr && absl::StartsWith(token, kJobTokenPrefix)) {
    std::optional<Caller> job = options_.authorities.jobs->Find(token);
    return job.has_value() ? absl::StatusOr<Caller>(*std::move(job)) : NoSuchToken();
  }
  if (keys_ != nullptr && LooksLikeJwt(token)) return IdentifyJwt(token);
  if (tokens_ == nullptr) return NoSuchToken();
  const std::shared_ptr<const TokenTable> tokens = tokens_->Get();
  const Token* found = tokens->Find(token, clock_->Now());
  if (found == nullptr) return NoSuchToken();
  return Caller{.proof = "token",
                .name = found->name,
                .role = found->role,
                .namespaces = found->namespaces,
                .node_id = ""};
}

absl::StatusOr<Caller> Guard::IdentifyJwt(const std::string& token) const {
  const std::shared_ptr<const JwtVerifier> keys = keys_->Get();
  const std::string hash = Sha256Hex(token);
  const absl::Time now = clock_->Now();
  {
    MutexLock lock(&mutex_);
    if (verified_by_ != keys) verified_.clear();
    verified_by_ = keys;
    const auto it = verified_.find(hash);
    if (it != verified_.end() && it->second.not_before <= now && now < it->second.expires) {
      return it->second.caller;
    }
  }
  absl::StatusOr<JwtIdentity> identity = keys->Verify(token, now);
  if (!identity.ok()) return identity.status();
  MutexLock lock(&mutex_);
  // There are as many as there are people: a full map is one of tokens that have expired.
  if (verified_.size() >= kMaxVerified) verified_.clear();
  if (verified_by_ == keys) verified_[hash] = *identity;
  return std::move(identity->caller);
}

absl::Status Guard::Authorize(absl::string_view method, const Credentials& credentials) const {
  if (options_.open) return absl::OkStatus();
  const Permission* permission = FindPermission(method);
  if (permission != nullptr && permission->access == Access::kPublic) return absl::OkStatus();
  if (permission != nullptr && permission->access == Access::kReplica) {
    return credentials.bearer.empty()
               ? absl::UnauthenticatedError(
                     "no credentials: a replica sends what ADAPTDL_GROUP_TOKEN holds as "
                     "\"authorization: Bearer TOKEN\"")
               : absl::OkStatus();
  }
  const absl::StatusOr<Caller> caller = Prove(credentials);
  if (!caller.ok()) return caller.status();
  // Clients that are newer than this server look for this code.
  if (permission == nullptr) return absl::UnimplementedError("this server has no such method");
  if (caller->role == Role::kAccount) {
    // What is in a namespace, the handler checks.
    return permission->in_namespace ? absl::OkStatus() : CheckAccount(*caller, *permission, "*");
  }
  if (IsAllowed(*permission, caller->role)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(Describe(*caller), " with role ", RoleName(caller->role),
                                                  " may not call ", Named(method), "; that takes role ",
                                                  AllowedRoles(*permission)));
}

absl::StatusOr<Caller> Guard::CallerOf(const grpc::ServerContextBase& context) const {
  return options_.open ? Anonymous() : Identify(CredentialsOf(context));
}

absl::Status Guard::CheckNamespace(const Credentials& credentials, absl::string_view method,
                                   absl::string_view name_space) const {
  if (options_.open) return absl::OkStatus();
  const absl::StatusOr<Caller> caller = Prove(credentials);
  if (!caller.ok()) return caller.status();
  if (caller->role != Role::kAccount) return security::CheckNamespace(*caller, name_space);
  const Permission* permission = FindPermission(method);
  if (permission == nullptr)
    return absl::InternalError(absl::StrCat(method, " is in no table of permissions"));
  return CheckAccount(*caller, *permission, name_space);
}

absl::Status Guard::CheckAccount(const Caller& caller, const Permission& permission,
                                 absl::string_view name_space) const {
  if (permission.for_all_accounts) return absl::OkStatus();
  if (permission.rule.verb.empty()) {
    return absl::PermissionDeniedError(absl::StrCat(
        Describe(caller), " may not call ", Named(permission.method), "; no account of the cluster may"));
  }
  const absl::string_view wanted = name_space.empty() ? "default" : name_space;
  if (wanted != "*" && !IsNamespaceName(wanted)) {
    return absl::PermissionDeniedError(absl::StrCat(Describe(caller), " may not use that namespace"));
  }
  return options_.authorities.access->Check(caller, permission.rule,
                                            wanted == "*" ? "" : std::string(wanted));
}

absl::Status Guard::CheckNode(const grpc::ServerContextBase& context, absl::string_view node_id) const {
  const absl::StatusOr<Caller> caller = CallerOf(context);
  return caller.ok() ? security::CheckNode(*caller, node_id) : caller.status();
}

std::shared_ptr<grpc::AuthMetadataProcessor> MakeProcessor(std::shared_ptr<const Guard> guard) {
  return std::make_shared<Processor>(std::move(guard));
}

}  // namespace adaptdl::security
