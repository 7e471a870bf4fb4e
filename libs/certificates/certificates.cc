#include "libs/certificates/certificates.h"

#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/file.h"
#include "libs/certificates/node_authority.h"
#include "libs/certificates/openssl.h"

namespace adaptdl::certificates {
namespace {

constexpr int kPublicMode = 0644;
constexpr int kSecretMode = 0600;
constexpr size_t kMaxName = 253;

struct Authority {
  CertificatePtr certificate;
  KeyPtr key;
  std::string pem;
};

std::string CaFile(const std::string& folder) { return folder + "/ca.pem"; }
std::string CaKeyFile(const std::string& folder) { return folder + "/ca.key"; }

// It becomes part of a path and of a URI, or of what a certificate says.
absl::Status CheckName(absl::string_view what, const std::string& name) {
  const bool characters = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
  if (characters && name.size() <= kMaxName) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is no ", what, ": use letters, digits, \".\", \"_\" and \"-\""));
}

}  // namespace

absl::Status CheckIdentity(const Identity& identity) {
  const bool is_webhook = identity.service == kWebhook;
  if (is_webhook == identity.dns_name.empty()) {
    return absl::InvalidArgumentError(
        "a webhook's certificate, and no other, is for a DNS name that is given");
  }
  const bool is_service =
      std::find(std::begin(kServices), std::end(kServices), identity.service) != std::end(kServices);
  if (!is_service && !is_webhook) {
    return absl::InvalidArgumentError(absl::StrCat("there is no service \"", identity.service, "\": give ",
                                                   absl::StrJoin(kServices, ", ")));
  }
  if (!identity.node_id.empty() && identity.service != "worker") {
    return absl::InvalidArgumentError("only a worker's certificate can be for one node");
  }
  absl::Status status = CheckName("node id", identity.node_id);
  status.Update(CheckName("DNS name", identity.dns_name));
  return status;
}

namespace {

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("make folder ", folder)) : absl::OkStatus();
}

absl::Status Broken(const std::string& folder, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the authority in ", folder, " can't be used: ", what,
                   "; put its files ca.pem and ca.key back, or remove "
                   "both for a new authority, which all services and users must then be given"));
}

absl::StatusOr<Authority> ReadAuthority(const std::string& folder, absl::Time now) {
  const absl::StatusOr<std::string> pem = ReadWholeFile(CaFile(folder), kMaxPemFileBytes);
  const absl::StatusOr<std::string> key_pem = ReadWholeFile(CaKeyFile(folder), kMaxPemFileBytes);
  if (absl::IsNotFound(pem.status()) && absl::IsNotFound(key_pem.status())) return pem.status();
  for (const absl::Status& status : {pem.status(), key_pem.status()}) {
    if (absl::IsNotFound(status)) return Broken(folder, status.message());
    if (!status.ok()) return status;
  }
  absl::StatusOr<CertificatePtr> certificate = CertificateFromPem(*pem);
  absl::StatusOr<KeyPtr> key = KeyFromPem(*key_pem);
  if (!certificate.ok()) return Broken(folder, certificate.status().message());
  if (!key.ok()) return Broken(folder, key.status().message());
  if (X509_check_private_key(certificate->get(), key->get()) != 1)
    return Broken(folder, "the key is that of another certificate");
  if (NotAfter(certificate->get()) <= now) return Broken(folder, "it has ended");
  return Authority{*std::move(certificate), *std::move(key), *pem};
}

Contents ContentsOfAuthority(absl::Time now, absl::Time end) {
  return {.common_name = "AdaptDL cluster authority",
          .dns_name = "",
          .uri = "",
          .not_before = now - kClockSkew,
          .not_after = end,
          .kind = Kind::kAuthority};
}

absl::StatusOr<Authority> NewAuthority(const Options& options) {
  absl::StatusOr<KeyPtr> key = MakeKey();
  if (!key.ok()) return key.status();
  absl::StatusOr<CertificatePtr> certificate = MakeCertificate(
      ContentsOfAuthority(options.now, options.now + kAuthorityLifetime), key->get(), nullptr, nullptr);
  if (!certificate.ok()) return certificate.status();
  const std::string pem = ToPem(certificate->get());
  absl::Status status = WriteFileAtomically(CaKeyFile(options.folder), ToPem(key->get()), kSecretMode);
  if (status.ok()) status = WriteFileAtomically(CaFile(options.folder), pem, kPublicMode);
  if (!status.ok()) return status;
  return Authority{*std::move(certificate), *std::move(key), pem};
}

