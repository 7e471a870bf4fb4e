#include "libs/kube/access/kubeconfig_file.h"

#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/file.h"

namespace adaptdl::kube {
namespace {

constexpr int64_t kMaxKubeconfigBytes = int64_t{4} << 20;

std::string Scalar(const YAML::Node& node) {
  return node.IsDefined() && node.IsScalar() ? node.Scalar() : "";
}

// Adds the entries of a list such as `clusters`, each a map of `name` and, beneath `kind`, its fields.
void AddEntries(const YAML::Node& list, const char* kind, const std::string& file,
                std::map<std::string, KubeconfigEntry>* entries) {
  if (!list.IsDefined() || !list.IsSequence()) return;
  for (const YAML::Node& item : list) {
    if (!item.IsMap()) continue;
    const std::string name = Scalar(item["name"]);
    entries->try_emplace(
        name, KubeconfigEntry{.description = absl::StrCat("the ", kind, " \"", name, "\" of ", file),
                              .folder = std::filesystem::absolute(file).parent_path().string(),
                              .fields = item[kind]});
  }
}

absl::Status AddFile(const std::string& file, const std::string& content, Kubeconfig* config) {
  try {
    const YAML::Node root = YAML::Load(content);
    if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(file, " is no kubeconfig"));
    if (config->current_context.empty()) config->current_context = Scalar(root["current-context"]);
    AddEntries(root["clusters"], "cluster", file, &config->clusters);
    AddEntries(root["users"], "user", file, &config->users);
    AddEntries(root["contexts"], "context", file, &config->contexts);
    return absl::OkStatus();
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is not YAML: ", error.what()));
  }
}

}  // namespace

std::string KubeconfigEntry::Text(const char* field) const {
  return fields.IsDefined() && fields.IsMap() ? Scalar(fields[field]) : "";
}

std::string KubeconfigEntry::Path(const char* field) const {
  const std::string path = Text(field);
  return path.empty() ? "" : (std::filesystem::path(folder) / path).string();
}

absl::StatusOr<TextOrFile> KubeconfigEntry::TextOrPath(const std::string& field) const {
  const std::string name = field + "-data";
  const std::string encoded = Text(name.c_str());
  if (encoded.empty()) return TextOrFile{.path = Path(field.c_str())};
  TextOrFile found;
  if (!absl::Base64Unescape(encoded, &found.text)) {
    return absl::InvalidArgumentError(absl::StrCat(description, ": ", name, " is not base64"));
  }
  return found;
}

absl::StatusOr<Kubeconfig> ReadKubeconfigs(const std::vector<std::string>& files) {
  Kubeconfig config;
  bool any = false;
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> content = ReadWholeFile(file, kMaxKubeconfigBytes);
    if (absl::IsNotFound(content.status())) continue;
    if (!content.ok()) return content.status();
    any = true;
    if (const absl::Status status = AddFile(file, *content, &config); !status.ok()) return status;
  }
  if (any) return config;
  return absl::NotFoundError(absl::StrCat("nothing says where the API server is: there is no ",
                                          absl::StrJoin(files, ", no "),
                                          "; set KUBECONFIG, or run in a pod of the cluster"));
}

}  // namespace adaptdl::kube
