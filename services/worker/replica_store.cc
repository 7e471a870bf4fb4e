#include "services/worker/replica_store.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "libs/base/file.h"
#include "libs/service/log.h"
#include "nlohmann/json.hpp"
#include "services/worker/names.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kAcknowledgedFile[] = "acknowledged";

absl::StatusOr<std::string> LaunchFileContent(const v1::LaunchReplica& launch,
                                              const std::vector<std::string>& devices,
                                              const ProcessSpec& process) {
  std::string launch_json;
  if (!google::protobuf::util::MessageToJsonString(launch, &launch_json).ok()) {
    return absl::InvalidArgumentError("the launch order can't be written as JSON");
  }
  return absl::StrCat("{\"launch\":", launch_json, ",\"devices\":", Json(devices).dump(),
                      ",\"process\":", ProcessSpecToJson(process), "}\n");
}

absl::Status ParseLaunchFile(const std::string& content, StoredReplica* replica) {
  const Json json = Json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("launch") || !json.contains("devices") ||
      !json["devices"].is_array()) {
    return absl::DataLossError("launch.json is damaged");
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // written by a newer worker
  if (!google::protobuf::util::JsonStringToMessage(json["launch"].dump(), &replica->launch, options).ok()) {
    return absl::DataLossError("launch.json is damaged");
  }
  for (const Json& device : json["devices"]) {
    if (device.is_string()) replica->devices.push_back(device.get<std::string>());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplicaStore> ReplicaStore::Create(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make folder ", folder));
  // Which jobs run here is nobody's business.
  if (chmod(folder.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("close folder ", folder));
  return ReplicaStore(folder);
}

std::string ReplicaStore::FolderOf(const std::string& replica_id) const {
  return absl::StrCat(folder_, "/", replica_id);
}

absl::Status ReplicaStore::Add(const v1::LaunchReplica& launch, const std::vector<std::string>& devices,
                               const ProcessSpec& process) {
  const absl::StatusOr<std::string> content = LaunchFileContent(launch, devices, process);
  if (!content.ok()) return content.status();
  const std::string folder = FolderOf(launch.replica_id());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, absl::StrCat("make folder ", folder));
  }
  return WriteFileAtomically(absl::StrCat(folder, "/", kLaunchFile), *content, 0600);
}

absl::Status ReplicaStore::WriteExit(const std::string& replica_id, const ExitRecord& record) {
  return WriteFileAtomically(absl::StrCat(FolderOf(replica_id), "/", kExitFile), ExitRecordToJson(record),
                             0640);
}

absl::Status ReplicaStore::MarkAcknowledged(const std::string& replica_id) {
  return WriteFileAtomically(absl::StrCat(FolderOf(replica_id), "/", kAcknowledgedFile), "", 0640);
}

absl::Status ReplicaStore::Remove(const std::string& replica_id) {
  std::error_code error;
  fs::remove_all(FolderOf(replica_id), error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", FolderOf(replica_id)));
  return absl::OkStatus();
}

std::vector<StoredReplica> ReplicaStore::LoadAll() {
  std::vector<StoredReplica> replicas;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string replica_id = entry->path().filename().string();
    if (!CheckReplicaId(replica_id).ok()) continue;
    absl::StatusOr<StoredReplica> replica = Load(replica_id);
    if (replica.ok()) {
      replicas.push_back(*std::move(replica));
    } else if (absl::IsNotFound(replica.status())) {
      Remove(replica_id).IgnoreError();  // the next start tries again
    } else {
      log::Warning("a replica's folder can't be read and is left alone",
                   {{"replica", replica_id}, {"error", replica.status().ToString()}});
    }
  }
  return replicas;
}

absl::StatusOr<StoredReplica> ReplicaStore::Load(const std::string& replica_id) const {
  const std::string folder = FolderOf(replica_id);
  const absl::StatusOr<std::string> launch = ReadWholeFile(absl::StrCat(folder, "/", kLaunchFile));
  if (!launch.ok()) return launch.status();
  StoredReplica replica;
  if (absl::Status status = ParseLaunchFile(*launch, &replica); !status.ok()) return status;
  if (replica.launch.replica_id() != replica_id)
    return absl::DataLossError("launch.json is of another replica");
  if (const auto text = ReadWholeFile(absl::StrCat(folder, "/", kRunningFile)); text.ok()) {
    if (const auto running = RunningRecordFromJson(*text); running.ok()) replica.running = *running;
  }
  if (const auto text = ReadWholeFile(absl::StrCat(folder, "/", kExitFile)); text.ok()) {
    if (const auto exit = ExitRecordFromJson(*text); exit.ok()) replica.exit = *exit;
  }
  replica.acknowledged = fs::exists(absl::StrCat(folder, "/", kAcknowledgedFile));
  return replica;
}

int64_t ReplicaStore::LogBytes(const std::string& replica_id) const {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(FolderOf(replica_id), error), end; !error && entry != end;
       entry.increment(error)) {
    if (!absl::StartsWith(entry->path().filename().string(), kLogFile)) continue;
    std::error_code size_error;
    const auto size = fs::file_size(entry->path(), size_error);
    if (!size_error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace adaptdl::worker
