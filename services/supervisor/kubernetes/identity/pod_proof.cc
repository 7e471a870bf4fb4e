#include "services/supervisor/kubernetes/identity/pod_proof.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/kube/client/reviews.h"
#include "libs/kubejobs/names.h"
#include "openssl/sha.h"
#include "services/supervisor/calls/pages.h"

namespace adaptdl::supervisor {
namespace {

// Longer ones are no tokens of a cluster.
constexpr size_t kLongestToken = size_t{16} << 10;

std::string DigestOf(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return std::string(reinterpret_cast<const char*>(digest), sizeof(digest));
}

// Three parts, as every token of a service account has: what is none is not asked about.
bool LooksLikeToken(const std::string& token) {
  if (token.size() > kLongestToken) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  return parts.size() == 3 && !parts[0].empty() && !parts[1].empty() && !parts[2].empty();
}

// Of "system:serviceaccount:NAMESPACE:NAME"; empty for other users.
std::string NamespaceOf(const std::string& user) {
  const std::vector<std::string> parts = absl::StrSplit(user, ':');
  const bool account = parts.size() == 4 && parts[0] == "system" && parts[1] == "serviceaccount";
  return account ? parts[2] : "";
}

}  // namespace

PodProof::PodProof(const kube::Client* client, const Clock* clock, PodProofOptions options)
    : client_(*client),
      clock_(*clock),
      options_(options),
      calls_(2 * options.calls_per_second, absl::Seconds(1) / options.calls_per_second) {}

absl::Status PodProof::Check(const v1::ReplicaIdentity& identity, const std::string& token) {
  const absl::Status refused = absl::UnauthenticatedError(
      "neither the group's token nor that of the replica's pod; a replica sends what "
      "ADAPTDL_IDENTITY_TOKEN_FILE "
      "holds as \"authorization: Bearer <token>\"");
  if (!LooksLikeToken(token)) return refused;
  const absl::StatusOr<Owner> owner = OwnerOf(token);
  if (!owner.ok()) return owner.status();
  const bool same = !owner->pod.empty() && owner->pod == identity.replica_id() &&
                    owner->name_space == NamespaceOr(identity.namespace_());
  return same ? absl::OkStatus() : refused;
}

absl::StatusOr<PodProof::Owner> PodProof::OwnerOf(const std::string& token) {
  const std::string digest = DigestOf(token);
  {
    MutexLock lock(&mutex_);
    const absl::Time now = clock_.Both().steady;
    const auto known = known_.find(digest);
    if (known != known_.end() && now < known->second.until) return known->second;
    if (!calls_.Take("", now)) return absl::UnavailableError("too many tokens are asked about; try again");
  }
  absl::StatusOr<Owner> owner = Ask(token);
  if (!owner.ok()) return owner;
  MutexLock lock(&mutex_);
  const absl::Time now = clock_.Both().steady;
  owner->until = now + options_.lifetime;
  Remember(digest, *owner, now);
  return owner;
}

absl::StatusOr<PodProof::Owner> PodProof::Ask(const std::string& token) const {
  const absl::StatusOr<kube::TokenAnswer> answer =
      kube::ReviewToken(client_, token, kubejobs::kTokenAudience);
  if (!answer.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the API server does not say whose a token is: ", answer.status().message()));
  }
  if (!answer->authenticated) return Owner();
  return Owner{NamespaceOf(answer->user.name), answer->user.PodName(), {}};
}

void PodProof::Remember(const std::string& digest, const Owner& owner, absl::Time now) {
  if (known_.size() >= options_.most_remembered) {
    std::erase_if(known_, [now](const auto& entry) { return entry.second.until <= now; });
  }
  if (known_.size() >= options_.most_remembered) known_.clear();
  known_[digest] = owner;
}

}  // namespace adaptdl::supervisor
