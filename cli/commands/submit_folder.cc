#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/code/listing.h"
#include "cli/code/plan.h"
#include "cli/code/shipment.h"
#include "cli/commands/submit.h"
#include "cli/format.h"
#include "cli/output.h"
#include "libs/jobfile/quantity.h"

namespace adaptdl::cli {
namespace {

absl::StatusOr<archive::ScanLimits> LimitsOf(const SubmitOptions& options) {
  archive::ScanLimits limits;
  limits.max_files = options.max_code_files;
  if (options.max_code_bytes.empty()) return limits;
  const absl::StatusOr<int64_t> bytes = jobfile::ParseBytes(options.max_code_bytes);
  if (!bytes.ok()) return UsageError(absl::StrCat("--max-code-bytes: ", bytes.status().message()));
  limits.max_bytes = *bytes;
  return limits;
}

std::string HomeOfUser() {
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : home;
}

// As the user named it.
std::string NamedFolder(const SubmitOptions& options) {
  std::error_code error;
  if (!options.code.empty()) return options.code;
  return std::filesystem::is_directory(options.path, error) ? options.path : "";
}

}  // namespace

absl::StatusOr<JobFolder> FindJobFolder(const SubmitOptions& options, const std::string& job_file,
                                        v1::ReplicaTemplate* replica) {
  const absl::StatusOr<archive::ScanLimits> limits = LimitsOf(options);
  if (!limits.ok()) return limits.status();
  // A command's own folder is one of the nodes.
  if (job_file.empty() && options.code.empty()) return JobFolder();
  const CodeWish wish = {.job_file = job_file,
                         .folder = NamedFolder(options),
                         .none = options.no_code,
                         .dockerfile = options.dockerfile,
                         .home = HomeOfUser()};
  const absl::StatusOr<CodePlan> plan = PlanCode(wish, replica);
  if (!plan.ok()) return plan.status();
  if (!plan->warning.empty()) Note(plan->warning);
  if (plan->folder.empty()) return JobFolder();
  absl::StatusOr<archive::FolderContents> contents = archive::ScanFolder(plan->folder, *limits);
  if (absl::IsResourceExhausted(contents.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        contents.status().message(), " (--max-code-bytes, --max-code-files); --no-code takes nothing along"));
  }
  if (!contents.ok()) return contents.status();
  for (const std::string& line : MissedByCommand(*contents, *replica)) Note(absl::StrCat("warning: ", line));
  return JobFolder{plan->folder, *std::move(contents)};
}

absl::Status SendJobFolder(const Context& context, Client& client, const JobFolder& folder,
                           v1::SubmitJobRequest* request) {
  if (folder.path.empty()) return absl::OkStatus();
  const absl::StatusOr<v1::CodeArchive> code =
      ShipFolder(context, client, request->job().namespace_(), folder.path, folder.contents);
  if (!code.ok()) return code.status();
  *request->mutable_job()->mutable_spec()->mutable_template_()->mutable_code() = *code;
  Note(Printable(absl::StrCat(folder.path, " goes along with the job: ", AmountText(folder.contents))));
  return absl::OkStatus();
}

void PrintDryRun(const Context& context, const JobFolder& folder, const v1::SubmitJobRequest& request) {
  if (context.format == Format::kTable) {
    Print(folder.path.empty() ? "no folder goes along with the job\n"
                              : ListingText(folder.path, folder.contents));
    return;
  }
  Json code;
  if (!folder.path.empty()) code = ListingJson(folder.path, folder.contents);
  PrintDocument(context, {{"job", ToJson(request.job())}, {"code", code}});
}

}  // namespace adaptdl::cli
