#include "libs/kube/client/reviews.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/client/resource_type.h"

namespace adaptdl::kube {
namespace {

std::vector<std::string> TextsOf(const Json& json) {
  std::vector<std::string> texts;
  if (!json.is_array()) return texts;
  for (const Json& item : json) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

UserInfo UserOf(const Json& json) {
  UserInfo user = {.name = TextAt(json, {"username"}),
                   .uid = TextAt(json, {"uid"}),
                   .groups = TextsOf(At(json, {"groups"}))};
  const Json& extra = At(json, {"extra"});
  if (!extra.is_object()) return user;
  for (const auto& [name, values] : extra.items()) user.extra[name] = TextsOf(values);
  return user;
}

std::string ExtraOf(const UserInfo& user, const std::string& name) {
  const auto found = user.extra.find(name);
  return found == user.extra.end() || found->second.size() != 1 ? "" : found->second[0];
}

Json MakeReview(const ResourceType& type, Json spec) {
  return {{"apiVersion", type.ApiVersion()}, {"kind", type.kind}, {"spec", std::move(spec)}};
}

absl::StatusOr<Json> Ask(const Client& client, const ResourceType& type, Json spec,
                         const std::stop_token& stop) {
  return client.Create(Collection(type), MakeReview(type, std::move(spec)), {}, stop);
}

Json AttributesOf(const std::string& verb, const Target& target) {
  return {{"verb", verb},
          {"group", target.type.group},
          {"version", target.type.version},
          {"resource", target.type.plural},
          {"subresource", target.subresource},
          {"namespace", target.name_space},
          {"name", target.name}};
}

absl::StatusOr<AccessAnswer> AccessOf(const absl::StatusOr<Json>& review) {
  if (!review.ok()) return review.status();
  const Json& status = At(*review, {"status"});
  const std::string error = TextAt(status, {"evaluationError"});
  const std::string reason = TextAt(status, {"reason"});
  return AccessAnswer{.allowed = BoolAt(status, {"allowed"}) && !BoolAt(status, {"denied"}),
                      .reason = reason.empty() ? error : reason};
}

}  // namespace

std::string UserInfo::PodName() const { return ExtraOf(*this, "authentication.kubernetes.io/pod-name"); }

std::string UserInfo::PodUid() const { return ExtraOf(*this, "authentication.kubernetes.io/pod-uid"); }

absl::StatusOr<TokenAnswer> ReviewToken(const Client& client, const std::string& token,
                                        const std::string& audience, const std::stop_token& stop) {
  if (audience.empty()) return absl::InvalidArgumentError("a token is reviewed for an audience");
  const absl::StatusOr<Json> review =
      Ask(client, TokenReviews(), {{"token", token}, {"audiences", {audience}}}, stop);
  if (!review.ok()) return review.status();
  const Json& status = At(*review, {"status"});
  if (!BoolAt(status, {"authenticated"})) {
    const std::string error = TextAt(status, {"error"});
    return TokenAnswer{.reason = error.empty() ? "the cluster does not know the token" : error};
  }
  // A server that knows no audiences answers none: then the token may be for anybody.
  const std::vector<std::string> audiences = TextsOf(At(status, {"audiences"}));
  if (std::find(audiences.begin(), audiences.end(), audience) == audiences.end()) {
    return TokenAnswer{.reason = absl::StrCat("the token is not for \"", audience, "\"")};
  }
  return TokenAnswer{.authenticated = true, .user = UserOf(At(status, {"user"}))};
}

absl::StatusOr<AccessAnswer> ReviewAccess(const Client& client, const AccessQuestion& question,
                                          const std::stop_token& stop) {
  Json spec = {{"user", question.user.name},
               {"uid", question.user.uid},
               {"groups", question.user.groups},
               {"extra", question.user.extra},
               {"resourceAttributes", AttributesOf(question.verb, question.target)}};
  return AccessOf(Ask(client, SubjectAccessReviews(), std::move(spec), stop));
}

absl::StatusOr<AccessAnswer> ReviewOwnAccess(const Client& client, const std::string& verb,
                                             const Target& target, const std::stop_token& stop) {
  return AccessOf(
      Ask(client, SelfSubjectAccessReviews(), {{"resourceAttributes", AttributesOf(verb, target)}}, stop));
}

}  // namespace adaptdl::kube
