#include "cli/tensorboard/viewer.h"

#include <signal.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/child_program.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/kubernetes/interruption.h"
#include "cli/output.h"
#include "cli/tensorboard/event_mirror.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "libs/base/process/spawn.h"

namespace adaptdl::cli {
namespace {

// Where the training library logs, in a job's share folder.
constexpr char kFolder[] = "tensorboard";

class Viewer {
 public:
  Viewer(const Context& context, const ViewerOptions& options, std::unique_ptr<EventMirror> mirror)
      : context_(context), options_(options), client_(context), mirror_(std::move(mirror)) {}

  absl::StatusOr<int> Run() {
    const absl::StatusOr<int> jobs = Refresh();
    if (!jobs.ok()) return jobs.status();
    if (*jobs == 0) {
      return absl::NotFoundError(absl::StrCat("no job logs to tensorboard ", options_.name, " in namespace ",
                                              context_.Namespace(), "; submit one with --tensorboard ",
                                              options_.name));
    }
    const Interruption interruption;
    absl::StatusOr<ChildProgram> child = StartProgram();
    if (!child.ok()) return child.status();
    Note(absl::StrCat("showing ", *jobs, *jobs == 1 ? " job" : " jobs", "; Ctrl-C ends it"));
    absl::Time next = SteadyNow() + options_.refresh;
    while (!child->HasEnded() && !interruption.token().stop_requested()) {
      if (SteadyNow() < next) continue;
      // A supervisor that is away for a while costs news and no more.
      if (const auto again = Refresh(); !again.ok()) {
        Note(absl::StrCat("warning: ", Printable(again.status().message())));
      }
      next = SteadyNow() + options_.refresh;
    }
    if (interruption.token().stop_requested()) child->Signal(SIGTERM);
    const int code = child->Wait();
    if (interruption.signal() != 0) return 128 + interruption.signal();
    return code;
  }

 private:
  // How many jobs there are. What is new of theirs is in the mirror.
  absl::StatusOr<int> Refresh() {
    v1::ListJobsRequest request;
    request.set_namespace_(context_.Namespace());
    const absl::StatusOr<v1::ListJobsResponse> jobs = ListAllJobs(client_, request);
    if (!jobs.ok()) return jobs.status();
    int found = 0;
    for (const v1::Job& job : jobs->jobs()) {
      if (job.spec().template_().tensorboard() != options_.name) continue;
      ++found;
      if (complete_.count(job.uid()) > 0) continue;
      const absl::Status status = Fetch(job);
      // It has logged nothing yet, or its node is away.
      if (absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status)) return status;
      if (status.ok() && IsFinished(job.status().phase())) complete_.insert(job.uid());
    }
    return found;
  }

  absl::Status Fetch(const v1::Job& job) {
    v1::ReadFilesRequest request;
    request.set_namespace_(job.namespace_());
    request.set_name(job.name());
    request.set_folder(v1::JOB_FOLDER_SHARE);
    request.set_path(kFolder);
    grpc::ClientContext call;
    const auto stream = client_.jobs()->ReadFiles(&call, request);
    v1::ReadFilesResponse response;
    absl::Status status;
    while (status.ok() && stream->Read(&response)) {
      const v1::FileChunk& chunk = response.chunk();
      if (chunk.directory()) continue;
      absl::string_view path = chunk.path();
      absl::ConsumePrefix(&path, kFolder);
      absl::ConsumePrefix(&path, "/");
      status = mirror_->Take(job.name(), path, chunk.size(), chunk.offset(), chunk.data());
    }
    if (!status.ok()) call.TryCancel();
    const grpc::Status end = stream->Finish();
    return status.ok() && !end.ok() ? client_.Explain(end) : status;
  }

  absl::StatusOr<ChildProgram> StartProgram() const {
    SpawnOptions program;
    program.command = {options_.program, "--logdir", mirror_->folder(),          "--host",
                       options_.address, "--port",   absl::StrCat(options_.port)};
    return ChildProgram::Start(program, "which shows what jobs log: python3 -m pip install tensorboard");
  }

  const Context& context_;
  const ViewerOptions& options_;
  Client client_;
  const std::unique_ptr<EventMirror> mirror_;
  // Finished jobs of which everything is here.
  std::set<std::string> complete_;
};

}  // namespace

absl::StatusOr<int> ViewBoard(const Context& context, const ViewerOptions& options) {
  absl::StatusOr<std::unique_ptr<EventMirror>> mirror = EventMirror::Create(options.max_bytes);
  if (!mirror.ok()) return mirror.status();
  return Viewer(context, options, *std::move(mirror)).Run();
}

}  // namespace adaptdl::cli
