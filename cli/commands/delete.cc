#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/cancel.h"
#include "cli/commands/commands.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/output.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

struct DeleteOptions {
  std::vector<std::string> jobs;
  bool cancel = false;
};

absl::Status CancelAndWait(Client& client, const JobReference& reference) {
  const absl::StatusOr<v1::Job> job = GetJob(client, reference);
  if (!job.ok()) return job.status();
  if (IsFinished(job->status().phase())) return absl::OkStatus();
  const absl::Status cancelled = CancelJob(client, reference).status();
  // It may have finished in between: all the better.
  if (!cancelled.ok() && !absl::IsFailedPrecondition(cancelled)) return cancelled;
  return WaitUntilFinished(client, reference, absl::InfiniteFuture()).status();
}

absl::Status DeleteJob(const Context& context, Client& client, const std::string& name, bool cancel) {
  const absl::StatusOr<JobReference> reference = ParseJobReference(context, name);
  if (!reference.ok()) return reference.status();
  if (cancel) {
    const absl::Status status = CancelAndWait(client, *reference);
    if (!status.ok()) return status;
  }
  v1::DeleteJobRequest request;
  request.set_request_id(RandomHex(16));
  request.set_namespace_(reference->name_space);
  request.set_name(reference->name);
  const absl::Status status = client.Call(&Jobs::DeleteJob, request).status();
  if (absl::IsFailedPrecondition(status) && !cancel) {
    return absl::FailedPreconditionError(absl::StrCat(status.message(), " (--cancel stops it first)"));
  }
  if (status.ok() && context.format == Format::kTable) {
    Print(absl::StrCat("job ", reference->name_space, "/", reference->name, " deleted\n"));
  }
  return status;
}

}  // namespace

void AddDelete(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("delete", "Remove finished jobs with their events, logs and files");
  const auto options = std::make_shared<DeleteOptions>();
  command->add_option("JOB", options->jobs, "Jobs, as NAME or NAMESPACE/NAME")->required();
  command->add_flag("--cancel", options->cancel,
                    "Cancel jobs that have not finished, and wait for their end");
  command->callback([context, options] {
    context->action = [context, options]() -> absl::StatusOr<int> {
      Client client(*context);
      for (const std::string& name : options->jobs) {
        const absl::Status status = DeleteJob(*context, client, name, options->cancel);
        if (!status.ok()) return status;
      }
      return kExitOk;
    };
  });
}

}  // namespace adaptdl::cli
