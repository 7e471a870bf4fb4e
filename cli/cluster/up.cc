// LocalCluster::Up and what it needs.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/cluster/folder_lock.h"
#include "cli/cluster/local_cluster.h"
#include "cli/format.h"
#include "cli/health_check.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/process/daemon.h"
#include "libs/base/process/pid_file.h"
#include "libs/base/process/process_identity.h"
#include "libs/certificates/certificates.h"
#include "libs/rpc/security.h"
#include "libs/service/security/token_file.h"

namespace adaptdl::cli {
namespace {

constexpr absl::Duration kStartPoll = absl::Milliseconds(50);
constexpr absl::Duration kStopGrace = absl::Seconds(15);
constexpr int kSupervisorPort = 7100;
constexpr int kMetricsPort = 7200;
constexpr size_t kLogLines = 20;
// Name of the token of whoever runs the cluster.
constexpr char kAdminToken[] = "admin";

std::string Loopback(int port) { return absl::StrCat("127.0.0.1:", port); }

bool IsPortFree(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return free;
}

int PortOf(absl::string_view address) {
  int port = 0;
  const bool known = absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port);
  return known ? port : 0;
}

int ServiceIndex(absl::string_view service) {
  return static_cast<int>(std::find(std::begin(kServices), std::end(kServices), service) -
                          std::begin(kServices));
}

std::string* AddressOf(absl::string_view service, ClusterRecord* record) {
  if (service == "supervisor") return &record->supervisor;
  return service == "allocator" ? &record->allocator : &record->autoscaler;
}

// The last lines of a file.
std::string Tail(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return "";
  std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  if (lines.size() > kLogLines) lines.erase(lines.begin(), lines.end() - kLogLines);
  return absl::StrJoin(lines, "\n");
}

}  // namespace

std::string LocalCluster::WithLog(absl::string_view text, absl::string_view service) const {
  const std::string tail = Tail(LogFile(service));
  if (tail.empty()) return absl::StrCat(text, "; ", LogFile(service), " is empty");
  return absl::StrCat(text, "; the end of ", LogFile(service), ":\n", tail);
}

