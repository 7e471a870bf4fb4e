#include "services/supervisor/kubernetes/store/group_tokens.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kShortestKey = 32;

}  // namespace

absl::StatusOr<GroupTokens> GroupTokens::Create(std::string key) {
  if (key.size() >= kShortestKey) return GroupTokens(std::move(key));
  return absl::InvalidArgumentError(absl::StrCat("the key of the groups' tokens has ", key.size(),
                                                 " bytes; make one of at least ", kShortestKey,
                                                 " random ones"));
}

std::string GroupTokens::Token(const std::string& job_uid, int64_t group) const {
  const std::string text = absl::StrCat(job_uid, "/", group);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const unsigned char* const made =
      HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  // Of these arguments it fails where OpenSSL itself is broken: no token is better than one that all can guess.
  if (made == nullptr) std::abort();
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

void GroupTokens::Fill(const std::vector<ReplicaRecord>& replicas, JobRecord* record) const {
  const auto fill = [&](int64_t group) { record->tokens[group] = Token(record->uid(), group); };
  fill(record->state.group);
  for (const jobs::Plan& plan : record->state.plans) fill(plan.group);
  for (const ReplicaRecord& replica : replicas) {
    fill(replica.launch_group);
    fill(replica.replica.group());
  }
}

}  // namespace adaptdl::supervisor
