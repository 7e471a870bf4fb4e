#include "services/supervisor/kubernetes/identity/cluster_users.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/client/resource_type.h"
#include "libs/kube/client/reviews.h"
#include "libs/kube/json/json.h"
#include "libs/kubejobs/names.h"
#include "libs/service/security/token_file.h"

namespace adaptdl::supervisor {
namespace {

// Longer ones are no tokens of a cluster.
constexpr size_t kMaxTokenBytes = size_t{16} << 10;

// What may stand in a header at all (RFC 6750 has less): other text is not asked about.
bool MayBeToken(const std::string& token) {
  return !token.empty() && token.size() <= kMaxTokenBytes &&
         std::all_of(token.begin(), token.end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
}

// One text for all of them, as for our own: a stranger does not learn which tokens there are.
absl::Status NobodysToken() {
  return absl::UnauthenticatedError("the token is nobody's here: neither ours nor one of the cluster for us");
}

kube::ResourceType TypeOf(const security::ClusterRule& rule) {
  if (rule.resource == kube::Pods().plural) return kube::Pods();
  if (rule.resource == kube::Nodes().plural) return kube::Nodes();
  return {.group = kubejobs::kGroup,
          .version = kubejobs::kVersion,
          .plural = std::string(rule.resource),
          .kind = rule.resource == kubejobs::kQuotaPlural ? kubejobs::kQuotaKind : kubejobs::kJobKind};
}

kube::AccessQuestion QuestionOf(const security::Caller& caller, const security::ClusterRule& rule,
                                const std::string& name_space) {
  kube::AccessQuestion question;
  question.user = {.name = caller.name,
                   .uid = caller.account->uid,
                   .groups = caller.account->groups,
                   .extra = caller.account->extra};
  question.verb = std::string(rule.verb);
  question.target = kube::Collection(TypeOf(rule), name_space).Sub(std::string(rule.subresource));
  return question;
}

// Different for different questions.
std::string KeyOf(const kube::AccessQuestion& question) {
  const kube::Target& target = question.target;
  const kube::Json key = {question.user.name,  question.user.uid,  question.user.groups,
                          question.user.extra, question.verb,      target.type.group,
                          target.type.plural,  target.subresource, target.name_space};
  return security::Sha256Hex(kube::Dump(key));
}

// "pods/log", "adaptdljobs.adaptdl.petuum.com".
std::string NameOf(const kube::Target& target) {
  return absl::StrCat(target.type.plural, target.type.group.empty() ? "" : ".", target.type.group,
                      target.subresource.empty() ? "" : "/", target.subresource);
}

absl::Status Refusal(const kube::AccessQuestion& question, const std::string& reason) {
  const std::string& name_space = question.target.name_space;
  return absl::PermissionDeniedError(absl::StrCat(
      "account \"", question.user.name, "\" may not ", question.verb, " ", NameOf(question.target),
      name_space.empty() ? " in the whole cluster" : absl::StrCat(" in namespace \"", name_space, "\""),
      reason.empty() ? "" : ": ", reason));
}

}  // namespace

ClusterTokens::ClusterTokens(const kube::Client* client, const Clock* clock,
                             const ClusterUsersOptions& options)
    : client_(*client),
      clock_(*clock),
      options_(options),
      strangers_(2 * options.strangers_per_second, absl::Seconds(1) / options.strangers_per_second),
      known_(options.most_remembered, options.lifetime, options.memory) {}

absl::StatusOr<security::Caller> ClusterTokens::Ask(const std::string& token) {
  if (!MayBeToken(token)) return NobodysToken();
  const std::string key = security::Sha256Hex(token);
  {
    MutexLock lock(&mutex_);
    const absl::Time now = clock_.Steady();
    if (const auto* known = known_.Find(key, now)) return *known;
    const auto* before = known_.Recall(key, now);
    const bool stranger = before == nullptr || !before->ok();
    if (stranger && !strangers_.Take("", now)) {
      return absl::UnavailableError("too many unknown tokens are asked about; try again in a second");
    }
  }
  absl::StatusOr<security::Caller> caller = Review(token);
  if (!caller.ok() && !absl::IsUnauthenticated(caller.status())) return caller;
  MutexLock lock(&mutex_);
  known_.Keep(key, caller, clock_.Steady());
  return caller;
}

std::optional<security::Caller> ClusterTokens::Recall(const std::string& token) {
  if (!MayBeToken(token)) return std::nullopt;
  const std::string key = security::Sha256Hex(token);
  MutexLock lock(&mutex_);
  const auto* known = known_.Recall(key, clock_.Steady());
  return known == nullptr || !known->ok() ? std::nullopt : std::optional(**known);
}

absl::StatusOr<security::Caller> ClusterTokens::Review(const std::string& token) const {
  absl::StatusOr<kube::TokenAnswer> answer = kube::ReviewToken(client_, token, options_.audience);
  if (!answer.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the API server does not say whose a token is: ", answer.status().message()));
  }
  // A user without a name would be anybody.
  if (!answer->authenticated || answer->user.name.empty()) return NobodysToken();
  security::Caller caller{.proof = "account",
                          .name = answer->user.name,
                          .role = security::Role::kAccount,
                          .namespaces = {},
                          .node_id = ""};
  caller.account = std::make_shared<const security::Account>(security::Account{
      std::move(answer->user.uid), std::move(answer->user.groups), std::move(answer->user.extra)});
  return caller;
}

ClusterAccess::ClusterAccess(const kube::Client* client, const Clock* clock,
                             const ClusterUsersOptions& options)
    : client_(*client), clock_(*clock), known_(options.most_remembered, options.lifetime, options.lifetime) {}

absl::Status ClusterAccess::Check(const security::Caller& caller, const security::ClusterRule& rule,
                                  const std::string& name_space) {
  if (caller.account == nullptr) {
    return absl::InternalError("only accounts of the cluster are asked about; this is none");
  }
  const kube::AccessQuestion question = QuestionOf(caller, rule, name_space);
  const std::string key = KeyOf(question);
  {
    MutexLock lock(&mutex_);
    if (const absl::Status* known = known_.Find(key, clock_.Steady())) return *known;
  }
  const absl::StatusOr<kube::AccessAnswer> answer = kube::ReviewAccess(client_, question);
  if (!answer.ok()) {
    return absl::UnavailableError(absl::StrCat("the API server does not say what account \"", caller.name,
                                               "\" may do: ", answer.status().message()));
  }
  const absl::Status status = answer->allowed ? absl::OkStatus() : Refusal(question, answer->reason);
  MutexLock lock(&mutex_);
  known_.Keep(key, status, clock_.Steady());
  return status;
}

}  // namespace adaptdl::supervisor
