// The entries of kubeconfig files, merged. Inside libs/kube/access only.
//
// Plain values; thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_KUBECONFIG_FILE_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_KUBECONFIG_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/access/text_or_file.h"
#include "yaml-cpp/yaml.h"

namespace adaptdl::kube {

// One entry of `clusters`, `users` or `contexts`, with its fields as YAML.
struct KubeconfigEntry {
  // "the user \"admin\" of /home/me/.kube/config", for errors.
  std::string description;
  // The folder of its file.
  std::string folder;
  YAML::Node fields;

  // Empty: it is not there, or no scalar.
  std::string Text(const char* field) const;
  bool Bool(const char* field) const { return Text(field) == "true"; }
  // As an absolute path; empty: it is not there.
  std::string Path(const char* field) const;
  // What is in `field` + "-data" (base64), or in the file that `field` names. INVALID_ARGUMENT: it is no base64.
  absl::StatusOr<TextOrFile> TextOrPath(const std::string& field) const;
};

struct Kubeconfig {
  std::string current_context;
  std::map<std::string, KubeconfigEntry> clusters;
  std::map<std::string, KubeconfigEntry> users;
  std::map<std::string, KubeconfigEntry> contexts;
};

// NOT_FOUND: none of the files is there. INVALID_ARGUMENT: one is no kubeconfig.
absl::StatusOr<Kubeconfig> ReadKubeconfigs(const std::vector<std::string>& files);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_KUBECONFIG_FILE_H_
