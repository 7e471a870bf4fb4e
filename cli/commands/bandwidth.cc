#include "cli/commands/bandwidth.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands/cancel.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/output.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

// Of a job, from its submission to its answer: it has to get its place, and be started.
constexpr absl::Duration kPatienceWithJobs = absl::Seconds(60);
constexpr absl::Duration kPatienceWithTheEnd = absl::Seconds(20);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(250);
constexpr size_t kLongestMessage = 300;

// One end of a measurement, which does not outlive it.
class NetperfRun {
 public:
  NetperfRun(const Context& context, Client& client) : context_(context), client_(client) {}
  NetperfRun(const NetperfRun&) = delete;
  NetperfRun& operator=(const NetperfRun&) = delete;
  ~NetperfRun() {
    if (reference_.has_value()) Remove();
  }

  absl::Status Start(const v1::Node& node, const std::vector<std::string>& arguments,
                     const std::string& token) {
    node_ = node.node_id();
    const absl::StatusOr<v1::SubmitJobResponse> submitted =
        client_.Call(&Jobs::SubmitJob, NetperfJob(context_.Namespace(), node, arguments, token));
    // It is said of the cluster, not of the network.
    if (!submitted.ok()) return absl::UnknownError(submitted.status().message());
    reference_ = {submitted->job().namespace_(), submitted->job().name()};
    return absl::OkStatus();
  }

  // What it prints first.
  absl::StatusOr<Json> Answer() {
    const absl::Time deadline = context_.clock->Steady() + kPatienceWithJobs;
    for (;;) {
      // Asked before the log, which has all that an ended job wrote.
      const absl::StatusOr<v1::Job> job = GetJob(client_, *reference_);
      if (!job.ok()) return absl::UnknownError(job.status().message());
      absl::StatusOr<Json> answer = AnswerSoFar();
      if (!absl::IsNotFound(answer.status())) return answer;
      if (IsFinished(job->status().phase())) return Silent(job->status());
      if (context_.clock->Steady() >= deadline) return TooLate(job->status());
      context_.clock->SleepFor(kBetweenLooks);
    }
  }

 private:
  // NOT_FOUND: none yet.
  absl::StatusOr<Json> AnswerSoFar() {
    v1::StreamLogsRequest request;
    request.set_namespace_(reference_->name_space);
    request.set_name(reference_->name);
    absl::StatusOr<Json> answer = absl::NotFoundError("nothing yet");
    const absl::Status status = StreamLogs(
        client_, request,
        [&](const v1::LogLine& line) {
          if (absl::IsNotFound(answer.status())) answer = ParseNetperfLine(line.text());
        },
        [](const std::string&) {});
    if (!status.ok()) return absl::UnknownError(status.message());
    return answer;
  }

  absl::Status Silent(const v1::JobStatus& status) const {
    return absl::UnknownError(absl::StrCat(
        "adaptdl-netperf did not run on node ", node_, ": ", status.message().substr(0, kLongestMessage),
        "; it comes with the worker (package adaptdl-services) and must be in the worker's PATH"));
  }

  absl::Status TooLate(const v1::JobStatus& status) const {
    if (status.phase() == v1::JOB_PHASE_PENDING) {
      const std::string& reason =
          status.allocation_reason().empty() ? status.message() : status.allocation_reason();
      return absl::DeadlineExceededError(
          absl::StrCat("node ", node_, " has had no room for a measurement for ",
                       DurationText(kPatienceWithJobs), ": ", reason.substr(0, kLongestMessage)));
    }
    return absl::DeadlineExceededError(absl::StrCat("node ", node_, " has told nothing for ",
                                                    DurationText(kPatienceWithJobs), "; its job is ",
                                                    StatusText(status)));
  }

  void Remove() {
    const absl::Status cancelled = CancelJob(client_, *reference_).status();
    absl::Status removed =
        cancelled.ok() || absl::IsFailedPrecondition(cancelled)
            ? WaitUntilFinished(client_, *reference_, context_.clock->Steady() + kPatienceWithTheEnd).status()
            : cancelled;
    if (removed.ok()) {
      v1::DeleteJobRequest request;
      request.set_request_id(RandomHex(16));
      request.set_namespace_(reference_->name_space);
      request.set_name(reference_->name);
      removed = client_.Call(&Jobs::DeleteJob, request).status();
    }
    if (removed.ok()) return;
    Note(absl::StrCat("job ", reference_->name_space, "/", reference_->name,
                      " could not be deleted: ", Printable(removed.message())));
  }

  const Context& context_;
  Client& client_;
  std::string node_;
  std::optional<JobReference> reference_;
};

}  // namespace

absl::StatusOr<NetworkQuality> MeasurePair(const Context& context, Client& client, const NodePair& pair) {
  const std::string token = RandomHex(16);
  NetperfRun server(context, client);
  if (absl::Status status = server.Start(pair.to, {"serve"}, token); !status.ok()) return status;
  const absl::StatusOr<Json> serves = server.Answer();
  // Nobody has tried the network yet.
  if (!serves.ok()) return absl::UnknownError(serves.status().message());
  const absl::StatusOr<int> port = PortFrom(*serves);
  if (!port.ok()) return port.status();

  NetperfRun meter(context, client);
  const std::vector<std::string> arguments = {"measure", pair.to.replica_host(), absl::StrCat(*port)};
  if (absl::Status status = meter.Start(pair.from, arguments, token); !status.ok()) return status;
  const absl::StatusOr<Json> measured = meter.Answer();
  if (!measured.ok()) return measured.status();
  return QualityFrom(*measured);
}

}  // namespace adaptdl::cli
