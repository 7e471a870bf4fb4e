#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/commands/cp.h"
#include "cli/file_sink.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace adaptdl::cli {
namespace {

constexpr char kContainerFolder[] = "/adaptdl";

struct Source {
  JobReference job;
  v1::JobFolder folder;
  // Relative to the folder; empty for all of it.
  std::string path;
  // What a copy of it is called.
  std::string base_name;
};

// "JOB:share/PATH" or "JOB:checkpoint/PATH"; or, as the containers of AdaptDL's jobs have them, "JOB:/adaptdl/share/PATH" and so on.
absl::StatusOr<Source> ParseSource(const Context& context, const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    return UsageError(absl::StrCat(text, " names no job; write JOB:share/PATH or JOB:checkpoint/PATH"));
  }
  const absl::StatusOr<JobReference> job = ParseJobReference(context, text.substr(0, colon));
  if (!job.ok()) return job.status();
  Source source{.job = *job, .folder = v1::JOB_FOLDER_UNSPECIFIED, .path = "", .base_name = ""};
  std::filesystem::path path = std::filesystem::path(text.substr(colon + 1)).lexically_normal();
  const bool in_container = absl::StartsWith(path.string(), absl::StrCat(kContainerFolder, "/"));
  path = in_container ? path.lexically_relative(kContainerFolder) : path.relative_path();
  const std::string head = path.empty() ? "" : path.begin()->string();
  if (head == "share") source.folder = v1::JOB_FOLDER_SHARE;
  if (head == "checkpoint") source.folder = v1::JOB_FOLDER_CHECKPOINT;
  if (source.folder == v1::JOB_FOLDER_UNSPECIFIED) {
    return UsageError(absl::StrCat(
        text,
        ": the path must begin with share/ or checkpoint/, or with /adaptdl/share/ or /adaptdl/checkpoint/"));
  }
  const std::string relative = path.lexically_relative(head).string();
  source.path = relative == "." ? "" : std::string(absl::StripSuffix(relative, "/"));
  source.base_name = source.path.empty() ? head : std::filesystem::path(source.path).filename().string();
  return source;
}

// Where copies go: files of the source are `name` (and below) in the folder `parent`.
struct Target {
  std::string parent;
  std::string name;
};

absl::StatusOr<Target> ParseTarget(const std::string& destination, const std::string& base_name) {
  std::error_code error;
  if (std::filesystem::is_directory(destination, error)) return Target{destination, base_name};
  if (absl::EndsWith(destination, "/")) {
    return absl::NotFoundError(absl::StrCat(destination, " is no folder; make it first"));
  }
  const std::filesystem::path path(destination);
  const std::string parent = path.parent_path().string();
  return Target{parent.empty() ? "." : parent, path.filename().string()};
}

// The path of a copy relative to the target's parent, from the path that the server gave.
absl::StatusOr<std::string> CopyPath(const Source& source, const Target& target, absl::string_view path) {
  absl::string_view rest = path;
  if (!source.path.empty()) {
    if (!absl::ConsumePrefix(&rest, source.path) || (!rest.empty() && rest[0] != '/')) {
      return absl::InvalidArgumentError(
          absl::StrCat("the server sent \"", Printable(path), "\", which was not asked for"));
    }
    absl::ConsumePrefix(&rest, "/");
  }
  if (rest == ".") rest = "";
  return rest.empty() ? target.name : absl::StrCat(target.name, "/", rest);
}

absl::Status Receive(Client& client, const Source& source, const Target& target, FileSink* sink,
                     ProgressBar* progress) {
  v1::ReadFilesRequest request;
  request.set_namespace_(source.job.name_space);
  request.set_name(source.job.name);
  request.set_folder(source.folder);
  request.set_path(source.path);
  grpc::ClientContext context;
  const auto stream = client.jobs()->ReadFiles(&context, request);
  v1::ReadFilesResponse response;
  absl::Status status;
  int64_t received = 0;
  while (status.ok() && stream->Read(&response)) {
    const v1::FileChunk& chunk = response.chunk();
    const absl::StatusOr<std::string> path = CopyPath(source, target, chunk.path());
    if (!path.ok()) {
      status = path.status();
    } else if (chunk.directory()) {
      status = sink->MakeFolder(*path);
    } else {
      status = sink->Write(*path, chunk.mode(), chunk.size(), chunk.offset(), chunk.data());
      received += static_cast<int64_t>(chunk.data().size());
      progress->Set(received);
    }
  }
  if (!status.ok()) {
    context.TryCancel();
    stream->Finish();
    return status;
  }
  const grpc::Status end = stream->Finish();
  return end.ok() ? sink->Finish() : client.Explain(end);
}

absl::StatusOr<int> Copy(const Context& context, const CopyOptions& options) {
  const std::string& from = options.from;
  const std::string& to = options.to;
  const absl::StatusOr<Source> source = ParseSource(context, from);
  if (!source.ok()) return source.status();
  const absl::StatusOr<Target> target = ParseTarget(to, source->base_name);
  if (!target.ok()) return target.status();
  const absl::StatusOr<std::unique_ptr<FileSink>> sink = FileSink::Create(target->parent);
  if (!sink.ok()) return sink.status();
  Client client(context);
  const absl::StatusOr<v1::Job> job = GetJob(client, source->job);
  if (!job.ok()) return job.status();
  {
    // How much there is nobody says before it is there.
    ProgressBar progress(context, "copying", -1);
    const absl::Status status = Receive(client, *source, *target, sink->get(), &progress);
    if (!status.ok()) return status;
  }
  const std::string path = absl::StrCat(target->parent == "." ? "" : target->parent + "/", target->name);
  if (context.format == Format::kTable) {
    Print(absl::StrCat((*sink)->files(), (*sink)->files() == 1 ? " file, " : " files, ",
                       FormatBytes((*sink)->bytes()), "B copied to ", path, "\n"));
  } else {
    PrintDocument(context, {{"path", path}, {"files", (*sink)->files()}, {"bytes", (*sink)->bytes()}});
  }
  return kExitOk;
}

}  // namespace

void AddCp(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("cp", "Copy files of a job, also after its end");
  const auto options = std::make_shared<CopyOptions>();
  command
      ->add_option(
          "JOB:PATH", options->from,
          "What to copy: JOB:share/PATH or JOB:checkpoint/PATH, or JOB:/adaptdl/share/PATH and so on; with "
          "--kubernetes also JOB:/PATH, as the job's pods have it")
      ->required();
  command->add_option("DEST", options->to, "Where to: a folder that exists, or the copy's name")->required();
  command
      ->add_option("--helper-image", options->helper_image,
                   "With --kubernetes: image of the pod that reads the job's storage, with sleep and tar")
      ->capture_default_str();
  command->callback([context, options] {
    context->action = [context, options] {
      return context->kubernetes.enabled ? CopyFromClaims(*context, *options) : Copy(*context, *options);
    };
  });
}

}  // namespace adaptdl::cli
