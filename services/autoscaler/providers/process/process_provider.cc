#include "services/autoscaler/providers/process/process_provider.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/process/pid_file.h"
#include "libs/service/log.h"

namespace adaptdl::autoscaler {
namespace {

namespace fs = std::filesystem;

// A worker's output is turned over at its start when it is larger than this, in bytes.
constexpr uint64_t kMaxLogBytes = 16 << 20;

absl::Status CreateFolders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("create folder ", path)) : absl::OkStatus();
}

void RotateLog(const std::string& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (!error && size > kMaxLogBytes) fs::rename(path, path + ".1", error);
}

absl::Status CheckProgram(const std::string& path) {
  if (access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("--worker-binary ", path, ": no such program; give the path of adaptdl-worker"));
}

// Whether the environment's "NAME=value" sets a flag that says who this program is, or whom it admits.
bool IsCredential(absl::string_view variable) {
  constexpr absl::string_view kPrefixes[] = {"ADAPTDL_SERVER_TLS_", "ADAPTDL_SERVER_INSECURE",
                                             "ADAPTDL_SERVER_TOKEN_FILE", "ADAPTDL_SERVER_JW",
                                             "ADAPTDL_SERVER_AUDIT_LOG"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [variable](absl::string_view prefix) { return absl::StartsWith(variable, prefix); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessProvider>> ProcessProvider::Create(
    const ProcessProviderOptions& options, Clock* clock) {
  if (const absl::Status status = CheckProgram(options.worker_binary); !status.ok()) return status;
  if (const absl::Status status = CreateFolders(options.state_dir + "/nodes"); !status.ok()) return status;
  const std::string lock = options.state_dir + "/lock";
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", lock));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat(lock, " is held by another autoscaler: stop that one, or choose another --state-dir"));
  }
  return std::unique_ptr<ProcessProvider>(new ProcessProvider(options, clock, fd));
}

ProcessProvider::~ProcessProvider() { close(lock_fd_); }

std::string ProcessProvider::NodesFolder() const { return options_.state_dir + "/nodes"; }

std::string ProcessProvider::NodeFile(const std::string& node_id, absl::string_view file) const {
  return absl::StrCat(NodesFolder(), "/", node_id, "/", file);
}

absl::StatusOr<ProcessIdentity> ProcessProvider::Worker(const std::string& node_id) const {
  return ReadPidFile(NodeFile(node_id, "pid"));
}

bool ProcessProvider::IsStopping(const std::string& node_id) const {
  return access(NodeFile(node_id, "stopping").c_str(), F_OK) == 0;
}

absl::StatusOr<std::vector<ProvidedNode>> ProcessProvider::ListNodes() {
  std::error_code error;
  std::vector<std::string> ids;
  for (fs::directory_iterator entry(NodesFolder(), error), end; !error && entry != end;
       entry.increment(error)) {
    ids.push_back(entry->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("read folder ", NodesFolder()));
  std::sort(ids.begin(), ids.end());
  std::vector<ProvidedNode> nodes;
  for (const std::string& id : ids) {
    ProvidedNode node;
    if (Inspect(id, &node)) nodes.push_back(node);
  }
  return nodes;
}

bool ProcessProvider::Inspect(const std::string& node_id, ProvidedNode* node) {
  const absl::StatusOr<ProcessIdentity> worker = Worker(node_id);
  if (absl::IsNotFound(worker.status())) return false;
  node->node_id = node_id;
  const bool alive = worker.ok() && IsAlive(*worker);
  if (!IsStopping(node_id)) {
    node->state = alive ? ProvidedState::kAlive : ProvidedState::kDead;
    return true;
  }
  if (!alive) {
    Forget(node_id);
    return false;
  }
  node->state = ProvidedState::kStopping;
  // After a restart of ours the time begins anew.
  const absl::Time stop_time = stop_times_.try_emplace(node_id, clock_->Steady()).first->second;
  if (clock_->Steady() >= stop_time + options_.stop_timeout) {
    log::Warning("worker does not stop, killing it", {{"node", node_id}});
    SignalProcess(*worker, SIGKILL).IgnoreError();  // fails only if it has ended
  }
  return true;
}

void ProcessProvider::Forget(const std::string& node_id) {
  // The pid file first: if we die in between, a node without it is gone all the same.
  unlink(NodeFile(node_id, "pid").c_str());
  unlink(NodeFile(node_id, "stopping").c_str());
  unlink(NodeFile(node_id, "address").c_str());
  stop_times_.erase(node_id);
}

DaemonOptions ProcessProvider::WorkerProcess(const std::string& node_id) const {
  DaemonOptions process;
  process.environment.emplace();
  process.command = {options_.worker_binary, "--supervisor=" + options_.supervisor, "--node-id=" + node_id,
                     "--state-dir=" + NodeFile(node_id, "worker"), "--storage-dir=" + options_.storage_dir,
                     absl::StrCat("--label=", kPoolLabel, "=", options_.pool), "--listen=127.0.0.1:0",
                     "--metrics-listen=127.0.0.1:0", "--address-file=" + NodeFile(node_id, "address"),
                     absl::StrCat("--cpus=", options_.worker_cpus),
                     // Nodes on one machine would offer the same GPUs to several jobs.
                     "--gpus=0", "--log-format=" + options_.log_format, "--log-level=" + options_.log_level};
  for (const auto& [name, value] : options_.labels) {
    process.command.push_back(absl::StrCat("--label=", name, "=", value));
  }
  for (const std::string& taint : options_.taints) process.command.push_back("--taint=" + taint);
  if (options_.preemptible) process.command.push_back("--preemptible");
  if (options_.worker_memory_bytes > 0) {
    process.command.push_back(absl::StrCat("--memory=", options_.worker_memory_bytes));
  }
  if (options_.insecure) {
    process.command.push_back("--insecure");
  } else {
    for (std::string flag :
         {"--tls-cert=" + options_.worker_tls.certificate, "--tls-key=" + options_.worker_tls.key,
          "--tls-ca=" + options_.worker_tls.ca, "--tls-server-name=" + options_.tls_server_name}) {
      process.command.push_back(std::move(flag));
    }
  }
  for (const std::string& variable : options_.environment) {
    // The workers are told what they need; this program's credentials are its own.
    if (!IsCredential(variable)) process.environment->push_back(variable);
  }
  process.log_file = NodeFile(node_id, "worker.log");
  // It goes on with the file, and begins it anew when it is full.
  process.command.push_back("--log-file=" + process.log_file);
  return process;
}

NodePoolProvider::Created ProcessProvider::CreateNodes(int count, const std::set<std::string>& taken_ids) {
  Created created;
  for (int k = 0; static_cast<int>(created.node_ids.size()) < count; ++k) {
    const std::string id = absl::StrCat(options_.pool, "-", k);
    if (taken_ids.contains(id) || !absl::IsNotFound(Worker(id).status())) continue;
    created.status = RestartNode(id);
    if (!created.status.ok()) break;
    created.node_ids.push_back(id);
  }
  return created;
}

absl::Status ProcessProvider::RestartNode(const std::string& node_id) {
  const absl::StatusOr<ProcessIdentity> worker = Worker(node_id);
  const bool alive = worker.ok() && IsAlive(*worker);
  if (alive && IsStopping(node_id)) {
    return absl::FailedPreconditionError(absl::StrCat("node ", node_id, " is stopping"));
  }
  if (alive) return absl::OkStatus();
  Forget(node_id);
  if (const absl::Status status = CreateFolders(NodeFile(node_id, "worker")); !status.ok()) return status;
  const DaemonOptions process = WorkerProcess(node_id);
  RotateLog(process.log_file);
  const auto started = StartDaemon(process, [&](const ProcessIdentity& identity) {
    return WritePidFile(NodeFile(node_id, "pid"), identity);
  });
  if (!started.ok()) return started.status();
  log::Info("worker started",
            {{"node", node_id}, {"pid", absl::StrCat(started->pid)}, {"log", process.log_file}});
  return absl::OkStatus();
}

absl::Status ProcessProvider::TerminateNode(const std::string& node_id) {
  const absl::StatusOr<ProcessIdentity> worker = Worker(node_id);
  if (absl::IsNotFound(worker.status())) return absl::OkStatus();
  if (!worker.ok() || !IsAlive(*worker)) {
    Forget(node_id);
    return absl::OkStatus();
  }
  if (const absl::Status status = WriteFileAtomically(NodeFile(node_id, "stopping"), ""); !status.ok())
    return status;
  stop_times_.try_emplace(node_id, clock_->Steady());
  log::Info("worker told to stop", {{"node", node_id}, {"pid", absl::StrCat(worker->pid)}});
  const absl::Status status = SignalProcess(*worker, SIGTERM);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace adaptdl::autoscaler
