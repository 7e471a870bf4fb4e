#include "cli/follow.h"

#include <algorithm>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/format.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status_code.h"

namespace adaptdl::cli {
namespace {

// Leaves out the lines that an earlier stream of the same request has given.
class SeenLines {
 public:
  // Begins to read a stream from its start again.
  void Restart() {
    for (auto& [replica, position] : positions_) position.to_skip = position.at_time;
  }

  bool IsNew(const v1::LogLine& line) {
    Position& position = positions_[absl::StrCat(line.replica_id(), "/", line.source())];
    const absl::Time time = ToTime(line.time());
    if (time < position.time) return false;
    if (time == position.time && position.to_skip > 0) {
      --position.to_skip;
      return false;
    }
    position.at_time = time == position.time ? position.at_time + 1 : 1;
    position.time = time;
    position.to_skip = 0;
    return true;
  }

 private:
  // Where a replica's output was left: the time of its last line, and how many lines bore it.
  struct Position {
    absl::Time time = absl::InfinitePast();
    int at_time = 0;
    int to_skip = 0;
  };
  std::map<std::string, Position> positions_;
};

bool IsOutage(const grpc::Status& status) {
  return rpc::CodeOf(status) == grpc::StatusCode::UNAVAILABLE ||
         // A server that is shut down cancels the streams that it still has.
         status.error_code() == grpc::StatusCode::CANCELLED || status.ok();
}

}  // namespace

void Reconnector::Heard() {
  backoff_.Reset();
  outage_start_ = absl::InfiniteFuture();
}

bool Reconnector::WaitToRetry() {
  const absl::Time now = clock_.Steady();
  outage_start_ = std::min(outage_start_, now);
  if (now - outage_start_ > kLongestOutage) return false;
  clock_.SleepFor(backoff_.Next());
  return true;
}

absl::StatusOr<v1::Job> WaitUntilFinished(Client& client, const JobReference& job, absl::Time deadline,
                                          const std::function<void(const v1::Job&)>& on_change,
                                          const std::stop_token& stop) {
  // A unary call comes first: it has a deadline, and tells a supervisor that was never there from one that is
  // away.
  const absl::StatusOr<v1::Job> now = GetJob(client, job);
  if (!now.ok() || IsFinished(now->status().phase())) return now;
  if (on_change != nullptr) on_change(*now);
  v1::WatchJobsRequest request;
  request.set_namespace_(job.name_space);
  request.set_name(job.name);
  Reconnector reconnector(client.clock());
  v1::Job last = *now;
  while (true) {
    grpc::ClientContext context;
    if (deadline != absl::InfiniteFuture()) rpc::SetTimeout(&context, deadline - SteadyNow());
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    const auto stream = client.jobs()->WatchJobs(&context, request);
    v1::WatchJobsResponse response;
    while (stream->Read(&response)) {
      reconnector.Heard();
      if (response.deleted()) {
        return absl::NotFoundError(absl::StrCat("job ", job.name_space, "/", job.name, " was deleted"));
      }
      if (!response.has_job()) continue;
      last = std::move(*response.mutable_job());
      if (IsFinished(last.status().phase())) {
        context.TryCancel();
        return last;
      }
      if (on_change != nullptr) on_change(last);
    }
    const grpc::Status status = stream->Finish();
    if (stop.stop_requested()) return absl::CancelledError("nobody waits any more");
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED || SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("job ", job.name_space, "/", job.name, " is still ", StatusText(last.status())));
    }
    if (!IsOutage(status) || !reconnector.WaitToRetry()) return client.Explain(status);
    client.GoOn();
  }
}

absl::Status StreamLogs(Client& client, const v1::StreamLogsRequest& request,
                        const std::function<void(const v1::LogLine&)>& on_line,
                        const std::function<void(const std::string&)>& on_warning) {
  Reconnector reconnector(client.clock());
  SeenLines seen;
  v1::StreamLogsRequest current = request;
  if (const absl::Status status = client.Reach(); !status.ok()) return status;
  while (true) {
    grpc::ClientContext context;
    const auto stream = client.jobs()->StreamLogs(&context, current);
    v1::StreamLogsResponse response;
    while (stream->Read(&response)) {
      reconnector.Heard();
      // What was there before the first stream's tail stays unseen after a reconnect, too: lines carry times.
      for (const v1::LogLine& line : response.lines()) {
        if (seen.IsNew(line)) on_line(line);
      }
      if (!response.warning().empty()) on_warning(response.warning());
    }
    const grpc::Status status = stream->Finish();
    if (status.ok()) return absl::OkStatus();
    if (!request.follow() || !IsOutage(status) || !reconnector.WaitToRetry()) return client.Explain(status);
    client.GoOn();
    seen.Restart();
    current.set_tail_lines(0);
  }
}

}  // namespace adaptdl::cli
