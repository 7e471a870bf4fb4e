// What all objects of Kubernetes have: a name, a version, owners.
//
// Plain functions and values; thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_JSON_OBJECT_H_
#define ADAPTDL_LIBS_KUBE_JSON_OBJECT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kube {

// Names an object among those of its type. What has no namespace has an empty one.
struct ObjectKey {
  std::string name_space;
  std::string name;

  // "namespace/name".
  std::string ToString() const;
  friend bool operator==(const ObjectKey&, const ObjectKey&) = default;
  // NOLINTNEXTLINE(modernize-use-nullptr): it sees the zero that the compiler compares with
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

ObjectKey KeyOf(const Json& object);
std::string UidOf(const Json& object);
// Opaque: only its equality means something.
std::string ResourceVersionOf(const Json& object);
// Empty: there is none of the name.
std::string LabelOf(const Json& object, absl::string_view name);
std::string AnnotationOf(const Json& object, absl::string_view name);
// Whether it goes away when its finalizers allow it.
bool IsBeingDeleted(const Json& object);
// The owner that manages the object. `uid` empty: nobody does.
struct Owner {
  std::string kind;
  std::string name;
  std::string uid;
};
Owner ControllerOf(const Json& object);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_JSON_OBJECT_H_
