// How a client makes sure whom it talks to, and says who it is: TLS with files that may change while the
// program runs, and a bearer token. A certificate names a service, not a host ("supervisor.adaptdl"), so
// that addresses may change; docs/security.md says how they are made.
//
// All of it is thread-safe.

#ifndef ADAPTDL_LIBS_RPC_SECURITY_H_
#define ADAPTDL_LIBS_RPC_SECURITY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/credentials.h"

namespace adaptdl::rpc {

// The names in the services' certificates, as their clients expect them.
inline constexpr char kSupervisorName[] = "supervisor.adaptdl";
inline constexpr char kAllocatorName[] = "allocator.adaptdl";
inline constexpr char kAutoscalerName[] = "autoscaler.adaptdl";
inline constexpr char kWorkerName[] = "worker.adaptdl";

// How often the files are looked at for changes; connections made later use the new contents.
inline constexpr int kTlsRefreshSeconds = 2;

// Paths of PEM files.
struct TlsFiles {
  // Certificates of the authorities that are trusted.
  std::string ca;
  // The own certificate, followed by those between it and the authority's, and its private key. Both or
  // neither; a server needs them, a client with a token does not.
  std::string certificate;
  std::string key;

  bool empty() const { return ca.empty() && certificate.empty() && key.empty(); }
};

// INVALID_ARGUMENT: no CA, or a certificate without its key. Files that can't be read, without PEM in them,
// or a certificate that is not the key's: the file and why. So a program says at its start what else would
// only show as failing connections.
absl::Status CheckTlsFiles(const TlsFiles& files);

struct ClientSecurity {
  // No TLS and no token: for tests, and for clusters that nobody else can reach.
  bool insecure = false;
  TlsFiles tls;
  // Sent with each call as "authorization: Bearer TOKEN" unless empty. Never sent without TLS.
  std::string token;
  // The name that the server's certificate must have. Empty: the host of its address.
  std::string server_name;
};

// Talks to whoever answers, in plaintext.
ClientSecurity Plaintext();

// `security` for another server: what is expected of it is its own, the rest is shared.
ClientSecurity ForServer(ClientSecurity security, absl::string_view server_name);

// CheckTlsFiles(), unless insecure.
absl::Status CheckClientSecurity(const ClientSecurity& security);

// What channels are made with. Copies share one watch of the files.
struct ClientCredentials {
  // Null: neither `insecure` nor complete TLS files were given; each call over such a channel fails.
  std::shared_ptr<grpc::ChannelCredentials> channel;
  std::string server_name;
};

ClientCredentials MakeClientCredentials(const ClientSecurity& security);

}  // namespace adaptdl::rpc

#endif  // ADAPTDL_LIBS_RPC_SECURITY_H_