// Whether another authority may stand below it.
bool AllowsNodeAuthority(const Authority& authority) { return PathLength(authority.certificate.get()) != 0; }

// Has the authority, with its key and its end, say that another one may stand below it.
absl::Status AllowNodeAuthority(const Options& options, Authority* authority) {
  absl::StatusOr<CertificatePtr> certificate =
      MakeCertificate(ContentsOfAuthority(options.now, NotAfter(authority->certificate.get())),
                      authority->key.get(), nullptr, nullptr);
  if (!certificate.ok()) return certificate.status();
  authority->certificate = *std::move(certificate);
  authority->pem = ToPem(authority->certificate.get());
  return WriteFileAtomically(CaFile(options.folder), authority->pem, kPublicMode);
}

// A service's certificate as it lies in its folder. Null: none that could be used.
CertificatePtr ReadOwn(const std::string& folder) {
  const absl::StatusOr<std::string> pem = ReadWholeFile(folder + "/cert.pem", kMaxPemFileBytes);
  const absl::StatusOr<std::string> key_pem = ReadWholeFile(folder + "/key.pem", kMaxPemFileBytes);
  if (!pem.ok() || !key_pem.ok()) return nullptr;
  absl::StatusOr<CertificatePtr> certificate = CertificateFromPem(*pem);
  const absl::StatusOr<KeyPtr> key = KeyFromPem(*key_pem);
  if (!certificate.ok() || !key.ok()) return nullptr;
  return X509_check_private_key(certificate->get(), key->get()) == 1 ? *std::move(certificate) : nullptr;
}

// What is to lie in one sub-folder.
struct Wanted {
  std::string folder;
  // For people.
  std::string name;
  // Its times are set when it is made.
  Contents contents;
  std::vector<std::string> names;
};

Wanted WantedOf(const Identity& identity) {
  return {.folder = identity.FolderName(),
          .name = identity.Uri(),
          .contents = {.common_name = identity.DnsName(),
                       .dns_name = identity.DnsName(),
                       .uri = identity.Uri(),
                       .not_before = absl::InfinitePast(),
                       .not_after = absl::InfinitePast()},
          .names = {identity.DnsName(), identity.Uri()}};
}

Wanted WantedNodeAuthority() {
  return {.folder = kNodeAuthorityFolder,
          .name = "the node authority",
          .contents = {.common_name = kNodeAuthorityName,
                       .dns_name = Identity{.service = "worker"}.DnsName(),
                       .uri = "",
                       .not_before = absl::InfinitePast(),
                       .not_after = absl::InfinitePast(),
                       .kind = Kind::kNodeAuthority},
          .names = {}};
}

std::vector<Wanted> AllWanted(const Options& options) {
  std::vector<Wanted> wanted;
  for (const Identity& identity : options.identities) wanted.push_back(WantedOf(identity));
  if (options.node_authority) wanted.push_back(WantedNodeAuthority());
  return wanted;
}

bool IsGood(const Wanted& wanted, const Authority& authority, X509* certificate, absl::Time now) {
  return X509_verify(certificate, authority.key.get()) == 1 &&
         SubjectName(certificate) == wanted.contents.common_name && Names(certificate) == wanted.names &&
         (X509_check_ca(certificate) == 1) == (wanted.contents.kind != Kind::kService) &&
         !IsDue(NotBefore(certificate), NotAfter(certificate), now);
}

absl::StatusOr<absl::Time> Issue(const Options& options, const Wanted& wanted, const Authority& authority,
                                 const std::string& folder) {
  const absl::StatusOr<KeyPtr> key = MakeKey();
  if (!key.ok()) return key.status();
  Contents contents = wanted.contents;
  contents.not_before = options.now - kClockSkew;
  contents.not_after = std::min(options.now + options.lifetime, NotAfter(authority.certificate.get()));
  const absl::StatusOr<CertificatePtr> certificate =
      MakeCertificate(contents, key->get(), authority.certificate.get(), authority.key.get());
  if (!certificate.ok()) return certificate.status();
  // The key first: whoever reads between the two finds that they don't match, and looks again.
  absl::Status status = WriteFileAtomically(folder + "/key.pem", ToPem(key->get()), kSecretMode);
  if (status.ok()) {
    status = WriteFileAtomically(folder + "/cert.pem", ToPem(certificate->get()), kPublicMode);
  }
  if (!status.ok()) return status;
  return NotAfter(certificate->get());
}

