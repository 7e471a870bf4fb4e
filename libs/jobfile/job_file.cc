#include "libs/jobfile/job_file.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/demands.h"
#include "libs/jobfile/document.h"
#include "libs/jobfile/fields.h"
#include "libs/jobfile/names.h"
#include "libs/jobfile/placement.h"
#include "libs/jobfile/resources.h"
#include "libs/jobspec/job_spec.h"
#include "libs/jobspec/limits.h"
#include "libs/jobspec/python.h"

namespace adaptdl::jobfile {
namespace {

constexpr absl::string_view kApiVersion = "adaptdl.petuum.com/v1";
constexpr absl::string_view kKind = "AdaptDLJob";

using jobspec::kMaxAllowedReplicas;
using jobspec::kMaxEntries;
using jobspec::kMaxLabelLength;
using jobspec::kMaxLabels;
using jobspec::kMaxPriority;
using jobspec::kMaxReplicas;
using jobspec::kMaxRestarts;

class Reader {
 public:
  Reader(const ParseOptions& options, Problems* problems, JobFile* file)
      : options_(options), problems_(problems), file_(file) {}

  void ReadRoot(const Node& root);

 private:
  void RequireText(const Node& map, absl::string_view name, absl::string_view value);
  const Node* RequireField(const Node& map, const std::string& path, absl::string_view name, Type type,
                           absl::string_view remedy);
  void AddStatus(int line, const absl::Status& status);
  void ReadMetadata(const Node& metadata);
  void ReadLabels(const Node& labels);
  void ReadSpec(const Node& spec);
  void ReadReplicaBounds(const Node& spec);
  void ReadAllowedReplicas(const Node& list);
  // Whether a job that may have these sizes only can run within its bounds.
  void CheckAllowedReplicas(const Node& list);
  void ReadRescale(const Node& spec);
  void ReadPython(const Node& python);
  void ReadPod(const Node& pod);
  void ReadContainer(const Node& container);
  // Appends the texts of `list`, each free of NUL, to `texts`.
  template <typename Texts>
  void ReadTexts(const Node& list, const std::string& path, Texts* texts);
  void ReadEnv(const Node& env, const std::string& path);
  void ReadEnvItem(const Node& item, const std::string& path);
  bool CheckNoNul(const Node& node, const std::string& path);

