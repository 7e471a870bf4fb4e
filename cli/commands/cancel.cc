#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/cancel.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {

absl::StatusOr<v1::Job> CancelJob(Client& client, const JobReference& reference) {
  v1::CancelJobRequest request;
  request.set_request_id(RandomHex(16));
  request.set_namespace_(reference.name_space);
  request.set_name(reference.name);
  absl::StatusOr<v1::CancelJobResponse> response = client.Call(&Jobs::CancelJob, request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_job());
}

void AddCancel(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("cancel", "Stop jobs for good");
  const auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("JOB", *names, "Jobs, as NAME or NAMESPACE/NAME")->required();
  command->callback([context, names] {
    context->action = [context, names]() -> absl::StatusOr<int> {
      Client client(*context);
      v1::ListJobsResponse cancelled;
      for (const std::string& name : *names) {
        const absl::StatusOr<JobReference> reference = ParseJobReference(*context, name);
        if (!reference.ok()) return reference.status();
        absl::StatusOr<v1::Job> job = CancelJob(client, *reference);
        if (!job.ok()) return job.status();
        if (context->format == Format::kTable) {
          Print(absl::StrCat("job ", reference->name_space, "/", reference->name, " is being cancelled\n"));
        }
        *cancelled.add_jobs() = std::move(*job);
      }
      if (context->format != Format::kTable) PrintDocument(*context, ToJson(cancelled));
      return kExitOk;
    };
  });
}

}  // namespace adaptdl::cli
