// Manifests in YAML as the objects that they say, for tests. It throws what is wrong with them.

#ifndef ADAPTDL_TESTS_KUBE_YAML_H_
#define ADAPTDL_TESTS_KUBE_YAML_H_

#include <cstdint>
#include <string>

#include "libs/kube/json/json.h"
#include "yaml-cpp/yaml.h"

namespace adaptdl::kube {

inline Json FromYaml(const YAML::Node& node) {
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& field : node) object[field.first.as<std::string>()] = FromYaml(field.second);
    return object;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) list.push_back(FromYaml(item));
    return list;
  }
  if (!node.IsScalar()) return nullptr;
  const std::string text = node.Scalar();
  // "!": in quotes, and so a text whatever it looks like.
  if (node.Tag() == "!") return text;
  if (text == "true" || text == "false") return text == "true";
  int64_t integer = 0;
  if (YAML::convert<int64_t>::decode(node, integer)) return integer;
  double number = 0;
  if (YAML::convert<double>::decode(node, number)) return number;
  return text;
}

// `path`: within the project.
inline Json ReadYaml(const std::string& path) {
  return FromYaml(YAML::LoadFile(std::string(ADAPTDL_SOURCE_DIR) + "/" + path));
}

// Those that our operator needs: "adaptdljob", "adaptdlquota".
inline Json ReadCrd(const std::string& name) { return ReadYaml("deploy/kubernetes/crds/" + name + ".yaml"); }

}  // namespace adaptdl::kube

#endif  // ADAPTDL_TESTS_KUBE_YAML_H_
