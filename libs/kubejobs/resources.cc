#include "libs/kubejobs/resources.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/jobfile/quantity.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::Json;

constexpr char kCpu[] = "cpu";
constexpr char kMemory[] = "memory";
constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kPods[] = "pods";

using Amounts = std::map<std::string, int64_t>;

// Quantities may be written as numbers.
std::string TextOf(const Json& quantity) {
  return quantity.is_string() ? quantity.get<std::string>() : quantity.is_number() ? quantity.dump() : "";
}

absl::StatusOr<Amounts> ReadAmounts(const Json& list, const std::string& where) {
  Amounts amounts;
  if (!list.is_object()) return amounts;
  for (const auto& [name, quantity] : list.items()) {
    const std::string text = TextOf(quantity);
    const absl::StatusOr<int64_t> amount =
        name == kCpu ? jobfile::ParseCpuMillis(text) : jobfile::ParseBytes(text);
    if (!amount.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".", name, ": ", amount.status().message()));
    }
    amounts[name] = std::min(*amount, jobspec::kMaxAmount);
  }
  return amounts;
}

void Add(const Amounts& other, Amounts* amounts) {
  for (const auto& [name, amount] : other) {
    int64_t& sum = (*amounts)[name];
    sum = std::min(sum + amount, jobspec::kMaxAmount);
  }
}

void RaiseTo(const Amounts& other, Amounts* amounts) {
  for (const auto& [name, amount] : other) {
    int64_t& largest = (*amounts)[name];
    largest = std::max(largest, amount);
  }
}

absl::StatusOr<Amounts> RequestOf(const Json& container, const std::string& where) {
  absl::StatusOr<Amounts> requests =
      ReadAmounts(At(container, {"resources", "requests"}), absl::StrCat(where, ".resources.requests"));
  if (!requests.ok()) return requests;
  const absl::StatusOr<Amounts> limits =
      ReadAmounts(At(container, {"resources", "limits"}), absl::StrCat(where, ".resources.limits"));
  if (!limits.ok()) return limits;
  requests->insert(limits->begin(), limits->end());
  return requests;
}

v1::Resources ToProto(const Amounts& amounts) {
  v1::Resources resources;
  for (const auto& [name, amount] : amounts) {
    if (name == kCpu) {
      resources.set_cpu_millis(amount);
    } else if (name == kMemory) {
      resources.set_memory_bytes(amount);
    } else if (name == kGpu) {
      resources.set_gpus(static_cast<int32_t>(std::min<int64_t>(amount, jobspec::kMaxGpus)));
    } else if (amount > 0) {
      (*resources.mutable_extended())[name] = amount;
    }
  }
  return resources;
}

Amounts FromProto(const v1::Resources& resources) {
  Amounts amounts(resources.extended().begin(), resources.extended().end());
  amounts[kCpu] = resources.cpu_millis();
  amounts[kMemory] = resources.memory_bytes();
  amounts[kGpu] = resources.gpus();
  return amounts;
}

// What is none of both is left for the API server to refuse.
bool IsMapOrNothing(const Json& value) { return value.is_object() || value.is_null(); }

// What the init containers need at their time. Those that go on, the sidecars, are added to `running`.
absl::StatusOr<Amounts> InitRequest(const Json& containers, Amounts* running) {
  Amounts largest;
  Amounts sidecars;
  if (!containers.is_array()) return largest;
  for (size_t i = 0; i < containers.size(); ++i) {
    const absl::StatusOr<Amounts> request = RequestOf(containers[i], absl::StrCat("initContainers[", i, "]"));
    if (!request.ok()) return request;
    Amounts now = sidecars;
    Add(*request, &now);
    RaiseTo(now, &largest);
    if (kube::TextAt(containers[i], {"restartPolicy"}) == "Always") sidecars = now;
  }
  Add(sidecars, running);
  return largest;
}

}  // namespace

absl::StatusOr<v1::Resources> PodRequest(const Json& pod_spec) {
  Amounts running;
  const Json& containers = At(pod_spec, {"containers"});
  for (size_t i = 0; containers.is_array() && i < containers.size(); ++i) {
    const absl::StatusOr<Amounts> request = RequestOf(containers[i], absl::StrCat("containers[", i, "]"));
    if (!request.ok()) return request.status();
    Add(*request, &running);
  }
  const absl::StatusOr<Amounts> init = InitRequest(At(pod_spec, {"initContainers"}), &running);
  if (!init.ok()) return init.status();
  RaiseTo(*init, &running);
  const absl::StatusOr<Amounts> overhead = ReadAmounts(At(pod_spec, {"overhead"}), "overhead");
  if (!overhead.ok()) return overhead.status();
  Add(*overhead, &running);
  running[kPods] = 1;
  return ToProto(running);
}

Json WithDefaultResources(Json pod_spec, const Json& defaults) {
  if (!pod_spec.is_object() || !At(pod_spec, {"containers"}).is_array() || pod_spec["containers"].empty() ||
      !pod_spec["containers"][0].is_object()) {
    return pod_spec;
  }
  Json& resources = pod_spec["containers"][0]["resources"];
  for (const char* list : {"requests", "limits"}) {
    const Json& amounts = At(defaults, {list});
    if (!amounts.is_object() || !IsMapOrNothing(resources) || !IsMapOrNothing(At(resources, {list})))
      continue;
    for (const auto& [name, amount] : amounts.items()) {
      const bool said =
          At(resources, {"requests"}).contains(name) || At(resources, {"limits"}).contains(name);
      if (!said) resources[list][name] = amount;
    }
  }
  if (resources.is_null()) pod_spec["containers"][0].erase("resources");
  return pod_spec;
}

absl::StatusOr<v1::Resources> Allocatable(const Json& node) {
  const absl::StatusOr<Amounts> amounts =
      ReadAmounts(At(node, {"status", "allocatable"}), "status.allocatable");
  if (!amounts.ok()) return amounts.status();
  return ToProto(*amounts);
}

v1::Resources Less(const v1::Resources& amounts, const v1::Resources& taken) {
  Amounts left = FromProto(amounts);
  for (const auto& [name, amount] : FromProto(taken)) {
    const auto found = left.find(name);
    if (found != left.end()) found->second = std::max<int64_t>(0, found->second - amount);
  }
  return ToProto(left);
}

v1::Resources Sum(const v1::Resources& a, const v1::Resources& b) {
  Amounts sum = FromProto(a);
  Add(FromProto(b), &sum);
  return ToProto(sum);
}

}  // namespace adaptdl::kubejobs
