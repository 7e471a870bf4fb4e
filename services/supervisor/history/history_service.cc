#include "services/supervisor/history/history_service.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kDefaultMaxPoints = 500;
constexpr int kMaxPoints = 2000;
constexpr int kDefaultTimelines = 500;

absl::StatusOr<size_t> ParseMaxPoints(int max_points) {
  if (max_points < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_points: ", max_points, ": give a number from 0 to ", kMaxPoints));
  }
  return static_cast<size_t>(max_points == 0 ? kDefaultMaxPoints : std::min(max_points, kMaxPoints));
}

// A supervisor that died when the job ended may not have kept its end: the job's record has it.
void CompleteChanges(const JobRecord& record, AllocationChanges* changes) {
  if (!jobs::IsTerminal(record.state.phase) || record.times.completed == absl::InfinitePast()) return;
  const v1::JobPhase phase = ToProto(record.state.phase);
  if (!changes->empty() && changes->last().allocation.phase == phase) return;
  changes->Add(record.times.completed, {0, 0, phase});
}

// Whether the job was there at some time of the span.
bool WasThere(const JobRecord& record, absl::Time begin, absl::Time end) {
  const bool ended = jobs::IsTerminal(record.state.phase) && record.times.completed != absl::InfinitePast();
  return record.times.submitted <= end && (!ended || record.times.completed >= begin);
}

absl::StatusOr<v1::JobTimeline> TimelineOf(const JobEntry& entry, const Recorder& recorder) {
  const JobRecord& record = entry.record;
  absl::StatusOr<AllocationChanges> changes = recorder.ReadChanges(record.uid());
  if (!changes.ok()) return changes.status();
  CompleteChanges(record, &*changes);
  v1::JobTimeline timeline;
  timeline.set_namespace_(record.job->namespace_());
  timeline.set_name(record.job->name());
  timeline.set_uid(record.uid());
  timeline.set_phase(ToProto(record.state.phase));
  if (record.times.submitted != absl::InfinitePast()) {
    *timeline.mutable_submit_time() = ToProto(record.times.submitted);
  }
  if (record.times.completed != absl::InfinitePast()) {
    *timeline.mutable_completion_time() = ToProto(record.times.completed);
  }
  Put(*changes, timeline.mutable_changes());
  return timeline;
}

}  // namespace

absl::StatusOr<v1::GetJobHistoryResponse> GetJobHistory(const ReadIndex& index, const Recorder& recorder,
                                                        const v1::GetJobHistoryRequest& request) {
  const absl::StatusOr<size_t> most = ParseMaxPoints(request.max_points());
  if (!most.ok()) return most.status();
  const std::string name_space = NamespaceOr(request.namespace_());
  const std::shared_ptr<const JobEntry> entry = index.FindJob(name_space, request.name());
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("job \"", request.name(), "\" does not exist in namespace \"",
                                            name_space, "\"; \"adaptdl ls\" lists those there are"));
  }
  absl::StatusOr<JobHistory> history = recorder.Read(entry->record.uid());
  if (!history.ok()) return history.status();
  CompleteChanges(entry->record, &history->changes);
  if (request.has_after()) {
    const absl::Time after = ToTime(request.after());
    const auto first =
        std::find_if(history->points.begin(), history->points.end(),
                     [&](const v1::HistoryPoint& point) { return ToTime(point.end()) > after; });
    history->points.erase(history->points.begin(), first);
  }
  v1::GetJobHistoryResponse response;
  response.set_job_uid(entry->record.uid());
  for (v1::HistoryPoint& point : Thin(std::move(history->points), *most)) {
    *response.add_points() = std::move(point);
  }
  *response.mutable_resolution() = ToProto(history->resolution);
  Put(history->changes, response.mutable_changes());
  return response;
}

absl::StatusOr<v1::ListTimelinesResponse> ListTimelines(const ReadIndex& index, const Recorder& recorder,
                                                        const v1::ListTimelinesRequest& request) {
  const absl::StatusOr<int> page_size =
      ParsePageSize(request.page_size() == 0 ? kDefaultTimelines : request.page_size());
  if (!page_size.ok()) return page_size.status();
  const absl::StatusOr<int64_t> token = ParsePageToken(request.page_token());
  if (!token.ok()) return token.status();
  const absl::Time begin = request.has_begin() ? ToTime(request.begin()) : absl::InfinitePast();
  const absl::Time end = request.has_end() ? ToTime(request.end()) : absl::InfiniteFuture();
  const std::string name_space = NamespaceOr(request.namespace_());
  v1::ListTimelinesResponse response;
  size_t bytes = 0;
  int64_t last = 0;
  for (int64_t after = *token;;) {
    const std::vector<std::shared_ptr<const JobEntry>> batch = index.JobsAfter(name_space, after, kReadBatch);
    for (const std::shared_ptr<const JobEntry>& entry : batch) {
      after = entry->record.sequence;
      if (!WasThere(entry->record, begin, end)) continue;
      if (response.timelines_size() == *page_size || bytes > kMaxPageBytes) {
        response.set_next_page_token(absl::StrCat(last));
        return response;
      }
      absl::StatusOr<v1::JobTimeline> timeline = TimelineOf(*entry, recorder);
      if (!timeline.ok()) return timeline.status();
      bytes += timeline->ByteSizeLong();
      *response.add_timelines() = *std::move(timeline);
      last = after;
    }
    if (batch.size() < kReadBatch) return response;
  }
}

template <typename Call, typename Response>
grpc::ServerUnaryReactor* HistoryServiceImpl::Read(grpc::CallbackServerContext* context,
                                                   absl::string_view method, const std::string& name_space,
                                                   Call call, Response* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  if (const absl::Status status = admission_->Call(caller); !status.ok()) return Answer(context, status);
  const auto read = [guard = guard_, credentials = security::CredentialsOf(*context),
                     path = absl::StrCat("/", v1::HistoryService::service_full_name(), "/", method),
                     name_space, call = std::move(call)]() -> absl::StatusOr<Response> {
    const absl::Status allowed = guard->CheckNamespace(credentials, path, name_space);
    if (!allowed.ok()) return allowed;
    return call();
  };
  return AnswerRead(lanes_, caller, context, read, response);
}

grpc::ServerUnaryReactor* HistoryServiceImpl::GetJobHistory(grpc::CallbackServerContext* context,
                                                            const v1::GetJobHistoryRequest* request,
                                                            v1::GetJobHistoryResponse* response) {
  const auto get = [this, request] { return supervisor::GetJobHistory(*index_, *recorder_, *request); };
  return Read(context, "GetJobHistory", request->namespace_(), get, response);
}

grpc::ServerUnaryReactor* HistoryServiceImpl::ListTimelines(grpc::CallbackServerContext* context,
                                                            const v1::ListTimelinesRequest* request,
                                                            v1::ListTimelinesResponse* response) {
  const auto list = [this, request] { return supervisor::ListTimelines(*index_, *recorder_, *request); };
  return Read(context, "ListTimelines", request->namespace_(), list, response);
}

}  // namespace adaptdl::supervisor
