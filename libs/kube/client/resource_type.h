// Types of objects, and the addresses of their collections, objects and subresources.
//
// Plain values and functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_RESOURCE_TYPE_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_RESOURCE_TYPE_H_

#include <string>

#include "libs/kube/json/object.h"

namespace adaptdl::kube {

struct ResourceType {
  // Empty: the core.
  std::string group;
  std::string version;
  // As in addresses: "pods".
  std::string plural;
  std::string kind;
  bool is_namespaced = true;

  // "v1", "coordination.k8s.io/v1".
  std::string ApiVersion() const;
};

const ResourceType& Pods();
const ResourceType& Nodes();
const ResourceType& Leases();
const ResourceType& TokenReviews();
const ResourceType& SubjectAccessReviews();
const ResourceType& SelfSubjectAccessReviews();
const ResourceType& PodTemplates();

// What a call is about. The type is copied, so that a target may outlive it.
struct Target {
  ResourceType type;
  // Empty: all namespaces, or a type without.
  std::string name_space = {};
  // Empty: the collection.
  std::string name = {};
  // "status", "scale", "log", ... Empty: the object itself.
  std::string subresource = {};

  // "/apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/SUB", escaped.
  std::string Path() const;
  Target Sub(const std::string& of) const;
};

Target Collection(const ResourceType& type, const std::string& name_space = "");
Target ObjectOf(const ResourceType& type, const ObjectKey& key);

// As in URLs: "a%2Fb".
std::string Escape(const std::string& text);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_RESOURCE_TYPE_H_