absl::Status LocalCluster::MakeFolders() const {
  // Made for this user alone; one that was there before is as its owner wants it.
  std::error_code missing;
  const bool is_new = !std::filesystem::exists(folder_, missing);
  for (const char* folder : {"", "/run", "/logs", "/supervisor", "/autoscaler", "/storage"}) {
    std::error_code error;
    std::filesystem::create_directories(folder_ + folder, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("make folder ", folder_, folder));
    if (is_new) std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterRecord> LocalCluster::Settle(const UpOptions& options) const {
  absl::StatusOr<ClusterRecord> last = ReadClusterRecord(folder_);
  if (!last.ok() && !absl::IsNotFound(last.status())) return last.status();
  ClusterRecord record = last.value_or(ClusterRecord{});
  if (options.cpus_per_worker.has_value()) record.cpus_per_worker = *options.cpus_per_worker;
  if (options.workers.has_value()) {
    record.workers = *options.workers;
    // The old limit belongs to the old number.
    record.max_workers = record.workers;
  } else if (record.workers == 0) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    record.workers = std::max(1, cores / record.cpus_per_worker);
    record.max_workers = record.workers;
  }
  if (options.max_workers.has_value()) record.max_workers = *options.max_workers;
  if (record.max_workers < record.workers) {
    return absl::InvalidArgumentError(absl::StrCat("--max-workers is ", record.max_workers,
                                                   ", fewer than the ", record.workers, " workers to start"));
  }
  if (options.listen_metrics) record.listen_metrics = true;
  if (options.port.has_value()) {
    record.supervisor = Loopback(*options.port);
  } else if (record.supervisor.empty()) {
    record.supervisor = Loopback(IsPortFree(kSupervisorPort) ? kSupervisorPort : 0);
  }
  // What runs goes on as it was started.
  const bool insecure = RunsInPart() ? record.ca_file.empty() : options.insecure;
  record.ca_file = insecure ? "" : SecurityFile("ca.pem");
  record.token_file = insecure ? "" : SecurityFile("admin.token");
  if (record.allocator.empty()) record.allocator = Loopback(0);
  if (record.autoscaler.empty()) record.autoscaler = Loopback(0);
  return record;
}

absl::Status LocalCluster::MakeAdminToken(const ClusterRecord& record) const {
  const std::string file = SecurityFile("tokens.json");
  const absl::StatusOr<std::vector<security::Token>> tokens = security::ReadTokenFile(file);
  if (!tokens.ok() && !absl::IsNotFound(tokens.status())) return tokens.status();
  const std::string own = ReadWholeFile(record.token_file, 1 << 10).value_or("");
  const std::string hash = security::Sha256Hex(absl::StripAsciiWhitespace(own));
  for (const security::Token& token : tokens.value_or(std::vector<security::Token>())) {
    if (token.name != kAdminToken) continue;
    if (token.sha256 == hash) return absl::OkStatus();
    // Its text is lost.
    if (absl::Status status = security::RevokeToken(file, kAdminToken); !status.ok()) return status;
  }
  const absl::StatusOr<std::string> token = security::CreateToken(
      file, {.name = kAdminToken, .role = security::Role::kAdmin, .namespaces = {}}, *clock_);
  if (!token.ok()) return token.status();
  return WriteFileAtomically(record.token_file, absl::StrCat(*token, "\n"), 0600);
}

absl::Status LocalCluster::Secure(const ClusterRecord& record) const {
  if (record.ca_file.empty()) return absl::OkStatus();
  const auto made = certificates::MakeCertificates(
      {.folder = SecurityFile(""), .identities = certificates::AllServices(), .now = clock_->Now()});
  if (!made.ok()) return made.status();
  std::error_code error;
  std::filesystem::permissions(SecurityFile(""), std::filesystem::perms::owner_all, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("keep others out of ", SecurityFile("")));
  return MakeAdminToken(record);
}

std::vector<std::string> LocalCluster::CommandLine(absl::string_view service,
                                                   const ClusterRecord& record) const {
  ClusterRecord copy = record;
  std::vector<std::string> line = {
      absl::StrCat(binaries_, "/adaptdl-", service),
      "--listen",
      *AddressOf(service, &copy),
      "--metrics-listen",
      Loopback(record.listen_metrics ? kMetricsPort + ServiceIndex(service) : 0),
      "--address-file",
      AddressFile(service),
      "--log-file",
      LogFile(service),
  };
  const auto add = [&](absl::string_view flag, absl::string_view value) {
    line.emplace_back(flag);
    line.emplace_back(value);
  };
  if (record.ca_file.empty()) {
    line.emplace_back("--insecure");
  } else {
    add("--tls-cert", SecurityFile(absl::StrCat(service, "/cert.pem")));
    add("--tls-key", SecurityFile(absl::StrCat(service, "/key.pem")));
    add("--tls-ca", SecurityFile(absl::StrCat(service, "/ca.pem")));
    add("--token-file", SecurityFile("tokens.json"));
  }
  if (service == "supervisor") {
    add("--state-dir", absl::StrCat(folder_, "/supervisor"));
    return line;
  }
  add("--supervisor", record.supervisor);
  if (service == "allocator") return line;
  add("--allocator", record.allocator);
  add("--provider", "process");
  add("--pool", "local");
  add("--min-nodes", absl::StrCat(record.workers));
  add("--max-nodes", absl::StrCat(record.max_workers));
  add("--state-dir", absl::StrCat(folder_, "/autoscaler"));
  add("--worker-binary", absl::StrCat(binaries_, "/adaptdl-worker"));
  add("--worker-cpus", absl::StrCat(record.cpus_per_worker));
  add("--storage-dir", absl::StrCat(folder_, "/storage"));
  if (record.ca_file.empty()) return line;
  add("--worker-tls-cert", SecurityFile("worker/cert.pem"));
  add("--worker-tls-key", SecurityFile("worker/key.pem"));
  return line;
}

absl::Status LocalCluster::WaitUntilHealthy(absl::string_view service, const ProcessIdentity& process,
                                            const ClusterRecord& record, absl::Time deadline,
                                            std::string* address) const {
  while (true) {
    const absl::StatusOr<std::string> listening = ReadWholeFile(AddressFile(service), 1 << 10);
    if (listening.ok() && !listening->empty() &&
        CheckHealth(*listening, SecurityOf(service, record), "", kHealthTimeout).value_or("") == "SERVING") {
      *address = *listening;
      return absl::OkStatus();
    }
    if (!IsAlive(process)) {
      return absl::InternalError(WithLog(absl::StrCat("the ", service, " ended while it started"), service));
    }
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(
          WithLog(absl::StrCat("the ", service, " is not healthy in time"), service));
    }
    clock_->SleepFor(kStartPoll);
  }
}

bool LocalCluster::MayMove(absl::string_view service) const {
  if (service == "supervisor") return false;
  return service == "autoscaler" || !Running("autoscaler").has_value();
}

