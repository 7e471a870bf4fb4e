#include "services/worker/shim/records.h"

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::worker {
namespace {

using Json = nlohmann::json;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

absl::StatusOr<Json> ParseObject(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  return json;
}

std::string GetString(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}

int64_t GetInteger(const Json& json, const char* key, int64_t otherwise = 0) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
}

bool GetBool(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_boolean() && it->get<bool>();
}

absl::Time GetTime(const Json& json, const char* key) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, GetString(json, key), &time, &error)) return absl::UnixEpoch();
  return time;
}

constexpr std::pair<Cause, const char*> kCauses[] = {{Cause::kJob, "job"},
                                                     {Cause::kNode, "node"},
                                                     {Cause::kStorage, "storage"},
                                                     {Cause::kPreemption, "preemption"},
                                                     {Cause::kImage, "image"}};

// Empty: not known.
std::string NameOf(Cause cause) {
  for (const auto& [known, name] : kCauses) {
    if (known == cause) return name;
  }
  return "";
}

Cause CauseNamed(const std::string& text) {
  for (const auto& [cause, name] : kCauses) {
    if (text == name) return cause;
  }
  return Cause::kUnknown;
}

Json ToJson(const RunningRecord& record) {
  return {{"pid", record.pid}, {"start_time", FormatTimestamp(record.start_time)}};
}

Json ToJson(const ExitRecord& record) {
  return {{"exit_code", record.exit_code},
          {"signal", record.signal},
          {"message", record.message},
          {"lost", record.lost},
          {"cause", NameOf(record.cause)},
          {"dropped_log_bytes", record.dropped_log_bytes},
          {"start_time", FormatTimestamp(record.start_time)},
          {"end_time", FormatTimestamp(record.end_time)}};
}

RunningRecord RunningFrom(const Json& json) {
  return {.pid = GetInteger(json, "pid"), .start_time = GetTime(json, "start_time")};
}

ExitRecord ExitFrom(const Json& json) {
  return {.exit_code = static_cast<int>(GetInteger(json, "exit_code")),
          .signal = static_cast<int>(GetInteger(json, "signal")),
          .message = GetString(json, "message"),
          .lost = GetBool(json, "lost"),
          .cause = CauseNamed(GetString(json, "cause")),
          .dropped_log_bytes = GetInteger(json, "dropped_log_bytes"),
          .start_time = GetTime(json, "start_time"),
          .end_time = GetTime(json, "end_time")};
}

absl::StatusOr<std::vector<std::string>> GetStrings(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is no list"));
  }
  std::vector<std::string> strings;
  for (const Json& item : *it) {
    if (!item.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" holds something that is no text"));
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

}  // namespace

std::string FormatTimestamp(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ", time, absl::UTCTimeZone());
}

std::string KindOfEnd(const ExitRecord& record) {
  if (record.lost) return "lost";
  if (record.signal == SIGTERM || (record.signal == 0 && record.exit_code == kExitStopped)) return "stopped";
  if (record.signal != 0) return "killed";
  if (record.exit_code == kExitPeerLost) return "peer_lost";
  return record.exit_code == 0 ? "succeeded" : "failed";
}

bool IsUnexplainedFailure(const ExitRecord& record) {
  if (record.lost || record.cause != Cause::kUnknown) return false;
  const std::string kind = KindOfEnd(record);
  return kind == "failed" || (kind == "killed" && record.signal != SIGKILL);
}

std::string ProcessSpecToJson(const ProcessSpec& spec) {
  Json env = Json::array();
  for (const auto& [name, value] : spec.env) env.push_back(absl::StrCat(name, "=", value));
  return Dump({{"argv", spec.argv},
               {"env", env},
               {"working_directory", spec.working_directory},
               {"grace_ms", absl::ToInt64Milliseconds(spec.grace_period)},
               {"uid", spec.uid},
               {"gid", spec.gid},
               {"groups", spec.groups},
               {"max_processes", spec.max_processes},
               {"cgroup", spec.cgroup},
               {"memory_bytes", spec.memory_bytes},
               {"prepares", spec.prepares}});
}

