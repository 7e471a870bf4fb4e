#include "libs/elastic/control/environment.h"

#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adaptdl::elastic {
namespace {

// Reads variables and remembers the first error.
class Reader {
 public:
  explicit Reader(const GetVariable& get) : get_(get) {}

  std::string Text(const std::string& name) { return get_(name).value_or(""); }

  int64_t Integer(const std::string& name, int64_t fallback, int64_t least, int64_t most) {
    const std::string text = Text(name);
    if (text.empty()) return fallback;
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < least || value > most) {
      Refuse(absl::StrCat(name, "=\"", text, "\": give an integer from ", least, " to ", most));
      return fallback;
    }
    return value;
  }

  absl::Duration Seconds(const std::string& name, absl::Duration fallback) {
    const std::string text = Text(name);
    if (text.empty()) return fallback;
    double value = 0;
    if (!absl::SimpleAtod(text, &value) || !(value > 0) || value > 1e9) {
      Refuse(absl::StrCat(name, "=\"", text, "\": give a positive number of seconds"));
      return fallback;
    }
    return absl::Seconds(value);
  }

  void Refuse(const std::string& text) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(text);
  }

  const absl::Status& status() const { return status_; }

 private:
  const GetVariable& get_;
  absl::Status status_;
};

constexpr int kMaxReplicas = 1 << 20;
constexpr int kMaxInt = std::numeric_limits<int>::max();

void ReadJobId(Reader* reader, Environment* environment) {
  const std::string id = reader->Text("ADAPTDL_JOB_ID");
  const size_t slash = id.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == id.size()) {
    if (environment->supervised()) {
      reader->Refuse(absl::StrCat("ADAPTDL_JOB_ID=\"", id, "\": give namespace/name"));
    }
    return;
  }
  environment->job_namespace = id.substr(0, slash);
  environment->job = id.substr(slash + 1);
}

absl::Status CheckBackend(const std::string& backend) {
  if (backend.empty() || backend == "gloo" || backend == "nccl") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the backend \"", backend, "\": give \"nccl\" or \"gloo\", or nothing to have it chosen"));
}

}  // namespace

absl::StatusOr<Environment> ReadVariables(const GetVariable& get) {
  Reader reader(get);
  Environment environment;
  environment.supervisor_address = reader.Text("ADAPTDL_SUPERVISOR_ADDRESS");
  environment.supervisor_ca = reader.Text("ADAPTDL_SUPERVISOR_CA");
  environment.supervisor_ca_pem = reader.Text("ADAPTDL_SUPERVISOR_CA_PEM");
  environment.supervisor_tls_name = reader.Text("ADAPTDL_SUPERVISOR_TLS_NAME");
  ReadJobId(&reader, &environment);
  environment.checkpoint_path = reader.Text("ADAPTDL_CHECKPOINT_PATH");
  environment.start_path = reader.Text("ADAPTDL_START_PATH");
  environment.share_path = reader.Text("ADAPTDL_SHARE_PATH");
  environment.tensorboard_logdir = reader.Text("ADAPTDL_TENSORBOARD_LOGDIR");
  environment.num_replicas = static_cast<int>(reader.Integer("ADAPTDL_NUM_REPLICAS", 1, 1, kMaxReplicas));
  environment.replica_rank =
      static_cast<int>(reader.Integer("ADAPTDL_REPLICA_RANK", 0, 0, environment.num_replicas - 1));
  environment.num_nodes = static_cast<int>(
      reader.Integer("ADAPTDL_NUM_NODES", environment.num_replicas, 1, environment.num_replicas));
  environment.num_restarts = static_cast<int>(reader.Integer("ADAPTDL_NUM_RESTARTS", 0, 0, kMaxInt));
  environment.num_gpus = static_cast<int>(reader.Integer("ADAPTDL_NUM_GPUS", -1, 0, kMaxInt));
  environment.master_host = reader.Text("ADAPTDL_MASTER_ADDR");
  environment.master_port = static_cast<int>(reader.Integer("ADAPTDL_MASTER_PORT", 0, 0, 65535));
  environment.replica_id = reader.Text("ADAPTDL_REPLICA_ID");
  environment.group = reader.Integer("ADAPTDL_GROUP", 0, 0, std::numeric_limits<int64_t>::max());
  environment.group_token = reader.Text("ADAPTDL_GROUP_TOKEN");
  environment.identity_token_file = reader.Text("ADAPTDL_IDENTITY_TOKEN_FILE");
  environment.traceparent = reader.Text("ADAPTDL_TRACEPARENT");
  environment.replica_host = reader.Text("ADAPTDL_REPLICA_HOST");
  environment.control_library = reader.Text("ADAPTDL_CONTROL_LIBRARY");
  environment.checkpoint_period =
      reader.Seconds("ADAPTDL_CHECKPOINT_PERIOD_SECONDS", environment.checkpoint_period);
  environment.checkpoint_period_steps =
      reader.Integer("ADAPTDL_CHECKPOINT_PERIOD_STEPS", 0, 0, int64_t{1} << 60);
  environment.checkpoint_keep =
      static_cast<int>(reader.Integer("ADAPTDL_CHECKPOINT_KEEP", environment.checkpoint_keep, 1, kMaxInt));
  environment.hints_period = reader.Seconds("ADAPTDL_HINTS_PERIOD_SECONDS", environment.hints_period);
  environment.collective_timeout =
      reader.Seconds("ADAPTDL_COLLECTIVE_TIMEOUT_SECONDS", environment.collective_timeout);
  environment.hang_timeout = reader.Seconds("ADAPTDL_HANG_TIMEOUT_SECONDS", environment.hang_timeout);
  environment.keep_freed_memory = reader.Integer("ADAPTDL_KEEP_MEMORY", 1, 0, 1) == 1;
  environment.plan_timeout = reader.Seconds("ADAPTDL_PLAN_TIMEOUT_SECONDS", environment.plan_timeout);
  if (!reader.status().ok()) return reader.status();
  return environment;
}

