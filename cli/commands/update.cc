#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

// What may change of a job; absent: it stays.
struct Update {
  std::optional<int> min_replicas = std::nullopt;
  std::optional<int> max_replicas = std::nullopt;
  std::optional<int> priority = std::nullopt;
  std::optional<bool> suspend = std::nullopt;
};

absl::StatusOr<v1::Job> UpdateJob(Client& client, const JobReference& reference, const Update& update) {
  v1::UpdateJobRequest request;
  request.set_request_id(RandomHex(16));
  request.set_namespace_(reference.name_space);
  request.set_name(reference.name);
  if (update.min_replicas) request.set_min_replicas(*update.min_replicas);
  if (update.max_replicas) request.set_max_replicas(*update.max_replicas);
  if (update.priority) request.set_priority(*update.priority);
  if (update.suspend) request.set_suspend(*update.suspend);
  absl::StatusOr<v1::UpdateJobResponse> response = client.Call(&Jobs::UpdateJob, request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_job());
}

// `done`: what is said of each job.
absl::StatusOr<int> UpdateJobs(const Context& context, const std::vector<std::string>& names,
                               const Update& update, const std::string& done) {
  Client client(context);
  v1::ListJobsResponse updated;
  for (const std::string& name : names) {
    const absl::StatusOr<JobReference> reference = ParseJobReference(context, name);
    if (!reference.ok()) return reference.status();
    absl::StatusOr<v1::Job> job = UpdateJob(client, *reference, update);
    if (!job.ok()) return job.status();
    if (context.format == Format::kTable) {
      Print(absl::StrCat("job ", reference->name_space, "/", reference->name, " ", done, "\n"));
    }
    *updated.add_jobs() = std::move(*job);
  }
  if (context.format != Format::kTable) PrintDocument(context, ToJson(updated));
  return kExitOk;
}

std::shared_ptr<std::vector<std::string>> AddJobs(CLI::App* command) {
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("JOB", *names, "Jobs, as NAME or NAMESPACE/NAME")->required();
  return names;
}

void AddSwitch(CLI::App& app, Context* context, const char* name, const char* help, bool suspend,
               const char* done) {
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([context, names = AddJobs(command), suspend, done] {
    context->action = [context, names, suspend, done] {
      return UpdateJobs(*context, *names, {.suspend = suspend}, done);
    };
  });
}

}  // namespace

void AddUpdate(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("update", "Change the bounds or the priority of jobs");
  const auto update = std::make_shared<Update>();
  const auto names = AddJobs(command);
  command->add_option("--min-replicas", update->min_replicas,
                      "Fewest replicas that the job can run with (0: 1)");
  command->add_option("--max-replicas", update->max_replicas, "Most replicas that it may get (0: no limit)");
  command->add_option("--priority", update->priority, "Higher ones get what they need to start first");
  command->callback([context, names, update] {
    context->action = [context, names, update]() -> absl::StatusOr<int> {
      if (!update->min_replicas && !update->max_replicas && !update->priority) {
        return absl::InvalidArgumentError(
            "nothing to change: give --min-replicas, --max-replicas or --priority");
      }
      return UpdateJobs(*context, *names, *update, "updated");
    };
  });
}

void AddSuspend(CLI::App& app, Context* context) {
  AddSwitch(app, context, "suspend",
            "Hold jobs: they give up their replicas, and get none until they are resumed", true, "is held");
}

void AddResume(CLI::App& app, Context* context) {
  AddSwitch(app, context, "resume", "Let held jobs go on from where they were", false, "is held no longer");
}

}  // namespace adaptdl::cli
