#include <algorithm>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/commands/wait.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "libs/base/clock.h"

namespace adaptdl::cli {
namespace {

struct WaitOptions {
  std::vector<std::string> jobs;
  absl::Duration timeout = absl::ZeroDuration();
};

absl::StatusOr<int> Wait(const Context& context, const WaitOptions& options) {
  std::vector<JobReference> references;
  for (const std::string& name : options.jobs) {
    absl::StatusOr<JobReference> reference = ParseJobReference(context, name);
    if (!reference.ok()) return reference.status();
    references.push_back(*reference);
  }
  const absl::Time deadline =
      options.timeout > absl::ZeroDuration() ? SteadyNow() + options.timeout : absl::InfiniteFuture();
  Client client(context);
  return WaitForJobs(context, client, references, deadline);
}

// Failed comes before cancelled, which comes before succeeded.
int Worse(int a, int b) {
  for (const int code : {kExitJobFailed, kExitJobCancelled}) {
    if (a == code || b == code) return code;
  }
  return kExitOk;
}

// "default/a Running, 3 replicas, 37% done, 41m00s left".
std::string WaitText(const v1::Job& job, absl::Time now) {
  const v1::JobStatus& status = job.status();
  std::string text = Printable(absl::StrCat(job.namespace_(), "/", job.name(), " ", StatusText(status)));
  const int replicas = status.allocation_size();
  if (replicas > 0) absl::StrAppend(&text, ", ", replicas, replicas == 1 ? " replica" : " replicas");
  if (DoneText(status) != "-") absl::StrAppend(&text, ", ", DoneText(status), " done");
  const std::string eta = EtaText(status, now);
  if (eta != "-") absl::StrAppend(&text, ", ", eta, eta == kOverdue ? "" : " left");
  return text;
}

// What a job waits for that may never come. Empty: nothing of that kind.
std::string WaitsInVain(const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  const bool in_vain = status.phase() == v1::JOB_PHASE_PENDING && status.reason() == "Unschedulable";
  if (!in_vain || status.message().empty()) return "";
  return Printable(absl::StrCat(job.namespace_(), "/", job.name(), " waits: ", status.message()));
}

// What a job waits for, as it is told by whoever decides. Empty: it does not wait, or nobody has decided on it.
std::string WaitReason(const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  const bool undecided = status.reason() == "Queued" && status.allocation_reason().empty();
  if (status.phase() != v1::JOB_PHASE_PENDING || undecided) return "";
  const std::string& why = status.message().empty() ? status.allocation_reason() : status.message();
  return why.empty() ? "" : Printable(absl::StrCat(job.namespace_(), "/", job.name(), " waits: ", why));
}

}  // namespace

void TellWhatItWaitsFor(Client& client, const JobReference& reference, const std::stop_token& stop) {
  std::string told;
  const auto tell = [&](const v1::Job& job) {
    std::string why = WaitReason(job);
    if (!why.empty() && why != told) Note(why);
    told = std::move(why);
  };
  // Whoever prints the output tells what becomes of the job, and of the supervisor.
  WaitUntilFinished(client, reference, absl::InfiniteFuture(), tell, stop).IgnoreError();
}

absl::StatusOr<int> WaitForJobs(const Context& context, Client& client,
                                const std::vector<JobReference>& references, absl::Time deadline) {
  v1::ListJobsResponse ended;
  int code = kExitOk;
  for (const JobReference& reference : references) {
    StatusLine line(context);
    std::string told;
    const absl::StatusOr<v1::Job> job =
        WaitUntilFinished(client, reference, deadline, [&](const v1::Job& now) {
          if (std::string why = WaitsInVain(now); !why.empty() && why != told) {
            line.Clear();
            told = std::move(why);
            Note(told);
          }
          line.Set(absl::StrCat(ended.jobs_size(), " of ", references.size(), " ended; ",
                                WaitText(now, context.clock->Now())));
        });
    line.Clear();
    if (absl::IsDeadlineExceeded(job.status())) {
      Note(absl::StrCat("timeout: ", job.status().message()));
      return kExitTimeout;
    }
    if (!job.ok()) return job.status();
    *ended.add_jobs() = *job;
    code = Worse(code, ExitCodeOf(job->status().phase()));
    if (context.format != Format::kTable) continue;
    const std::string message = job->status().message().empty() ? "" : ": " + job->status().message();
    Print(Printable(
              absl::StrCat(job->namespace_(), "/", job->name(), " ", StatusText(job->status()), message)) +
          "\n");
  }
  if (context.format != Format::kTable) PrintDocument(context, ToJson(ended));
  return code;
}

void AddWait(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand(
      "wait",
      "Wait until jobs have finished; exit code 0: all succeeded, 3: one failed, 4: one was cancelled, "
      "124: timeout");
  const auto options = std::make_shared<WaitOptions>();
  command->add_option("JOB", options->jobs, "Jobs, as NAME or NAMESPACE/NAME")->required();
  AddDuration(*command, "--timeout", &options->timeout, "Longest time to wait. 0: for ever");
  command->callback(
      [context, options] { context->action = [context, options] { return Wait(*context, *options); }; });
}

}  // namespace adaptdl::cli
