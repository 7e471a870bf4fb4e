#include "libs/kube/json/object.h"

#include "absl/strings/str_cat.h"

namespace adaptdl::kube {

std::string ObjectKey::ToString() const { return absl::StrCat(name_space, "/", name); }

ObjectKey KeyOf(const Json& object) {
  return {TextAt(object, {"metadata", "namespace"}), TextAt(object, {"metadata", "name"})};
}

std::string UidOf(const Json& object) { return TextAt(object, {"metadata", "uid"}); }

std::string ResourceVersionOf(const Json& object) { return TextAt(object, {"metadata", "resourceVersion"}); }

std::string LabelOf(const Json& object, absl::string_view name) {
  return TextAt(object, {"metadata", "labels", name});
}

std::string AnnotationOf(const Json& object, absl::string_view name) {
  return TextAt(object, {"metadata", "annotations", name});
}

bool IsBeingDeleted(const Json& object) { return !TextAt(object, {"metadata", "deletionTimestamp"}).empty(); }

Owner ControllerOf(const Json& object) {
  const Json& owners = At(object, {"metadata", "ownerReferences"});
  if (!owners.is_array()) return {};
  for (const Json& owner : owners) {
    if (BoolAt(owner, {"controller"})) {
      return {TextAt(owner, {"kind"}), TextAt(owner, {"name"}), TextAt(owner, {"uid"})};
    }
  }
  return {};
}

}  // namespace adaptdl::kube
