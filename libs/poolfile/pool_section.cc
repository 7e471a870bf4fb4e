#include "libs/poolfile/pool_section.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jobfile/quantity.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"
#include "libs/jobspec/placement.h"
#include "libs/poolfile/provider_sections.h"
#include "libs/poolfile/section.h"

namespace adaptdl::poolfile {
namespace {

using jobfile::KnownField;
using jobfile::Node;
using jobfile::Problems;
using jobfile::Quoted;
using jobfile::Type;

// Ids of nodes are the pool's name and a number.
constexpr size_t kLongestPoolName = 50;
constexpr double kHighestPrice = 1e6;
constexpr int kMostGpus = 1024;

constexpr KnownField kPool[] = {
    {"name", Type::kText},
    {"provider", Type::kText},
    {"instanceType", Type::kText},
    {"instanceTypes", Type::kList},
    {"gpuType", Type::kText},
    {"gpus", Type::kInteger},
    {"cpus", Type::kQuantity},
    {"memory", Type::kQuantity},
    {"extendedResources", Type::kMap},
    {"pricePerHour", Type::kNumber},
    {"spot", Type::kBoolean},
    {"minNodes", Type::kInteger},
    {"maxNodes", Type::kInteger},
    {"startTime", Type::kQuantity},
    {"zones", Type::kList},
    {"labels", Type::kMap},
    {"taints", Type::kList},
    {"disk", Type::kQuantity},
    {"mounts", Type::kList},
    {"storage", Type::kMap},
    {"aws", Type::kMap},
    {"gcp", Type::kMap},
    {"process", Type::kMap},
    {"kubernetes", Type::kMap},
};

constexpr KnownField kMount[] = {
    {"source", Type::kText}, {"target", Type::kText}, {"type", Type::kText}, {"options", Type::kText}};

constexpr KnownField kStorage[] = {{"url", Type::kText}, {"endpoint", Type::kText}, {"region", Type::kText}};

// What a line of fstab, or of a shell, can hold as it is.
bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::string_view("-._:/@,=+%").find(c) != absl::string_view::npos;
  });
}

void ReadName(const Section& section, Pool* pool) {
  section.ReadText("name", &pool->name);
  section.Require("name", "name the pool");
  if (pool->name.empty() || (jobspec::IsDnsLabel(pool->name) && pool->name.size() <= kLongestPoolName))
    return;
  section.Refuse("name",
                 absl::StrCat("must be 1 to ", kLongestPoolName,
                              " lower-case letters, digits and hyphens, with a letter or digit at both "
                              "ends, not ",
                              Quoted(pool->name)));
}

void ReadInstanceTypes(const Section& section, Pool* pool) {
  section.ReadTexts("instanceTypes", &pool->instance_types);
  std::string one;
  section.ReadText("instanceType", &one);
  if (one.empty()) return;
  if (section.Has("instanceTypes")) section.Refuse("instanceType", "is given beside instanceTypes; keep one");
  pool->instance_types = {one};
}

void ReadExtended(const Section& section, v1::Resources* capacity) {
  const Node* map = section.Map("extendedResources");
  if (map == nullptr) return;
  const auto refuse = [&](absl::string_view name, absl::string_view text) {
    section.Refuse("extendedResources", absl::StrCat("holds ", Quoted(name), ", which ", text));
  };
  if (map->fields.size() > jobspec::kMaxExtendedResources) {
    section.Refuse("extendedResources", absl::StrCat("has ", map->fields.size(), " entries; keep to ",
                                                     jobspec::kMaxExtendedResources));
    return;
  }
  for (const jobfile::Field& field : map->fields) {
    const absl::StatusOr<int64_t> count = jobfile::ParseCount(field.value.text);
    if (!absl::StrContains(field.name, '/') || field.name.size() > 253 || jobspec::HasControl(field.name)) {
      refuse(field.name, "is no name of a device, such as example.com/fpga");
    } else if (field.name == "nvidia.com/gpu") {
      refuse(field.name, "is counted by gpus; write it there");
    } else if (!count.ok() || *count > jobspec::kMaxAmount) {
      refuse(field.name, "must be a whole number");
    } else if (!capacity->mutable_extended()->insert({field.name, *count}).second) {
      refuse(field.name, "is given twice; keep one");
    }
  }
}

void ReadCapacity(const Section& section, Pool* pool) {
  int64_t cpus = 0;
  int64_t memory = 0;
  int gpus = 0;
  section.ReadCpuMillis("cpus", &cpus);
  section.ReadBytes("memory", &memory);
  section.ReadInteger("gpus", 0, kMostGpus, &gpus);
  pool->capacity.set_cpu_millis(cpus);
  pool->capacity.set_memory_bytes(memory);
  pool->capacity.set_gpus(gpus);
  ReadExtended(section, &pool->capacity);
  section.ReadText("gpuType", &pool->gpu_type);
  section.ReadBytes("disk", &pool->disk_bytes);
}

