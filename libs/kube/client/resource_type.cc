#include "libs/kube/client/resource_type.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adaptdl::kube {

const ResourceType& Pods() {
  static const auto* const type = new ResourceType{"", "v1", "pods", "Pod"};
  return *type;
}

const ResourceType& Nodes() {
  static const auto* const type = new ResourceType{"", "v1", "nodes", "Node", /*is_namespaced=*/false};
  return *type;
}

const ResourceType& Leases() {
  static const auto* const type = new ResourceType{"coordination.k8s.io", "v1", "leases", "Lease"};
  return *type;
}

const ResourceType& TokenReviews() {
  static const auto* const type =
      new ResourceType{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", /*is_namespaced=*/false};
  return *type;
}

const ResourceType& SubjectAccessReviews() {
  static const auto* const type = new ResourceType{"authorization.k8s.io", "v1", "subjectaccessreviews",
                                                   "SubjectAccessReview", /*is_namespaced=*/false};
  return *type;
}

const ResourceType& SelfSubjectAccessReviews() {
  static const auto* const type = new ResourceType{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                                   "SelfSubjectAccessReview", /*is_namespaced=*/false};
  return *type;
}

const ResourceType& PodTemplates() {
  static const auto* const type = new ResourceType{"", "v1", "podtemplates", "PodTemplate"};
  return *type;
}

std::string ResourceType::ApiVersion() const {
  return group.empty() ? version : absl::StrCat(group, "/", version);
}

std::string Target::Path() const {
  std::string path = absl::StrCat(type.group.empty() ? "/api/" : "/apis/", type.ApiVersion());
  if (type.is_namespaced && !name_space.empty()) absl::StrAppend(&path, "/namespaces/", Escape(name_space));
  absl::StrAppend(&path, "/", type.plural);
  if (!name.empty()) absl::StrAppend(&path, "/", Escape(name));
  if (!subresource.empty()) absl::StrAppend(&path, "/", Escape(subresource));
  return path;
}

Target Target::Sub(const std::string& of) const {
  Target target = *this;
  target.subresource = of;
  return target;
}

Target Collection(const ResourceType& type, const std::string& name_space) {
  return {.type = type, .name_space = name_space};
}

Target ObjectOf(const ResourceType& type, const ObjectKey& key) {
  return {.type = type, .name_space = key.name_space, .name = key.name};
}

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      escaped.push_back(c);
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace adaptdl::kube
