// The private authority of a cluster and the certificates of its services, as PEM files (ECDSA, P-256):
//
//   <folder>/ca.pem                 the authority's certificate, for everybody
//   <folder>/ca.key                 its private key, for nobody but who makes certificates (mode 0600)
//   <folder>/<name>/cert.pem        a service's certificate
//   <folder>/<name>/key.pem         its private key (mode 0600)
//   <folder>/<name>/ca.pem          a copy of the authority's certificate
//
// so that a service needs its own sub-folder only. A certificate names a service, not a host: the DNS name
// "supervisor.adaptdl" and the URI "spiffe://adaptdl/supervisor"; that of a worker may name its node,
// "spiffe://adaptdl/worker/NODE_ID". Each serves for both ends of a connection.
//
// A webhook's is called by a DNS name of the cluster instead. The authority by which machines are let in as nodes is one
// more sub-folder (node_authority.h).
//
// Making them again renews what nears its end, with a new key, and leaves the rest as it is. The authority is
// made once.
//
// Thread-safe; two at a time in one folder undo each other's work.

#ifndef ADAPTDL_LIBS_CERTIFICATES_CERTIFICATES_H_
#define ADAPTDL_LIBS_CERTIFICATES_CERTIFICATES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::certificates {

// What a certificate is for.
struct Identity {
  // One of kServices, or kWebhook.
  std::string service;
  // Of a worker only: the one node that may be registered with it. Empty: any.
  std::string node_id = {};
  // Of a webhook only, and always: the name that callers verify.
  std::string dns_name = {};

  // Name of its sub-folder: "supervisor", "worker-NODE_ID".
  std::string FolderName() const;
  // "supervisor.adaptdl", or a webhook's `dns_name`.
  std::string DnsName() const;
  // "spiffe://adaptdl/supervisor", "spiffe://adaptdl/worker/NODE_ID".
  std::string Uri() const;
};

inline constexpr const char* kServices[] = {"supervisor", "allocator", "autoscaler", "worker"};
// What an API server of Kubernetes calls. Its certificate makes it none of the services.
inline constexpr char kWebhook[] = "webhook";

// INVALID_ARGUMENT: an unknown service, or a node id or DNS name that is no name.
absl::Status CheckIdentity(const Identity& identity);

struct Options {
  std::string folder;
  std::vector<Identity> identities;
  // Whether to make the node authority, too. The certificate of an authority that can't have one, as earlier versions
  // made it, is then made anew, with its key: what it has signed stays good, and everybody needs the new ca.pem.
  bool node_authority = false;
  // Life of new certificates; they never outlive the authority's own.
  absl::Duration lifetime = absl::Hours(24) * 365;
  absl::Time now;
  // Nothing is made or written: for a look at what there is.
  bool only_look = false;
};

// What became of a file.
enum class Action {
  kKept,     // good for a while yet
  kMade,     // it was not there
  kRenewed,  // it neared its end, or was not what was asked for
  kMissing,  // when only looking: it would be made
  kDue,      // when only looking: it would be renewed
};

struct Certificate {
  // Path of the certificate's file.
  std::string path;
  // "the authority", "the node authority", else the identity's URI.
  std::string name;
  // InfinitePast for one that is missing.
  absl::Time expires;
  Action action;
};

// Clocks of machines differ: a certificate is good from a little before it was made.
inline constexpr absl::Duration kClockSkew = absl::Minutes(10);

// The life of an authority.
inline constexpr absl::Duration kAuthorityLifetime = absl::Hours(24 * 3650);

// Whether a certificate of this life is to be renewed at `now`: less than a third of it is left.
bool IsDue(absl::Time not_before, absl::Time not_after, absl::Time now);

// Makes what is missing or due; the authority comes first in the answer. INVALID_ARGUMENT: an unknown
// service, or a node id or DNS name that is no name. FAILED_PRECONDITION: the authority has ended, one half of it is
// missing, or its halves don't belong together; the text says what to do.
absl::StatusOr<std::vector<Certificate>> MakeCertificates(const Options& options);

// The certificates of all four services, as cluster up and tests need them.
std::vector<Identity> AllServices();

}  // namespace adaptdl::certificates

#endif  // ADAPTDL_LIBS_CERTIFICATES_CERTIFICATES_H_
