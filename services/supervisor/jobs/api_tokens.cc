#include "services/supervisor/jobs/api_tokens.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "openssl/sha.h"
#include "services/supervisor/jobs/secrets.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

std::string ApiSecret(absl::string_view group_token) {
  const std::string text = absl::StrCat("adaptdl-api ", group_token);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), SHA256_DIGEST_LENGTH));
}

struct TokenParts {
  std::string job_uid;
  int64_t launch_group = 0;
  std::string secret;
};

std::optional<TokenParts> Split(absl::string_view token) {
  if (!absl::ConsumePrefix(&token, security::kJobTokenPrefix)) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  TokenParts result;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &result.launch_group)) return std::nullopt;
  result.job_uid = parts[0];
  result.secret = parts[2];
  return result;
}

// Whether somebody may still hold what was given to the replicas of this launch.
bool HasLiveReplica(const JobEntry& job, int64_t launch_group) {
  return std::any_of(job.replicas.begin(), job.replicas.end(), [&](const auto& replica) {
    return replica->launch_group == launch_group && IsLive(replica->replica);
  });
}

}  // namespace

std::string ApiToken(const std::string& job_uid, int64_t launch_group, const std::string& group_token) {
  return absl::StrCat(security::kJobTokenPrefix, job_uid, ".", launch_group, ".", ApiSecret(group_token));
}

void ApiTokens::Attach(const ReadIndex* index) {
  MutexLock lock(&mutex_);
  index_ = index;
}

std::optional<security::Caller> ApiTokens::Find(const std::string& token) const {
  const std::optional<TokenParts> parts = Split(token);
  if (!parts.has_value()) return std::nullopt;
  std::shared_ptr<const JobEntry> job;
  {
    MutexLock lock(&mutex_);
    if (index_ != nullptr) job = index_->FindJob(parts->job_uid);
  }
  if (job == nullptr || !job->record.job->spec().template_().api_access()) return std::nullopt;
  const auto secret = job->record.tokens.find(parts->launch_group);
  if (secret == job->record.tokens.end() || secret->second.empty()) return std::nullopt;
  if (!SameSecret(ApiSecret(secret->second), parts->secret)) return std::nullopt;
  if (!HasLiveReplica(*job, parts->launch_group)) return std::nullopt;
  const v1::Job& spec = *job->record.job;
  return security::Caller{.proof = "job",
                          .name = absl::StrCat(spec.namespace_(), "/", spec.name()),
                          .role = security::Role::kUser,
                          .namespaces = {spec.namespace_()},
                          .node_id = ""};
}

}  // namespace adaptdl::supervisor