  const ParseOptions& options_;
  Problems* problems_;
  JobFile* file_;
};

void Reader::AddStatus(int line, const absl::Status& status) {
  if (!status.ok()) problems_->Add(line, status.message());
}

bool Reader::CheckNoNul(const Node& node, const std::string& path) {
  if (!absl::StrContains(node.text, absl::string_view("\0", 1))) return true;
  problems_->Add(node.line, absl::StrCat(path, " holds a NUL character; no program can take one"));
  return false;
}

void Reader::RequireText(const Node& map, absl::string_view name, absl::string_view value) {
  const Node* node = map.Find(name);
  if (node == nullptr || node->kind == Node::Kind::kNull) {
    problems_->Add(map.line, absl::StrCat(name, " is missing; write \"", name, ": ", value, "\""));
  } else if (node->kind == Node::Kind::kScalar && node->text != value) {
    problems_->Add(node->line, absl::StrCat(name, " must be ", value, ", not ", Quoted(node->text)));
  }
}

const Node* Reader::RequireField(const Node& map, const std::string& path, absl::string_view name, Type type,
                                 absl::string_view remedy) {
  const Node* node = map.Find(name);
  if (node == nullptr || node->kind == Node::Kind::kNull) {
    problems_->Add(map.line, absl::StrCat(Join(path, name), " is missing; ", remedy));
    return nullptr;
  }
  return Get(&map, name, type);
}

void Reader::ReadRoot(const Node& root) {
  if (root.kind != Node::Kind::kMap) {
    problems_->Add(root.line,
                   absl::StrCat("a job file must be a map of fields (apiVersion, kind, metadata, ", "spec)"));
    return;
  }
  CheckFields(root, "", RootFields(), problems_);
  RequireText(root, "apiVersion", kApiVersion);
  RequireText(root, "kind", kKind);
  const Node* metadata = Get(&root, "metadata", Type::kMap);
  if (metadata != nullptr) {
    ReadMetadata(*metadata);
  } else if (!options_.named_by_caller && root.Find("metadata") == nullptr) {
    problems_->Add(root.line, "metadata is missing; give the job a metadata.name");
  }
  const Node* spec = RequireField(root, "", "spec", Type::kMap, "it says what to run");
  if (spec != nullptr) ReadSpec(*spec);
}

void Reader::ReadMetadata(const Node& metadata) {
  CheckFields(metadata, "metadata", MetadataFields(), problems_);
  const Node* name = Get(&metadata, "name", Type::kText);
  const Node* prefix = Get(&metadata, "generateName", Type::kText);
  const bool any = metadata.Find("name") != nullptr || metadata.Find("generateName") != nullptr;
  if (name != nullptr) {
    AddStatus(name->line, CheckLabelName(name->text, "metadata.name"));
    file_->job.set_name(name->text);
  }
  if (prefix != nullptr) {
    AddStatus(prefix->line, CheckNamePrefix(prefix->text, "metadata.generateName"));
    if (name != nullptr) {
      problems_->Warn(prefix->line, "metadata.generateName has no effect: metadata.name is given");
    } else {
      file_->generate_name = prefix->text;
    }
  }
  if (!any && !options_.named_by_caller) {
    problems_->Add(metadata.line, "metadata.name is missing; give it, or metadata.generateName");
  }
  if (const Node* space = Get(&metadata, "namespace", Type::kText)) {
    AddStatus(space->line, CheckLabelName(space->text, "metadata.namespace"));
    file_->job.set_namespace_(space->text);
  }
  if (const Node* labels = Get(&metadata, "labels", Type::kMap)) ReadLabels(*labels);
}

void Reader::ReadLabels(const Node& labels) {
  if (labels.fields.size() > kMaxLabels) {
    problems_->Add(labels.line, absl::StrCat("metadata.labels holds ", labels.fields.size(),
                                             " labels; keep to ", kMaxLabels));
    return;
  }
  for (const Field& label : labels.fields) {
    const std::string path = Join("metadata.labels", label.name);
    if (!CheckType(label.value, Type::kText, path, problems_)) continue;
    if (label.name.empty() || label.name.size() > kMaxLabelLength ||
        label.value.text.size() > kMaxLabelLength) {
      problems_->Add(label.line, absl::StrCat(path, ": a label's key must have 1 to ", kMaxLabelLength,
                                              " characters and its value at most as many"));
    }
    if (!file_->job.mutable_labels()->insert({label.name, label.value.text}).second) {
      problems_->Add(label.line, absl::StrCat(path, " is given twice; keep one"));
    }
  }
}

void Reader::ReadReplicaBounds(const Node& spec) {
  v1::JobSpec* out = file_->job.mutable_spec();
  const Node* low = Get(&spec, "minReplicas", Type::kInteger);
  const Node* high = Get(&spec, "maxReplicas", Type::kInteger);
  int64_t min = 0;
  int64_t max = 0;
  const bool has_min =
      low != nullptr && ReadInteger(*low, "spec.minReplicas", 0, kMaxReplicas, &min, problems_);
  const bool has_max =
      high != nullptr && ReadInteger(*high, "spec.maxReplicas", 1, kMaxReplicas, &max, problems_);
  if (has_min) out->set_min_replicas(static_cast<int32_t>(min));
  if (has_max) out->set_max_replicas(static_cast<int32_t>(max));
  if (has_min && has_max && min > max) {
    problems_->Add(low->line, absl::StrCat("spec.minReplicas is ", min, ", more than spec.maxReplicas, ", max,
                                           "; lower it or raise spec.maxReplicas"));
  }
}

void Reader::ReadAllowedReplicas(const Node& list) {
  v1::JobSpec* out = file_->job.mutable_spec();
  if (list.items.size() > kMaxAllowedReplicas) {
    problems_->Add(list.line, absl::StrCat("spec.allowedReplicas has ", list.items.size(),
                                           " entries; keep to ", kMaxAllowedReplicas));
    return;
  }
  int64_t last = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    const Node& item = list.items[i];
    const std::string path = absl::StrCat("spec.allowedReplicas[", i, "]");
    int64_t count = 0;
    if (!CheckType(item, Type::kInteger, path, problems_) ||
        !ReadInteger(item, path, 1, kMaxReplicas, &count, problems_)) {
      return;
    }
    if (count <= last) {
      problems_->Add(item.line, absl::StrCat(path, " is ", count, ", after ", last,
                                             "; list the numbers in ascending order, each once"));
      return;
    }
    last = count;
    out->add_allowed_replicas(static_cast<int32_t>(count));
  }
  CheckAllowedReplicas(list);
}

void Reader::CheckAllowedReplicas(const Node& list) {
  const v1::JobSpec& spec = file_->job.spec();
  const int64_t low = spec.min_replicas();
  const int64_t high = spec.max_replicas() > 0 ? spec.max_replicas() : kMaxReplicas;
  const auto& allowed = spec.allowed_replicas();
  const auto within = [&](int32_t count) { return count >= low && count <= high; };
  if (allowed.empty() || low > high || std::any_of(allowed.begin(), allowed.end(), within)) return;
  problems_->Add(list.line,
                 "spec.allowedReplicas holds no number from spec.minReplicas to spec.maxReplicas; "
                 "the job could never run");
}

void Reader::ReadRescale(const Node& spec) {
  const Node* rescale = Get(&spec, "rescale", Type::kText);
  if (rescale == nullptr) return;
  if (rescale->text == "restart") {
    file_->job.mutable_spec()->set_rescale(v1::RESCALE_MODE_RESTART);
  } else if (rescale->text == "in-place") {
    file_->job.mutable_spec()->set_rescale(v1::RESCALE_MODE_IN_PLACE);
  } else {
    problems_->Add(rescale->line,
                   absl::StrCat("spec.rescale must be in-place or restart, not ", Quoted(rescale->text)));
  }
}

void Reader::ReadPython(const Node& python) {
  CheckFields(python, "spec.python", PythonFields(), problems_);
  v1::PythonEnvironment* out = file_->job.mutable_spec()->mutable_template_()->mutable_python();
  if (const Node* interpreter = Get(&python, "interpreter", Type::kText);
      interpreter != nullptr && CheckNoNul(*interpreter, "spec.python.interpreter")) {
    out->set_interpreter(interpreter->text);
  }
  const Node* requirements = Get(&python, "requirements", Type::kText);
  if (requirements == nullptr) return;
  AddStatus(requirements->line, jobspec::CheckRequirements("spec.python.requirements", requirements->text));
  out->set_requirements(requirements->text);
}

void Reader::ReadSpec(const Node& spec) {
  CheckFields(spec, "spec", SpecFields(), problems_);
  ReadReplicaBounds(spec);
  if (const Node* allowed = Get(&spec, "allowedReplicas", Type::kList)) ReadAllowedReplicas(*allowed);
  int64_t priority = 0;
  if (const Node* node = Get(&spec, "priority", Type::kInteger);
      node != nullptr &&
      ReadInteger(*node, "spec.priority", -kMaxPriority, kMaxPriority, &priority, problems_)) {
    file_->job.mutable_spec()->set_priority(static_cast<int32_t>(priority));
  }
  if (const Node* preemptible = Get(&spec, "preemptible", Type::kBoolean)) {
    file_->job.mutable_spec()->set_preemptible(absl::EqualsIgnoreCase(preemptible->text, "true"));
  }
  if (const Node* access = Get(&spec, "apiAccess", Type::kBoolean)) {
    file_->job.mutable_spec()->mutable_template_()->set_api_access(
        absl::EqualsIgnoreCase(access->text, "true"));
  }
  if (const Node* suspend = Get(&spec, "suspend", Type::kBoolean)) {
    file_->job.mutable_spec()->set_suspend(absl::EqualsIgnoreCase(suspend->text, "true"));
  }
  int64_t restarts = 0;
  if (const Node* node = Get(&spec, "maxRestarts", Type::kInteger);
      node != nullptr && ReadInteger(*node, "spec.maxRestarts", 0, kMaxRestarts, &restarts, problems_)) {
    file_->job.mutable_spec()->set_max_restarts(static_cast<int32_t>(restarts));
  }
  ReadRescale(spec);
  if (const Node* python = Get(&spec, "python", Type::kMap)) ReadPython(*python);
  ReadDemands(spec, file_->job.mutable_spec(), problems_);
  const Node* pod_template =
      RequireField(spec, "spec", "template", Type::kMap, "it holds the container to run");
  if (pod_template == nullptr) return;
  CheckFields(*pod_template, "spec.template", TemplateFields(), problems_);
  const Node* pod =
      RequireField(*pod_template, "spec.template", "spec", Type::kMap, "it holds the container to run");
  if (pod != nullptr) ReadPod(*pod);
}

void Reader::ReadPod(const Node& pod) {
  const std::string path = "spec.template.spec";
  CheckFields(pod, path, PodFields(), problems_);
  int64_t seconds = 0;
  if (const Node* grace = Get(&pod, "terminationGracePeriodSeconds", Type::kInteger);
      grace != nullptr && ReadInteger(*grace, Join(path, "terminationGracePeriodSeconds"), 0,
                                      absl::ToInt64Seconds(jobspec::kMaxGracePeriod), &seconds, problems_)) {
    file_->job.mutable_spec()->mutable_template_()->mutable_termination_grace_period()->set_seconds(seconds);
  }
  const v1::Placement placement = ReadPlacement(pod, path, problems_);
  if (placement.ByteSizeLong() > 0) {
    // Beside the types of GPUs, which stand elsewhere in the file.
    file_->job.mutable_spec()->mutable_template_()->mutable_placement()->MergeFrom(placement);
  }
  const Node* containers =
      RequireField(pod, path, "containers", Type::kList, "its first entry holds the command to run");
  if (containers == nullptr) return;
  if (containers->items.empty()) {
    problems_->Add(containers->line, absl::StrCat(path, ".containers is empty; give one container"));
    return;
  }
  const std::string first = absl::StrCat(path, ".containers[0]");
  if (CheckType(containers->items[0], Type::kMap, first, problems_)) ReadContainer(containers->items[0]);
  for (size_t i = 1; i < containers->items.size(); ++i) {
    const Node& other = containers->items[i];
    const std::string other_path = absl::StrCat(path, ".containers[", i, "]");
    if (!CheckType(other, Type::kMap, other_path, problems_)) continue;
    problems_->Warn(other.line, absl::StrCat(other_path, " has no effect: a replica is one process, that of ",
                                             "the first container"));
  }
}

void Reader::ReadContainer(const Node& container) {
  const std::string path = "spec.template.spec.containers[0]";
  v1::ReplicaTemplate* out = file_->job.mutable_spec()->mutable_template_();
  CheckFields(container, path, ContainerFields(), problems_);
  const Node* command =
      options_.replicas == jobspec::ReplicaKind::kPod
          ? Get(&container, "command", Type::kList)
          : RequireField(container, path, "command", Type::kList,
                         "node workers run the command itself, not the entry point of an image");
  if (command != nullptr) {
    ReadTexts(*command, Join(path, "command"), out->mutable_command());
    if (command->items.empty() || command->items[0].text.empty()) {
      problems_->Add(command->line, absl::StrCat(path, ".command must begin with a program"));
    }
  }
  if (const Node* args = Get(&container, "args", Type::kList)) {
    ReadTexts(*args, Join(path, "args"), out->mutable_args());
  }
  if (const Node* env = Get(&container, "env", Type::kList)) ReadEnv(*env, Join(path, "env"));
  if (const Node* from = Get(&container, "envFrom", Type::kList)) {
    problems_->Add(from->line, absl::StrCat(path, ".envFrom is not supported: there are no config maps or ",
                                            "secrets here; write the variables into ", path, ".env"));
  }
  if (const Node* image = Get(&container, "image", Type::kText)) out->set_image(image->text);
  if (const Node* folder = Get(&container, "workingDir", Type::kText)) {
    if (CheckNoNul(*folder, Join(path, "workingDir"))) out->set_working_directory(folder->text);
  }
  if (const Node* resources = Get(&container, "resources", Type::kMap)) {
    ReadResources(*resources, Join(path, "resources"), out->mutable_resources(), problems_);
  }
}

template <typename Texts>
void Reader::ReadTexts(const Node& list, const std::string& path, Texts* texts) {
  if (list.items.size() > kMaxEntries) {
    problems_->Add(list.line,
                   absl::StrCat(path, " has ", list.items.size(), " entries; keep to ", kMaxEntries));
    return;
  }
  for (size_t i = 0; i < list.items.size(); ++i) {
    const std::string item_path = absl::StrCat(path, "[", i, "]");
    if (!CheckType(list.items[i], Type::kText, item_path, problems_)) continue;
    if (CheckNoNul(list.items[i], item_path)) *texts->Add() = list.items[i].text;
  }
}

void Reader::ReadEnv(const Node& env, const std::string& path) {
  for (size_t i = 0; i < env.items.size(); ++i) {
    const std::string item_path = absl::StrCat(path, "[", i, "]");
    if (CheckType(env.items[i], Type::kMap, item_path, problems_)) ReadEnvItem(env.items[i], item_path);
  }
}

void Reader::ReadEnvItem(const Node& item, const std::string& path) {
  CheckFields(item, path, EnvFields(), problems_);
  const Node* name = RequireField(item, path, "name", Type::kText, "name the variable");
  if (const Node* from = Get(&item, "valueFrom", Type::kMap)) {
    problems_->Add(from->line,
                   absl::StrCat(path, ".valueFrom is not supported: there are no config maps, ",
                                "secrets or pod fields here; write the value into ", path, ".value"));
  }
  if (name == nullptr || !CheckNoNul(*name, Join(path, "name"))) return;
  if (name->text.empty() || absl::StrContains(name->text, '=')) {
    problems_->Add(name->line, absl::StrCat(path, ".name must not be empty or hold \"=\", as ",
                                            Quoted(name->text), " does"));
  } else if (jobspec::IsSystemVariable(name->text)) {
    problems_->Add(name->line, absl::StrCat(path, ".name is ", Quoted(name->text),
                                            "; the system sets this one itself; leave it out"));
  }
  v1::EnvironmentVariable* variable = file_->job.mutable_spec()->mutable_template_()->add_env();
  variable->set_name(name->text);
  const Node* value = Get(&item, "value", Type::kText);
  if (value != nullptr && CheckNoNul(*value, Join(path, "value"))) variable->set_value(value->text);
}

}  // namespace

absl::StatusOr<JobFile> ParseJobFile(absl::string_view content, absl::string_view file_name,
                                     const ParseOptions& options) {
  absl::StatusOr<Node> root = ParseDocument(content, file_name);
  if (!root.ok()) return root.status();
  Problems problems(file_name);
  JobFile file;
  Reader(options, &problems, &file).ReadRoot(*root);
  absl::Status status = problems.ToStatus();
  if (!status.ok()) return status;
  // Whatever the fields above do not say: what passes here passes at the supervisor.
  status = jobspec::CheckSpec(file.job.spec(), options.replicas);
  if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat(file_name, ": ", status.message()));
  file.warnings = problems.Warnings();
  return file;
}

absl::StatusOr<JobFile> ReadJobFile(const std::string& path, const ParseOptions& options) {
  absl::StatusOr<std::string> content = ReadWholeFile(path, kMaxFileBytes);
  if (!content.ok()) return content.status();
  return ParseJobFile(*content, std::filesystem::path(path).filename().string(), options);
}

}  // namespace adaptdl::jobfile