void ReadBounds(const Section& section, Pool* pool) {
  section.ReadInteger("minNodes", 0, kMaxNodesOfPool, &pool->min_nodes);
  section.ReadInteger("maxNodes", 0, kMaxNodesOfPool, &pool->max_nodes);
  section.Require("maxNodes", "it bounds what the pool may cost");
  if (section.Has("maxNodes") && pool->min_nodes > pool->max_nodes)
    section.Refuse("minNodes", absl::StrCat("is ", pool->min_nodes, ", more than maxNodes, ", pool->max_nodes,
                                            "; lower it or raise maxNodes"));
  section.ReadDuration("startTime", absl::ZeroDuration(), absl::Hours(24), &pool->start_time);
  double price = 0;
  if (section.ReadNumber("pricePerHour", 0, kHighestPrice, &price)) pool->price_per_hour = price;
  section.ReadBoolean("spot", &pool->spot);
}

void ReadTaints(const Section& section, Pool* pool) {
  std::vector<std::string> texts;
  section.ReadTexts("taints", &texts);
  for (const std::string& text : texts) {
    const absl::StatusOr<v1::Taint> taint = jobspec::ParseTaint(text);
    if (taint.ok()) {
      pool->taints.push_back(*taint);
    } else {
      section.Refuse("taints", absl::StrCat("holds a ", taint.status().message()));
    }
  }
}

void ReadMounts(const Section& section, Pool* pool, Problems* problems) {
  std::set<std::string> targets;
  for (const Section::Item& item : section.Items("mounts", kMaxEntries)) {
    const Section mount(*item.node, item.path, kMount, problems);
    Mount read;
    mount.ReadText("source", &read.source);
    mount.ReadText("target", &read.target);
    mount.ReadText("type", &read.type);
    mount.ReadText("options", &read.options);
    mount.Require("source", "say what to mount: nfs.example:/export");
    mount.Require("target", "say where: /data");
    for (const auto& [name, text] : {std::pair{"source", &read.source}, std::pair{"target", &read.target},
                                     std::pair{"type", &read.type}, std::pair{"options", &read.options}}) {
      if (!IsPlain(*text)) mount.Refuse(name, "may hold letters, digits and -._:/@,=+% only");
    }
    if (!read.target.empty() && (read.target[0] != '/' || absl::StrContains(read.target, "..")))
      mount.Refuse("target", "must be an absolute path without \"..\"");
    if (!read.target.empty() && !targets.insert(read.target).second)
      mount.Refuse("target", "is that of another one; keep one");
    pool->mounts.push_back(std::move(read));
  }
}

void ReadStorage(const Section& section, Pool* pool, Problems* problems) {
  const Node* map = section.Map("storage");
  if (map == nullptr) return;
  ObjectStorage* storage = &pool->storage;
  const Section own(*map, absl::StrCat(section.path(), ".storage"), kStorage, problems);
  own.ReadText("url", &storage->url);
  own.ReadText("endpoint", &storage->endpoint);
  own.ReadText("region", &storage->region);
  own.Require("url", "name a bucket, and a prefix in it: s3://BUCKET/PREFIX");
  if (!storage->url.empty() && (!absl::StartsWith(storage->url, "s3://") || !IsPlain(storage->url)))
    own.Refuse("url", absl::StrCat("must be s3://BUCKET/PREFIX, not ", Quoted(storage->url)));
  for (const auto& [name, text] :
       {std::pair{"endpoint", &storage->endpoint}, std::pair{"region", &storage->region}}) {
    if (!IsPlain(*text)) own.Refuse(name, "may hold letters, digits and -._:/@,=+% only");
  }
}

}  // namespace

Pool ReadPool(const Node& map, const std::string& path, Problems* problems) {
  Pool pool;
  const Section section(map, path, kPool, problems);
  pool.line = section.line();
  ReadName(section, &pool);
  ReadInstanceTypes(section, &pool);
  ReadCapacity(section, &pool);
  ReadBounds(section, &pool);
  section.ReadTexts("zones", &pool.zones);
  section.ReadTextMap("labels", jobspec::kMaxLabelLength, &pool.labels);
  ReadTaints(section, &pool);
  ReadMounts(section, &pool, problems);
  ReadStorage(section, &pool, problems);
  int provider = 0;
  section.Require("provider", "give process, kubernetes, aws or gcp");
  if (!section.ReadWord("provider", {"process", "kubernetes", "aws", "gcp"}, &provider)) return pool;
  pool.provider = Provider{provider};
  ReadProviderSection(section, &pool, problems);
  return pool;
}

}  // namespace adaptdl::poolfile
