#include "libs/certificates/node_authority.h"

#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/certificates/certificates.h"

namespace adaptdl::certificates {
bool IssuedByNodeAuthority(X509* certificate) { return IssuerName(certificate) == kNodeAuthorityName; }

absl::StatusOr<NodeAuthority> NodeAuthority::FromPem(absl::string_view certificate, absl::string_view key) {
  absl::StatusOr<CertificatePtr> own = CertificateFromPem(certificate);
  if (!own.ok()) return own.status();
  absl::StatusOr<KeyPtr> own_key = KeyFromPem(key);
  if (!own_key.ok()) return own_key.status();
  if (SubjectName(own->get()) != kNodeAuthorityName || X509_check_ca(own->get()) != 1 ||
      PathLength(own->get()) != 0) {
    return absl::InvalidArgumentError(
        "the certificate is no node authority's; \"adaptdl admin certificates --node-authority\" makes one");
  }
  if (X509_check_private_key(own->get(), own_key->get()) != 1)
    return absl::InvalidArgumentError("the certificate and the key don't belong together");
  return NodeAuthority(*std::move(own), *std::move(own_key));
}

absl::StatusOr<NodeAuthority> NodeAuthority::FromFiles(const std::string& certificate,
                                                       const std::string& key) {
  const absl::StatusOr<std::string> certificate_pem = ReadWholeFile(certificate, kMaxPemFileBytes);
  if (!certificate_pem.ok()) return certificate_pem.status();
  const absl::StatusOr<std::string> key_pem = ReadWholeFile(key, kMaxPemFileBytes);
  if (!key_pem.ok()) return key_pem.status();
  absl::StatusOr<NodeAuthority> authority = FromPem(*certificate_pem, *key_pem);
  if (authority.ok()) return authority;
  return absl::Status(authority.status().code(),
                      absl::StrCat(certificate, ", ", key, ": ", authority.status().message()));
}

absl::StatusOr<std::string> NodeAuthority::Issue(EVP_PKEY* key, const std::string& node_id, absl::Time now,
                                                 absl::Duration lifetime) const {
  const Identity identity = {.service = "worker", .node_id = node_id};
  if (absl::Status status = CheckIdentity(identity); !status.ok()) return status;
  if (node_id.empty()) return absl::InvalidArgumentError("node_id: give the name of the node");
  const absl::Time end = NotAfter(certificate_.get());
  if (end <= now) {
    return absl::FailedPreconditionError(
        absl::StrCat("the node authority has ended at ", absl::FormatTime(end, absl::UTCTimeZone()),
                     "; renew it by \"adaptdl admin certificates --node-authority\""));
  }
  const absl::StatusOr<CertificatePtr> issued =
      MakeCertificate({.common_name = identity.DnsName(),
                       .dns_name = identity.DnsName(),
                       .uri = identity.Uri(),
                       .not_before = std::max(now - kClockSkew, NotBefore(certificate_.get())),
                       .not_after = std::min(now + lifetime, end)},
                      key, certificate_.get(), key_.get());
  if (!issued.ok()) return issued.status();
  return absl::StrCat(ToPem(issued->get()), ToPem(certificate_.get()));
}

}  // namespace adaptdl::certificates
