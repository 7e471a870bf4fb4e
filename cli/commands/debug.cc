#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "adaptdl/v1/history_service.grpc.pb.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/description.h"
#include "cli/explanation.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/support/redaction.h"
#include "libs/archive/pack_texts.h"
#include "libs/base/unique_fd.h"
#include "libs/base/version.h"

namespace adaptdl::cli {
namespace {

// Of one replica's output, and of all.
constexpr size_t kMaxReplicaLog = 4 << 20;
constexpr size_t kMaxLogs = 64 << 20;

struct DebugOptions {
  std::string job;
  std::string file;
  int tail = 2000;
  bool no_logs = false;
};

constexpr char kAbout[] = R"(What the command "adaptdl debug" found out about a job:

  job.json        the job: what was asked for, and what became of it
  describe.txt    the same for people; why it is so
  explain.txt     why it has the replicas that it has
  events.json     what happened to it
  history.json    how it trained over time
  nodes.json, pools.json, quotas.json
                  the cluster
  whoami.json     who has asked
  logs/           the last lines that each replica wrote, by group and rank
  versions.json   of the command and of the nodes' workers
  missing.txt     what could not be found out, and why

Values of environment variables and arguments that may be secrets, and passwords in URLs, are "<redacted>". What the
program itself has printed is not looked into: read logs/ before you pass this on.
)";

// The texts of the archive, and what could not be had.
class Findings {
 public:
  explicit Findings(std::string folder) : folder_(std::move(folder)) {}

  void Add(const std::string& name, std::string text) {
    files_.push_back({absl::StrCat(folder_, "/", name), std::move(text)});
  }
  template <typename Message>
  void AddMessage(const std::string& name, const absl::StatusOr<Message>& message) {
    if (message.ok()) {
      Add(name, ToJson(*message).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    } else {
      Miss(name, message.status());
    }
  }
  void Miss(const std::string& name, const absl::Status& status) {
    absl::StrAppend(&missing_, name, ": ", status.message(), "\n");
  }
  const std::string& missing() const { return missing_; }
  std::vector<archive::TextFile> Take() {
    if (!missing_.empty()) Add("missing.txt", missing_);
    return std::move(files_);
  }

 private:
  const std::string folder_;
  std::vector<archive::TextFile> files_;
  std::string missing_;
};

// A line of a log, with its time.
std::string LogText(const v1::LogLine& line) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", ToTime(line.time()), absl::UTCTimeZone()),
                      line.source() == v1::LOG_SOURCE_STDERR ? " stderr " : " stdout ", line.text(), "\n");
}

void AddLogs(Client& client, const JobReference& job, int tail, Findings* findings) {
  v1::StreamLogsRequest request;
  request.set_namespace_(job.name_space);
  request.set_name(job.name);
  request.set_tail_lines(tail);
  std::map<std::string, std::string> logs;
  size_t bytes = 0;
  bool is_cut = false;
  const absl::Status status = StreamLogs(
      client, request,
      [&](const v1::LogLine& line) {
        std::string& log = logs[absl::StrCat("logs/group-", line.group(), "-rank-", line.rank(), ".txt")];
        const std::string text = LogText(line);
        is_cut = is_cut || log.size() + text.size() > kMaxReplicaLog || bytes + text.size() > kMaxLogs;
        if (is_cut) return;
        bytes += text.size();
        log += text;
      },
      [&](const std::string& warning) { findings->Miss("logs", absl::UnavailableError(warning)); });
  if (!status.ok()) findings->Miss("logs", status);
  if (is_cut) findings->Miss("logs", absl::ResourceExhaustedError("there is more than fits; see --tail"));
  for (auto& [name, text] : logs) findings->Add(name, std::move(text));
}

