#include "cli/cloud/cluster_file.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/cloud/document_text.h"
#include "libs/aws/endpoint.h"
#include "libs/base/file.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"
#include "libs/jobspec/checks.h"
#include "libs/poolfile/section.h"

namespace adaptdl::cli {
namespace {

using jobfile::Field;
using jobfile::KnownField;
using jobfile::Node;
using jobfile::Problems;
using jobfile::Quoted;
using jobfile::Type;
using poolfile::Section;

constexpr char kWorkerProgram[] = "/usr/bin/adaptdl-worker";
// Pools are called after it in names of 64 characters.
constexpr size_t kLongestName = 40;

constexpr KnownField kFileFields[] = {
    {"name", Type::kText}, {"provider", Type::kText}, {"region", Type::kText}, {"endpoint", Type::kText},
    {"head", Type::kMap},  {"storage", Type::kMap},   {"workers", Type::kMap}};
constexpr KnownField kHeadFields[] = {
    {"instanceType", Type::kText},   {"image", Type::kText},           {"subnet", Type::kText},
    {"securityGroups", Type::kList}, {"instanceProfile", Type::kText}, {"keyName", Type::kText},
    {"disk", Type::kQuantity},       {"pricePerHour", Type::kNumber},  {"port", Type::kInteger},
    {"address", Type::kText},        {"serviceImage", Type::kText}};
constexpr KnownField kStorageFields[] = {
    {"source", Type::kText}, {"target", Type::kText},   {"type", Type::kText},  {"options", Type::kText},
    {"url", Type::kText},    {"endpoint", Type::kText}, {"region", Type::kText}};

Node Text(const std::string& text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = text;
  node.quoted = true;
  return node;
}

Node MapOf(std::vector<Field> fields) {
  Node node;
  node.kind = Node::Kind::kMap;
  node.fields = std::move(fields);
  return node;
}

Node ListOf(std::vector<Node> items) {
  Node node;
  node.kind = Node::Kind::kList;
  node.items = std::move(items);
  return node;
}

Node* FindIn(Node* map, absl::string_view name) {
  for (Field& field : map->fields) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

// What the file says counts.
void Fill(Node* map, const std::string& name, Node value) {
  if (FindIn(map, name) == nullptr)
    map->fields.push_back({.name = name, .line = map->line, .value = std::move(value)});
}

void CompletePool(const ClusterFile& file, Node* pool) {
  if (pool->kind != Node::Kind::kMap) return;
  Fill(pool, "provider", Text("aws"));
  Node* own = FindIn(pool, "aws");
  // Refused as such, not for what is filled in.
  if (own != nullptr && FindIn(own, "autoScalingGroup") != nullptr)
    return Fill(own, "region", Text(file.region));
  if (file.storage.has_value()) {
    std::vector<Field> fields = {{.name = "source", .value = Text(file.storage->source)},
                                 {.name = "target", .value = Text(file.storage->target)},
                                 {.name = "type", .value = Text(file.storage->type)}};
    if (!file.storage->options.empty())
      fields.push_back({.name = "options", .value = Text(file.storage->options)});
    Fill(pool, "mounts", ListOf({MapOf(std::move(fields))}));
  }
  if (!file.objects.url.empty()) {
    std::vector<Field> fields = {{.name = "url", .value = Text(file.objects.url)}};
    if (!file.objects.endpoint.empty())
      fields.push_back({.name = "endpoint", .value = Text(file.objects.endpoint)});
    if (!file.objects.region.empty())
      fields.push_back({.name = "region", .value = Text(file.objects.region)});
    Fill(pool, "storage", MapOf(std::move(fields)));
  }
  Fill(pool, "aws", MapOf({}));
  Node* aws = FindIn(pool, "aws");
  if (aws->kind != Node::Kind::kMap) return;
  Fill(aws, "region", Text(file.region));
  if (!file.endpoint.empty()) Fill(aws, "endpoint", Text(file.endpoint));
  if (FindIn(aws, "launchTemplate") == nullptr) {
    Fill(aws, "image", Text(file.head.image));
    if (FindIn(pool, "zones") == nullptr) Fill(aws, "subnets", ListOf({Text(file.head.subnet)}));
    std::vector<Node> groups;
    for (const std::string& group : file.head.security_groups) groups.push_back(Text(group));
    Fill(aws, "securityGroups", ListOf(std::move(groups)));
  }
  const bool chosen = FindIn(aws, "launch") != nullptr || FindIn(aws, "workerImage") != nullptr ||
                      FindIn(aws, "workerBinary") != nullptr;
  if (chosen) return;
  if (file.head.service_image.empty()) {
    Fill(aws, "launch", Text("binary"));
    Fill(aws, "workerBinary", Text(kWorkerProgram));
  } else {
    Fill(aws, "workerImage", Text(file.head.service_image));
  }
}

Node CompletePools(const ClusterFile& file, Node workers) {
  Fill(&workers, "cluster", Text(file.name));
  Node* pools = FindIn(&workers, "pools");
  if (pools != nullptr) {
    for (Node& pool : pools->items) CompletePool(file, &pool);
  }
  return workers;
}

void ReadHead(const Section& section, HeadOptions* head) {
  section.ReadText("instanceType", &head->instance_type);
  section.ReadText("image", &head->image);
  section.ReadText("subnet", &head->subnet);
  section.ReadTexts("securityGroups", &head->security_groups);
  section.ReadText("instanceProfile", &head->instance_profile);
  section.ReadText("keyName", &head->key_name);
  section.ReadBytes("disk", &head->disk_bytes);
  double price = 0;
  if (section.ReadNumber("pricePerHour", 0, 1e6, &price)) head->price_per_hour = price;
  section.ReadInteger("port", 1, 65535, &head->port);
  int address = 0;
  if (section.ReadWord("address", {"private", "public"}, &address)) head->is_public = address == 1;
  section.ReadText("serviceImage", &head->service_image);
  section.Require("instanceType", "name one, such as m7i.large");
  section.Require("image", "name the machine image (ami-...)");
  section.Require("subnet", "name the subnet (subnet-...) that the head is in");
  section.Require("securityGroups", "name at least one (sg-...) that lets clients and workers in");
  section.Require("instanceProfile", "name the one whose role may make the workers (docs/cloud.md)");
}

void ReadStorage(const Section& section, ClusterFile* file) {
  section.ReadText("url", &file->objects.url);
  section.ReadText("endpoint", &file->objects.endpoint);
  section.ReadText("region", &file->objects.region);
  if (!file->objects.url.empty()) {
    section.Exclude({"source", "target", "type", "options"}, "jobs' files are in the bucket of storage.url");
    if (file->objects.region.empty() && file->objects.endpoint.empty()) file->objects.region = file->region;
    return;
  }
  section.Exclude({"endpoint", "region"}, "they belong to storage.url");
  poolfile::Mount mount;
  section.ReadText("source", &mount.source);
  section.ReadText("target", &mount.target);
  section.ReadText("type", &mount.type);
  section.ReadText("options", &mount.options);
  section.Require("source", "name what is mounted, such as fs-123.efs.eu-west-1.amazonaws.com:/");
  section.Require("target", "name the folder where it is mounted, such as /srv/adaptdl");
  file->storage = std::move(mount);
}

void ReadRoot(const Node& root, ClusterFile* file, Problems* problems) {
  const Section section(root, "", kFileFields, problems);
  section.ReadText("name", &file->name);
  section.Require("name", "name the cluster");
  if (!file->name.empty() && (!jobspec::IsDnsLabel(file->name) || file->name.size() > kLongestName))
    section.Refuse("name", absl::StrCat("must be a DNS label of at most ", kLongestName, " characters, not ",
                                        Quoted(file->name)));
  int provider = 0;
  section.ReadWord("provider", {"aws"}, &provider);
  section.ReadText("region", &file->region);
  section.Require("region", "name one, such as us-east-1");
  if (!file->region.empty()) {
    const absl::Status status = aws::CheckRegion(file->region);
    if (!status.ok()) section.Refuse("region", absl::StrCat("is none: ", status.message()));
  }
  section.ReadText("endpoint", &file->endpoint);
  if (!file->endpoint.empty() && !absl::StartsWith(file->endpoint, "http://") &&
      !absl::StartsWith(file->endpoint, "https://"))
    section.Refuse("endpoint", "must be a URL such as http://127.0.0.1:5000");
  section.Require("head", "say what the supervisor host is like");
  section.Require("workers", "list the pools, as docs/pools.md says");
  if (const Node* head = section.Map("head"))
    ReadHead(Section(*head, "head", kHeadFields, problems), &file->head);
  if (const Node* storage = section.Map("storage"))
    ReadStorage(Section(*storage, "storage", kStorageFields, problems), file);
}

// One cluster is in one place: `down` finds its machines there.
void CheckPools(const ClusterFile& file, Problems* problems) {
  if (file.pools.cluster != file.name)
    problems->Add(1, absl::StrCat("workers.cluster is ", Quoted(file.pools.cluster),
                                  ", but the cluster's name is ", Quoted(file.name), "; leave it out"));
  for (const poolfile::Pool& pool : file.pools.pools) {
    if (pool.provider != poolfile::Provider::kAws)
      problems->Add(1, absl::StrCat("pool ", pool.name, ": only provider aws can be launched"));
    else if (!pool.aws.auto_scaling_group.empty())
      problems->Add(1,
                    absl::StrCat("pool ", pool.name,
                                 ": aws.autoScalingGroup can't be launched, since a group makes new machines "
                                 "for those that \"down\" ends; leave it out"));
    else if (pool.aws.region != file.region || pool.aws.endpoint != file.endpoint)
      problems->Add(1, absl::StrCat("pool ", pool.name,
                                    ": aws.region and aws.endpoint must be the cluster's; leave them out"));
  }
}

}  // namespace

absl::StatusOr<ClusterFile> ParseClusterFile(absl::string_view content, absl::string_view file_name) {
  const absl::StatusOr<Node> root = jobfile::ParseDocument(content, file_name);
  if (!root.ok()) return root.status();
  Problems problems(file_name);
  ClusterFile file;
  if (root->kind != Node::Kind::kMap)
    problems.Add(root->line, "a cluster file must be a map of fields (name, region, head, workers)");
  else
    ReadRoot(*root, &file, &problems);
  if (absl::Status status = problems.ToStatus(); !status.ok()) return status;
  file.pools_text = DocumentText(CompletePools(file, *root->Find("workers")));
  absl::StatusOr<poolfile::PoolFile> pools =
      poolfile::ParsePoolFile(file.pools_text, absl::StrCat(file_name, ", workers as completed"));
  if (!pools.ok()) return pools.status();
  file.pools = *std::move(pools);
  CheckPools(file, &problems);
  if (absl::Status status = problems.ToStatus(); !status.ok()) return status;
  return file;
}

absl::StatusOr<ClusterFile> ReadClusterFile(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadWholeFile(path, jobfile::kMaxFileBytes);
  if (!content.ok()) return content.status();
  return ParseClusterFile(*content, std::filesystem::path(path).filename().string());
}

}  // namespace adaptdl::cli
