#include "simulator/history/history.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::simulator {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kEnds[] = {"not yet", "succeeded", "failed", "cancelled"};

Json PerfToJson(const goodput::PerfParams& p) {
  return {{"alpha_c", p.alpha_c}, {"beta_c", p.beta_c}, {"alpha_n", p.alpha_n}, {"beta_n", p.beta_n},
          {"alpha_r", p.alpha_r}, {"beta_r", p.beta_r}, {"gamma", p.gamma}};
}

goodput::PerfParams PerfFromJson(const Json& json) {
  return {json.at("alpha_c"), json.at("beta_c"), json.at("alpha_n"), json.at("beta_n"),
          json.at("alpha_r"), json.at("beta_r"), json.at("gamma")};
}

Json DemandToJson(const ReplicaDemand& demand) {
  return {{"min_replicas", demand.min_replicas},
          {"max_replicas", demand.max_replicas},
          {"allowed", demand.allowed_replicas},
          {"preemptible", demand.preemptible},
          {"priority", demand.priority},
          {"namespace", demand.name_space},
          {"request", demand.request}};
}

ReplicaDemand DemandFromJson(const Json& json) {
  ReplicaDemand demand;
  json.at("min_replicas").get_to(demand.min_replicas);
  json.at("max_replicas").get_to(demand.max_replicas);
  json.at("allowed").get_to(demand.allowed_replicas);
  json.at("preemptible").get_to(demand.preemptible);
  json.at("priority").get_to(demand.priority);
  json.at("namespace").get_to(demand.name_space);
  json.at("request").get_to(demand.request);
  return demand;
}

Json JobToJson(const RecordedJob& job) {
  Json json = {{"name", job.name}, {"submitted_s", job.submitted}};
  if (job.started) json["started_s"] = *job.started;
  if (job.completed) json["completed_s"] = *job.completed;
  json["end"] = kEnds[static_cast<int>(job.end)];
  json["restarts"] = job.restarts;
  json["replica_seconds"] = job.replica_seconds;
  json["init_batch_size"] = job.init_batch_size;
  json["max_batch_size"] = job.max_batch_size;
  json["min_local_batch_size"] = job.min_local;
  json["max_local_batch_size"] = job.max_local;
  json["accumulation"] = job.accumulation;
  json["perf"] = Json::object();
  for (const auto& [type, perf] : job.perf) json["perf"][type] = PerfToJson(perf);
  if (job.gradient) json["gradient"] = {{"sqr", job.gradient->sqr}, {"var", job.gradient->var}};
  json["steps_done"] = job.steps_done;
  json["steps_total"] = job.steps_total;
  if (job.rescale_seconds) json["rescale_s"] = *job.rescale_seconds;
  json["demand"] = DemandToJson(job.demand);
  return json;
}

std::optional<double> Optional(const Json& json, const char* field) {
  if (!json.contains(field)) return std::nullopt;
  return json.at(field).get<double>();
}

RecordedEnd EndFromText(const std::string& text) {
  for (int end = 0; end < 4; ++end) {
    if (text == kEnds[end]) return static_cast<RecordedEnd>(end);
  }
  return RecordedEnd::kNotYet;
}

RecordedJob JobFromJson(const Json& json) {
  RecordedJob job;
  json.at("name").get_to(job.name);
  json.at("submitted_s").get_to(job.submitted);
  job.started = Optional(json, "started_s");
  job.completed = Optional(json, "completed_s");
  job.end = EndFromText(json.at("end").get<std::string>());
  json.at("restarts").get_to(job.restarts);
  json.at("replica_seconds").get_to(job.replica_seconds);
  json.at("init_batch_size").get_to(job.init_batch_size);
  json.at("max_batch_size").get_to(job.max_batch_size);
  json.at("min_local_batch_size").get_to(job.min_local);
  json.at("max_local_batch_size").get_to(job.max_local);
  json.at("accumulation").get_to(job.accumulation);
  for (const auto& [type, perf] : json.at("perf").items()) job.perf[type] = PerfFromJson(perf);
  if (json.contains("gradient")) {
    job.gradient = {json.at("gradient").at("sqr"), json.at("gradient").at("var")};
  }
  json.at("steps_done").get_to(job.steps_done);
  json.at("steps_total").get_to(job.steps_total);
  job.rescale_seconds = Optional(json, "rescale_s");
  job.demand = DemandFromJson(json.at("demand"));
  return job;
}

absl::Status CheckNames(const History& history) {
  std::set<std::string> names;
  for (const RecordedJob& job : history.jobs) {
    if (!names.insert(job.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("history: two jobs are called ", job.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToJson(const History& history) {
  Json json = {{"format", kFormat}, {"nodes", Json::array()}, {"jobs", Json::array()}};
  for (const RecordedNode& node : history.nodes) {
    json["nodes"].push_back({{"id", node.id}, {"gpu_type", node.gpu_type}, {"capacity", node.capacity}});
  }
  for (const RecordedJob& job : history.jobs) json["jobs"].push_back(JobToJson(job));
  return absl::StrCat(json.dump(2, ' ', false, Json::error_handler_t::replace), "\n");
}

absl::StatusOr<History> ParseHistory(absl::string_view text) {
  // The library tells by exceptions what is missing; they stay in here.
  try {
    const Json json = Json::parse(text);
    if (const int format = json.at("format").get<int>(); format != kFormat) {
      return absl::InvalidArgumentError(
          absl::StrCat("history: the format is ", format, "; this version reads ", kFormat));
    }
    History history;
    for (const Json& node : json.at("nodes")) {
      history.nodes.push_back({node.at("id"), node.at("gpu_type"), node.at("capacity")});
    }
    for (const Json& job : json.at("jobs")) history.jobs.push_back(JobFromJson(job));
    if (absl::Status status = CheckNames(history); !status.ok()) return status;
    return history;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("history: ", error.what()));
  }
}

}  // namespace adaptdl::simulator