void AddCluster(Client& client, Findings* findings) {
  const absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
  findings->AddMessage("nodes.json", nodes);
  v1::GetNodePoolsRequest request;
  request.set_events(1000);
  findings->AddMessage("pools.json", client.Call(&Pools::GetNodePools, request));
  findings->AddMessage("quotas.json", ListAllQuotas(client));
  findings->AddMessage("whoami.json", client.Call(&Admin::WhoAmI, v1::WhoAmIRequest()));
  Json versions = {{"adaptdl", Version()}, {"nodes", Json::object()}};
  if (nodes.ok()) {
    for (const v1::Node& node : nodes->nodes()) versions["nodes"][node.node_id()] = node.version();
  }
  findings->Add("versions.json",
                versions.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void AddJob(const Context& context, Client& client, const v1::Job& job, Findings* findings) {
  findings->AddMessage("job.json", absl::StatusOr<v1::Job>(job));
  v1::ListEventsRequest request;
  request.set_namespace_(job.namespace_());
  request.set_name(job.name());
  const absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
  findings->AddMessage("events.json", events);
  JobSurroundings around;
  if (events.ok()) around.events = *events;
  around.pools = FindPools(client).value_or(v1::GetNodePoolsResponse());
  around.quotas = FindQuotas(client).value_or(v1::ListQuotasResponse());
  findings->Add("describe.txt", DescribeJob(job, around, context.clock->Now(), /*colours=*/false));
  findings->Add("explain.txt", ExplainJob(job, around.pools));
  v1::GetJobHistoryRequest history;
  history.set_namespace_(job.namespace_());
  history.set_name(job.name());
  history.set_max_points(2000);
  findings->AddMessage("history.json", client.Call(&v1::HistoryService::Stub::GetJobHistory, history));
}

// Nobody else may read it, and nothing that is there is written over.
absl::Status WriteArchive(const std::string& path, const std::vector<archive::TextFile>& files,
                          absl::Time time) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("can't make ", path, ": ", std::strerror(errno), "; --file names another one"));
  }
  absl::Cleanup remove = [&] { unlink(path.c_str()); };
  if (absl::Status status = archive::PackTexts(files, time, file.get()); !status.ok()) return status;
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::StatusOr<int> Debug(const Context& context, const DebugOptions& options) {
  const absl::StatusOr<JobReference> reference = ParseJobReference(context, options.job);
  if (!reference.ok()) return reference.status();
  Client client(context);
  const absl::StatusOr<v1::Job> job = GetJob(client, *reference);
  if (!job.ok()) return job.status();
  const absl::Time now = context.clock->Now();
  const std::string name = absl::StrCat("adaptdl-debug-", reference->name_space, "-", reference->name, "-",
                                        absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()));
  Findings findings(name);
  findings.Add("README.txt", kAbout);
  AddJob(context, client, Redacted(*job), &findings);
  AddCluster(client, &findings);
  if (!options.no_logs) AddLogs(client, *reference, options.tail, &findings);
  const std::string path = options.file.empty() ? absl::StrCat(name, ".tar.zst") : options.file;
  const std::string missing = findings.missing();
  const absl::Status written = WriteArchive(path, findings.Take(), now);
  if (!written.ok()) return written;
  if (context.format != Format::kTable) {
    PrintDocument(context, {{"file", path}, {"missing", missing}});
    return kExitOk;
  }
  Print(absl::StrCat(path, "\n"));
  Note("secrets in settings are redacted; what the program printed is as it was: look before you pass it on");
  return kExitOk;
}

}  // namespace

void AddDebug(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand(
      "debug", "Collect all that is known of a job in one archive, to be looked at elsewhere");
  const auto options = std::make_shared<DebugOptions>();
  command->add_option("JOB", options->job, "Job, as NAME or NAMESPACE/NAME")->required();
  command
      ->add_option("--file", options->file,
                   "The archive to make. Default: adaptdl-debug-NAMESPACE-NAME-TIME.tar.zst, here")
      ->type_name("FILE");
  command->add_option("--tail", options->tail, "The last so many lines of each replica's output")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--no-logs", options->no_logs, "None of the replicas' output");
  command->callback(
      [context, options] { context->action = [context, options] { return Debug(*context, *options); }; });
}

}  // namespace adaptdl::cli