absl::StatusOr<Environment> ReadEnvironment(const GetVariable& get) {
  absl::StatusOr<Environment> environment = ReadVariables(get);
  if (!environment.ok()) return environment;
  if (environment->supervised() && environment->replica_id.empty()) {
    return absl::InvalidArgumentError(
        "ADAPTDL_REPLICA_ID is missing although ADAPTDL_SUPERVISOR_ADDRESS is set");
  }
  if (!environment->supervised() && environment->num_replicas > 1 && environment->master_port == 0) {
    return absl::InvalidArgumentError(
        "ADAPTDL_NUM_REPLICAS is above 1 without a supervisor: give rank 0's address in ADAPTDL_MASTER_ADDR "
        "and ADAPTDL_MASTER_PORT");
  }
  return environment;
}

absl::StatusOr<Environment> ReadEnvironment(const GetVariable& get, const ProcessGroup& group) {
  if (absl::Status status = CheckBackend(group.backend); !status.ok()) return status;
  std::map<std::string, std::string> given;
  if (!group.address.empty()) {
    const absl::string_view address = absl::StripPrefix(group.address, "tcp://");
    const size_t colon = address.rfind(':');
    int port = 0;
    if (colon == absl::string_view::npos || colon == 0 ||
        !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
      return absl::InvalidArgumentError(
          absl::StrCat("the address \"", group.address, "\": give host:port or tcp://host:port"));
    }
    given["ADAPTDL_MASTER_ADDR"] = std::string(address.substr(0, colon));
    given["ADAPTDL_MASTER_PORT"] = absl::StrCat(port);
  }
  if (group.world_size != 0) given["ADAPTDL_NUM_REPLICAS"] = absl::StrCat(group.world_size);
  if (group.rank >= 0) given["ADAPTDL_REPLICA_RANK"] = absl::StrCat(group.rank);
  if (!get("ADAPTDL_SUPERVISOR_ADDRESS").value_or("").empty()) {
    for (const auto& [name, value] : given) {
      const std::string told = get(name).value_or("");
      if (told == value) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the program asks for ", name, "=", value, ", and the supervisor decides on it",
                       told.empty() ? "" : absl::StrCat(" (", told, ")"), "; leave it out"));
    }
  }
  return ReadEnvironment([&](const std::string& name) {
    const auto own = given.find(name);
    return own == given.end() ? get(name) : own->second;
  });
}

std::optional<std::string> GetFromProcess(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets any
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace adaptdl::elastic