absl::Status CopyAuthority(const Authority& authority, const std::string& folder) {
  const std::string path = CaFile(folder);
  if (ReadWholeFile(path, kMaxPemFileBytes).value_or("") == authority.pem) return absl::OkStatus();
  return WriteFileAtomically(path, authority.pem, kPublicMode);
}

absl::StatusOr<Certificate> Ensure(const Options& options, const Wanted& wanted, const Authority& authority) {
  const std::string folder = absl::StrCat(options.folder, "/", wanted.folder);
  const CertificatePtr own = ReadOwn(folder);
  std::error_code error;
  const bool there = std::filesystem::exists(folder + "/cert.pem", error);
  Certificate result{.path = folder + "/cert.pem",
                     .name = wanted.name,
                     .expires = own == nullptr ? absl::InfinitePast() : NotAfter(own.get()),
                     .action = Action::kKept};
  const bool good = own != nullptr && IsGood(wanted, authority, own.get(), options.now);
  if (options.only_look) {
    if (!good) result.action = there ? Action::kDue : Action::kMissing;
    return result;
  }
  if (absl::Status status = MakeFolder(folder); !status.ok()) return status;
  if (absl::Status status = CopyAuthority(authority, folder); !status.ok()) return status;
  if (good) return result;
  const absl::StatusOr<absl::Time> expires = Issue(options, wanted, authority, folder);
  if (!expires.ok()) return expires.status();
  result.expires = *expires;
  result.action = there ? Action::kRenewed : Action::kMade;
  return result;
}

Action ActionOfAuthority(const Options& options, bool is_new, bool too_narrow, X509* ca) {
  if (is_new) return Action::kMade;
  if (too_narrow && !options.only_look) return Action::kRenewed;
  // It can't be renewed without all who trust it: its coming end is only told.
  const bool due = too_narrow || IsDue(NotBefore(ca), NotAfter(ca), options.now);
  return options.only_look && due ? Action::kDue : Action::kKept;
}

std::vector<Certificate> AllMissing(const Options& options) {
  std::vector<Certificate> missing = {
      {CaFile(options.folder), "the authority", absl::InfinitePast(), Action::kMissing}};
  for (const Wanted& wanted : AllWanted(options)) {
    missing.push_back({absl::StrCat(options.folder, "/", wanted.folder, "/cert.pem"), wanted.name,
                       absl::InfinitePast(), Action::kMissing});
  }
  return missing;
}

}  // namespace

std::string Identity::FolderName() const {
  return node_id.empty() ? service : absl::StrCat(service, "-", node_id);
}

std::string Identity::DnsName() const {
  return dns_name.empty() ? absl::StrCat(service, ".adaptdl") : dns_name;
}

std::string Identity::Uri() const {
  return absl::StrCat("spiffe://adaptdl/", service, node_id.empty() ? "" : "/", node_id);
}

bool IsDue(absl::Time not_before, absl::Time not_after, absl::Time now) {
  return not_after - now < (not_after - not_before) / 3;
}

absl::StatusOr<std::vector<Certificate>> MakeCertificates(const Options& options) {
  for (const Identity& identity : options.identities) {
    if (absl::Status status = CheckIdentity(identity); !status.ok()) return status;
  }
  absl::StatusOr<Authority> authority = ReadAuthority(options.folder, options.now);
  const bool is_new = absl::IsNotFound(authority.status());
  if (is_new && options.only_look) return AllMissing(options);
  if (is_new) {
    if (absl::Status status = MakeFolder(options.folder); !status.ok()) return status;
    authority = NewAuthority(options);
  }
  if (!authority.ok()) return authority.status();
  const bool too_narrow = options.node_authority && !AllowsNodeAuthority(*authority);
  if (too_narrow && !options.only_look) {
    if (absl::Status status = AllowNodeAuthority(options, &*authority); !status.ok()) return status;
  }
  X509* ca = authority->certificate.get();
  std::vector<Certificate> certificates = {{CaFile(options.folder), "the authority", NotAfter(ca),
                                            ActionOfAuthority(options, is_new, too_narrow, ca)}};
  for (const Wanted& wanted : AllWanted(options)) {
    absl::StatusOr<Certificate> certificate = Ensure(options, wanted, *authority);
    if (!certificate.ok()) return certificate.status();
    certificates.push_back(*std::move(certificate));
  }
  return certificates;
}

std::vector<Identity> AllServices() {
  std::vector<Identity> identities;
  for (const char* service : kServices) identities.push_back({.service = service});
  return identities;
}

}  // namespace adaptdl::certificates