absl::Status LocalCluster::Ensure(absl::string_view service, absl::Time deadline, ClusterRecord* record) {
  const absl::Time begin = SteadyNow();
  std::optional<ProcessIdentity> process = Running(service);
  const bool was_running = process.has_value();
  if (!was_running) {
    std::error_code error;
    std::filesystem::remove(AddressFile(service), error);
    std::string& listen = *AddressOf(service, record);
    if (MayMove(service) && !IsPortFree(PortOf(listen))) listen = Loopback(0);
    // The jobs are those of whoever starts the cluster, and use that user's programs and files.
    setenv("ADAPTDL_SERVER_REPLICA_USER", "self", /*overwrite=*/0);
    const absl::StatusOr<ProcessIdentity> started = StartDaemon(
        {.command = CommandLine(service, *record),
         .working_directory = folder_,
         .log_file = LogFile(service)},
        [&](const ProcessIdentity& identity) { return WritePidFile(PidFile(service), identity); });
    if (absl::IsNotFound(started.status())) {
      return absl::NotFoundError(
          absl::StrCat(started.status().message(),
                       "; the services lie beside adaptdl, and are in the package adaptdl-services"));
    }
    if (!started.ok()) return started.status();
    process = *started;
    started_.emplace_back(service);
  }
  std::string address;
  const absl::Status healthy = WaitUntilHealthy(service, *process, *record, deadline, &address);
  if (!healthy.ok()) return healthy;
  *AddressOf(service, record) = address;
  progress_(absl::StrCat(
      service, was_running ? " runs at " : " started at ", address, ", process ", process->pid,
      was_running
          ? ""
          : absl::StrCat(" (", absl::FormatDuration(absl::Trunc(SteadyNow() - begin, absl::Milliseconds(10))),
                         ")")));
  return WriteClusterRecord(folder_, *record);
}

absl::Status LocalCluster::WaitForNodes(const ClusterRecord& record, absl::Time heard_since,
                                        absl::Time deadline) const {
  Client client(ClientContext());
  int reported = -1;
  while (true) {
    const absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
    if (!nodes.ok()) return nodes.status();
    const int ready = static_cast<int>(
        std::count_if(nodes->nodes().begin(), nodes->nodes().end(), [&](const v1::Node& node) {
          return node.status().phase() == v1::NODE_PHASE_READY &&
                 ToTime(node.status().last_heartbeat()) >= heard_since;
        }));
    if (ready != reported) progress_(absl::StrCat(ready, " of ", record.workers, " nodes are ready"));
    reported = ready;
    if (ready >= record.workers) return absl::OkStatus();
    if (!Running("autoscaler").has_value()) {
      return absl::InternalError(WithLog("the autoscaler ended while its workers started", "autoscaler"));
    }
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(WithLog(
          absl::StrCat("only ", ready, " of ", record.workers, " nodes are ready in time"), "autoscaler"));
    }
    clock_->SleepFor(kStartPoll);
  }
}

absl::Status LocalCluster::StartAll(const UpOptions& options, ClusterRecord* record) {
  const absl::Time deadline = SteadyNow() + options.timeout;
  absl::Time supervisor_ready;  // wall time, as nodes' heartbeats are told
  for (const char* service : kServices) {
    const absl::Status status = Ensure(service, deadline, record);
    if (!status.ok()) return status;
    if (service == kServices[0]) supervisor_ready = clock_->Now();
  }
  // A supervisor that has just been started still believes in nodes of the time before.
  return WaitForNodes(*record, started_.empty() ? absl::InfinitePast() : supervisor_ready, deadline);
}

absl::StatusOr<ClusterRecord> LocalCluster::Up(const UpOptions& options) {
  const absl::Status folders = MakeFolders();
  if (!folders.ok()) return folders;
  const absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Take(folder_);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<ClusterRecord> record = Settle(options);
  if (!record.ok()) return record.status();
  if (options.insecure && !record->ca_file.empty()) {
    return absl::FailedPreconditionError(
        "the cluster runs with TLS; \"adaptdl cluster down\" comes before --insecure");
  }
  if (absl::Status secured = Secure(*record); !secured.ok()) return secured;
  const absl::StatusOr<ClusterRecord> last = ReadClusterRecord(folder_);
  const bool other_supervisor =
      last.ok() && options.port.has_value() && *options.port != 0 && last->supervisor != record->supervisor;
  if (other_supervisor && Running("supervisor").has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the supervisor runs at ", last->supervisor,
                     "; \"adaptdl cluster down\" comes before another --port"));
  }
  const bool same_pool = last.ok() && last->workers == record->workers &&
                         last->max_workers == record->max_workers &&
                         last->cpus_per_worker == record->cpus_per_worker;
  if (!same_pool && Running("autoscaler").has_value()) {
    // Its workers go on: the new one takes them over.
    progress_("autoscaler restarts with the new settings");
    if (!Stop("autoscaler", kStopGrace)) return absl::InternalError("the autoscaler can't be stopped");
  }
  const absl::Status status = StartAll(options, &*record);
  if (status.ok()) return record;
  std::reverse(started_.begin(), started_.end());
  const bool with_workers = !started_.empty() && started_.front() == "autoscaler" && started_.size() == 3;
  for (const std::string& service : started_) {
    Stop(service, kStopGrace);
    if (service == "autoscaler" && with_workers) StopWorkers(kStopGrace, kStopGrace);
  }
  return status;
}

}  // namespace adaptdl::cli
