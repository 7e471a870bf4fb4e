#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/job_order.h"
#include "cli/output.h"
#include "cli/pool_table.h"
#include "cli/top/frame.h"
#include "cli/top/keys.h"
#include "cli/top/terminal.h"
#include "cli/top/view.h"
#include "libs/base/mutex.h"

namespace adaptdl::cli {
namespace {

constexpr int kEventsInPane = 10;
// The clock goes on where nothing else does.
constexpr absl::Duration kRedraw = absl::Seconds(1);

struct TopOptions {
  bool all_namespaces = false;
  bool once = false;
  absl::Duration interval = absl::Seconds(2);
  TopView view;
};

// What is asked for: which jobs, and of which one all.
struct Wanted {
  bool finished_too = false;
  // Empty: of none.
  std::string job;

  bool operator==(const Wanted&) const = default;
};

absl::StatusOr<JobSurroundings> AskAround(Client& client, const v1::Job& job) {
  JobSurroundings around;
  v1::ListEventsRequest request;
  request.set_namespace_(job.namespace_());
  request.set_name(job.name());
  absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
  if (!events.ok()) return events.status();
  const int surplus = events->events_size() - kEventsInPane;
  if (surplus > 0) events->mutable_events()->DeleteSubrange(0, surplus);
  absl::StatusOr<v1::GetNodePoolsResponse> pools = FindPools(client);
  if (!pools.ok()) return pools.status();
  absl::StatusOr<v1::ListQuotasResponse> quotas = FindQuotas(client);
  if (!quotas.ok()) return quotas.status();
  return JobSurroundings{
      .events = *std::move(events), .pools = *std::move(pools), .quotas = *std::move(quotas)};
}

absl::Status Ask(const Context& context, Client& client, const std::string& name_space, const Wanted& wanted,
                 TopData* data) {
  v1::ListJobsRequest request;
  request.set_namespace_(name_space);
  if (!wanted.finished_too) {
    for (int phase = v1::JobPhase_MIN + 1; phase <= v1::JobPhase_MAX; ++phase) {
      if (!IsFinished(static_cast<v1::JobPhase>(phase))) request.add_phases(static_cast<v1::JobPhase>(phase));
    }
  }
  absl::StatusOr<v1::ListJobsResponse> jobs = ListAllJobs(client, request);
  if (!jobs.ok()) return jobs.status();
  absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
  if (!nodes.ok()) return nodes.status();
  for (const v1::Job& job : jobs->jobs()) {
    if (NameOf(job) != wanted.job) continue;
    absl::StatusOr<JobSurroundings> around = AskAround(client, job);
    if (!around.ok()) return around.status();
    data->around = *std::move(around);
  }
  data->jobs = *std::move(jobs);
  data->nodes = *std::move(nodes);
  data->was_heard = true;
  data->heard = context.clock->Now();
  data->problem.clear();
  return absl::OkStatus();
}

// Asks again and again, on a thread of its own: a supervisor that does not answer keeps nobody from pressing keys.
// Thread-safe.
class Asker {
 public:
  Asker(const Context& context, std::string name_space, absl::Duration interval, std::function<void()> notify)
      : context_(context),
        name_space_(std::move(name_space)),
        interval_(interval),
        notify_(std::move(notify)),
        client_(context),
        thread_([this] { Run(); }) {}

  // Waits for the call in progress.
  ~Asker() {
    {
      MutexLock lock(&mutex_);
      is_ending_ = true;
      changed_.SignalAll();
    }
    thread_.join();
  }

  const std::string& address() const { return client_.address(); }
  bool is_asking() const {
    MutexLock lock(&mutex_);
    return is_asking_;
  }
  void Want(const Wanted& wanted) {
    MutexLock lock(&mutex_);
    if (wanted_ == wanted) return;
    wanted_ = wanted;
    is_due_ = true;
    changed_.SignalAll();
  }
  TopData data() const {
    MutexLock lock(&mutex_);
    return data_;
  }

 private:
  void Run() {
    while (true) {
      Wanted wanted;
      TopData data;
      {
        MutexLock lock(&mutex_);
        if (is_ending_) return;
        is_asking_ = true;
        is_due_ = false;
        wanted = wanted_;
      }
      const absl::Status status = Ask(context_, client_, name_space_, wanted, &data);
      {
        MutexLock lock(&mutex_);
        if (status.ok()) {
          data_ = std::move(data);
        } else {
          data_.problem = std::string(status.message());
        }
        is_asking_ = false;
      }
      notify_();
      MutexLock lock(&mutex_);
      if (!is_ending_ && !is_due_) changed_.WaitFor(&mutex_, interval_);
      if (is_ending_) return;
    }
  }

