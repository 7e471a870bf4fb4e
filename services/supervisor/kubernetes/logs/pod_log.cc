#include "services/supervisor/kubernetes/logs/pod_log.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/backoff.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/kubernetes/logs/log_lines.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

// Of a log that is followed: the server may come back to it.
bool MayGoOn(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsInternal(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

// Whether the container runs no more. An error: the pod can't be looked at.
absl::StatusOr<bool> HasEnded(const kube::Client& client, const PodLogRequest& request,
                              const std::stop_token& stop) {
  const absl::StatusOr<Json> pod = client.Get(kube::ObjectOf(kube::Pods(), request.pod), stop);
  if (!pod.ok()) return pod.status();
  const std::string phase = kube::TextAt(*pod, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") return true;
  const Json& statuses = kube::At(*pod, {"status", "containerStatuses"});
  return statuses.is_array() && std::any_of(statuses.begin(), statuses.end(), [&](const Json& status) {
           return kube::TextAt(status, {"name"}) == request.container &&
                  kube::At(status, {"state", "terminated"}).is_object();
         });
}

// One call, from after `last` on, which it leaves at the last line. OK: the server has ended the log.
absl::Status ReadOnce(const kube::Client& client, const PodLogRequest& request, const PodLogSink& sink,
                      absl::Time* last, const std::stop_token& stop) {
  kube::ApiRequest call = {.target = kube::ObjectOf(kube::Pods(), request.pod).Sub("log"),
                           .query = {{"container", request.container}, {"timestamps", "true"}},
                           .timeout = absl::InfiniteDuration()};
  if (request.follow) call.query.emplace_back("follow", "true");
  if (*last != absl::InfinitePast()) {
    // In whole seconds; what was read of this one already is left out below.
    call.query.emplace_back("sinceTime", kube::TimeText(*last));
  } else {
    if (request.since != absl::InfinitePast()) {
      call.query.emplace_back("sinceTime", kube::TimeText(request.since));
    }
    if (request.tail_lines > 0) call.query.emplace_back("tailLines", absl::StrCat(request.tail_lines));
  }
  LogLines parser(*last);
  const auto offer = [&](v1::StreamReplicaLogsResponse lines) {
    absl::Status status = lines.lines().empty() ? absl::OkStatus() : sink(std::move(lines));
    if (status.ok()) *last = parser.last();
    return status;
  };
  const absl::Status status = client.session().Stream(
      call,
      [&](absl::string_view part) {
        v1::StreamReplicaLogsResponse lines;
        parser.Feed(part, &lines);
        return offer(std::move(lines));
      },
      stop);
  if (!status.ok()) return status;
  v1::StreamReplicaLogsResponse lines;
  parser.Finish(&lines);
  return offer(std::move(lines));
}

}  // namespace

absl::Status ReadPodLog(const kube::Client& client, const PodLogRequest& request, const PodLogPauses& pauses,
                        const PodLogSink& sink, absl::Time* last, const std::stop_token& stop) {
  Backoff backoff(pauses.first, pauses.longest);
  absl::Status status;
  do {
    const absl::Time before = *last;
    // Looked at first: of one that has ended by now, the log is whole.
    const absl::StatusOr<bool> ended = request.follow ? HasEnded(client, request, stop) : true;
    if (absl::IsNotFound(ended.status())) return ended.status();
    status = ReadOnce(client, request, sink, last, stop);
    if (status.ok() && ended.value_or(false)) return status;
    if (!status.ok() && (!request.follow || !MayGoOn(status))) break;
    if (*last != before) backoff.Reset();
  } while (client.session().pauses().WaitFor(backoff.Next(), stop));
  if (stop.stop_requested()) return absl::CancelledError("nobody reads this log any more");
  return status;
}

}  // namespace adaptdl::supervisor