absl::StatusOr<ProcessSpec> ProcessSpecFromLaunchFile(absl::string_view launch_json) {
  absl::StatusOr<Json> json = ParseObject(launch_json);
  if (!json.ok()) return json.status();
  const auto process = json->find("process");
  if (process == json->end() || !process->is_object()) {
    return absl::InvalidArgumentError("\"process\" is missing");
  }
  absl::StatusOr<std::vector<std::string>> argv = GetStrings(*process, "argv");
  if (!argv.ok()) return argv.status();
  absl::StatusOr<std::vector<std::string>> env = GetStrings(*process, "env");
  if (!env.ok()) return env.status();
  ProcessSpec spec;
  spec.argv = *std::move(argv);
  for (const std::string& variable : *env) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    spec.env.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  spec.working_directory = GetString(*process, "working_directory");
  spec.grace_period = absl::Milliseconds(GetInteger(*process, "grace_ms"));
  spec.uid = GetInteger(*process, "uid", -1);
  spec.gid = GetInteger(*process, "gid", -1);
  for (const Json& group : process->value("groups", Json::array())) {
    if (group.is_number_integer()) spec.groups.push_back(group.get<int64_t>());
  }
  spec.prepares = GetBool(*process, "prepares");
  spec.max_processes = GetInteger(*process, "max_processes");
  spec.cgroup = GetString(*process, "cgroup");
  spec.memory_bytes = GetInteger(*process, "memory_bytes");
  if (spec.argv.empty()) return absl::InvalidArgumentError("\"argv\" is empty");
  return spec;
}

std::string RunningRecordToJson(const RunningRecord& record) { return Dump(ToJson(record)); }

absl::StatusOr<RunningRecord> RunningRecordFromJson(absl::string_view text) {
  absl::StatusOr<Json> json = ParseObject(text);
  if (!json.ok()) return json.status();
  return RunningFrom(*json);
}

std::string ExitRecordToJson(const ExitRecord& record) { return Dump(ToJson(record)); }

absl::StatusOr<ExitRecord> ExitRecordFromJson(absl::string_view text) {
  absl::StatusOr<Json> json = ParseObject(text);
  if (!json.ok()) return json.status();
  if (!json->contains("exit_code")) return absl::InvalidArgumentError("\"exit_code\" is missing");
  return ExitFrom(*json);
}

std::string StartFailureToJson(const StartFailure& failure) {
  return Dump(
      {{"cause", NameOf(failure.cause)}, {"exit_code", failure.exit_code}, {"message", failure.message}});
}

absl::StatusOr<StartFailure> StartFailureFromJson(absl::string_view text) {
  absl::StatusOr<Json> json = ParseObject(text);
  if (!json.ok()) return json.status();
  return StartFailure{.cause = CauseNamed(GetString(*json, "cause")),
                      .exit_code = static_cast<int>(GetInteger(*json, "exit_code")),
                      .message = GetString(*json, "message")};
}

std::string ShimEventToLine(const ShimEvent& event) {
  Json json = event.kind == ShimEvent::Kind::kRunning ? ToJson(event.running) : ToJson(event.exit);
  json["event"] = event.kind == ShimEvent::Kind::kRunning ? "running" : "exited";
  return Dump(json) + "\n";
}

absl::StatusOr<ShimEvent> ShimEventFromLine(absl::string_view line) {
  absl::StatusOr<Json> json = ParseObject(line);
  if (!json.ok()) return json.status();
  const std::string kind = GetString(*json, "event");
  if (kind == "running") return ShimEvent{.kind = ShimEvent::Kind::kRunning, .running = RunningFrom(*json)};
  if (kind == "exited") return ShimEvent{.kind = ShimEvent::Kind::kExited, .exit = ExitFrom(*json)};
  return absl::InvalidArgumentError(absl::StrCat("unknown event \"", kind, "\""));
}

std::string StopCommandToLine(const StopCommand& command) {
  return Dump({{"command", "stop"},
               {"grace_ms", absl::ToInt64Milliseconds(command.grace_period)},
               {"reason", command.reason}}) +
         "\n";
}

absl::StatusOr<StopCommand> StopCommandFromLine(absl::string_view line) {
  absl::StatusOr<Json> json = ParseObject(line);
  if (!json.ok()) return json.status();
  if (GetString(*json, "command") != "stop") return absl::InvalidArgumentError("unknown command");
  return StopCommand{.grace_period = absl::Milliseconds(GetInteger(*json, "grace_ms")),
                     .reason = GetString(*json, "reason")};
}

}  // namespace adaptdl::worker