  const Context& context_;
  const std::string name_space_;
  const absl::Duration interval_;
  const std::function<void()> notify_;
  Client client_;
  mutable Mutex mutex_;
  CondVar changed_;
  Wanted wanted_ ABSL_GUARDED_BY(mutex_);
  TopData data_ ABSL_GUARDED_BY(mutex_);
  bool is_due_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_asking_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

Wanted WantedBy(const TopView& view) {
  return {.finished_too = view.finished_too, .job = view.pane == TopPane::kJob ? view.selected : ""};
}

absl::StatusOr<int> Watch(const Context& context, const std::string& name_space, const TopOptions& options) {
  absl::StatusOr<std::unique_ptr<Terminal>> terminal = Terminal::Open();
  if (!terminal.ok()) return terminal.status();
  Asker asker(context, name_space, options.interval, [&] { (*terminal)->Wake(); });
  TopView view = options.view;
  TopData data = asker.data();
  data.heard = context.clock->Now();
  while (!view.quits) {
    if (!view.paused) {
      const absl::Time started = data.heard;
      data = asker.data();
      if (!data.was_heard) data.heard = started;
    }
    data.supervisor = asker.address();
    data.now = view.paused ? data.now : context.clock->Now();
    const TopSize size = (*terminal)->size();
    (*terminal)->Draw(TopFrame(data, view, size, context.colours));
    const std::optional<std::string> bytes = (*terminal)->Wait(kRedraw);
    if (!bytes.has_value()) break;
    const std::vector<const v1::Job*> shown = ShownJobs(data.jobs, view, data.now);
    for (const Key& key : DecodeKeys(*bytes)) PressKey(key, shown, PageOf(size), &view);
    asker.Want(WantedBy(view));
  }
  terminal->reset();
  // Nobody waits for a call whose answer nobody sees.
  if (asker.is_asking()) _exit(kExitOk);
  return kExitOk;
}

absl::StatusOr<int> PrintOnce(const Context& context, const std::string& name_space,
                              const TopOptions& options) {
  Client client(context);
  TopData data;
  const absl::Status status = Ask(context, client, name_space, WantedBy(options.view), &data);
  if (!status.ok()) return status;
  data.supervisor = client.address();
  data.now = context.clock->Now();
  if (context.format != Format::kTable) {
    Json document;
    document["jobs"] = ToJson(data.jobs)["jobs"];
    document["nodes"] = ToJson(data.nodes)["nodes"];
    PrintDocument(context, document);
    return kExitOk;
  }
  // Nothing is pointed at on paper.
  const std::vector<std::string> lines =
      TopFrame(data, options.view, {.width = context.table_width, .height = 0}, /*colours=*/false);
  Print(absl::StrCat(absl::StrJoin(lines, "\n"), "\n"));
  return kExitOk;
}

}  // namespace

void AddTop(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("top", "Watch jobs and nodes, full screen; h shows the keys");
  const auto options = std::make_shared<TopOptions>();
  command->add_flag("-A,--all-namespaces", options->all_namespaces, "Jobs of all namespaces");
  command->add_flag("-a,--all", options->view.finished_too, "Jobs that have ended, too");
  command->add_flag("-b,--once", options->once, "Print it once, for scripts");
  command->add_option("--sort", options->view.sort, "What jobs are sorted by")
      ->check(CLI::IsMember(SortKeys()))
      ->capture_default_str();
  command->add_flag("--reverse", options->view.reverse, "The other way round");
  command->add_option("--filter", options->view.filter, "Only jobs with this text in their name or status")
      ->type_name("TEXT");
  AddDuration(*command, "--interval", &options->interval, "Time between two looks", absl::Milliseconds(200));
  command->callback([context, options] {
    context->action = [context, options] {
      const std::string name_space = options->all_namespaces ? "*" : context->Namespace();
      return options->once ? PrintOnce(*context, name_space, *options)
                           : Watch(*context, name_space, *options);
    };
  });
}

}  // namespace adaptdl::cli
