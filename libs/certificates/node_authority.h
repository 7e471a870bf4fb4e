// The authority that signs certificates of workers and of nobody else, with its key as PEM files:
//
//   <folder>/node-authority/cert.pem   its certificate, signed by the cluster's authority
//   <folder>/node-authority/key.pem    its private key (mode 0600), for the supervisor
//   <folder>/node-authority/ca.pem     a copy of the cluster's authority
//
// What it may vouch for is limited twice. By X.509: no further authority, and no DNS name but that of workers, so that
// no client takes what it signs for another server. By the guard of each server (libs/service/security/guard.h): who
// has a certificate of an issuer of this name is the worker of one node, whatever the certificate says.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_CERTIFICATES_NODE_AUTHORITY_H_
#define ADAPTDL_LIBS_CERTIFICATES_NODE_AUTHORITY_H_

#include <openssl/evp.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/certificates/openssl.h"

namespace adaptdl::certificates {

// Its common name, by which servers know what it has issued. Nothing else that the cluster's authority signs may have it.
inline constexpr char kNodeAuthorityName[] = "AdaptDL node authority";
// Its sub-folder.
inline constexpr char kNodeAuthorityFolder[] = "node-authority";

// Whether it is one that servers hold to be a node authority's.
bool IssuedByNodeAuthority(X509* certificate);

class NodeAuthority {
 public:
  // From PEM: its certificate, and the private key. INVALID_ARGUMENT: it is no node authority's, or the halves don't
  // belong together.
  static absl::StatusOr<NodeAuthority> FromPem(absl::string_view certificate, absl::string_view key);
  // The same from files, with their paths in the errors.
  static absl::StatusOr<NodeAuthority> FromFiles(const std::string& certificate, const std::string& key);

  // A certificate of `key` for the worker of the node, in PEM, followed by the authority's own. It ends with
  // `lifetime`, or before that with the authority. INVALID_ARGUMENT: no node id. FAILED_PRECONDITION: the authority
  // has ended.
  absl::StatusOr<std::string> Issue(EVP_PKEY* key, const std::string& node_id, absl::Time now,
                                    absl::Duration lifetime) const;

 private:
  NodeAuthority(CertificatePtr certificate, KeyPtr key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  CertificatePtr certificate_;
  KeyPtr key_;
};

}  // namespace adaptdl::certificates

#endif  // ADAPTDL_LIBS_CERTIFICATES_NODE_AUTHORITY_H_
