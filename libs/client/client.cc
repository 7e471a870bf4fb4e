#include "adaptdl/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "adaptdl/v1/history_service.grpc.pb.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/base/clock.h"
#include "libs/base/random_id.h"
#include "libs/client/connection.h"
#include "libs/client/seen_lines.h"
#include "libs/client/settings.h"
#include "libs/client/values.h"
#include "libs/jobfile/job_file.h"
#include "libs/messages/proto_time.h"
#include "libs/rpc/steady_waits.h"

namespace adaptdl::client {
namespace {

using Jobs = v1::JobService::Stub;
using Histories = v1::HistoryService::Stub;

constexpr int kPageSize = 1000;
constexpr size_t kMaxJobFileBytes = 1 << 20;

// Of a change, by which its repetitions are known.
std::string MakeRequestId() { return RandomHex(16); }

}  // namespace

class Client::Impl {
 public:
  Impl(const Access& access, Settings settings)
      : name_space_(std::move(settings.name_space)), connection_(access, settings.call_timeout, clock_) {}

  const std::string& name_space() const { return name_space_; }
  Connection& connection() { return connection_; }

  // A request about the job that `text` names.
  template <typename Request>
  absl::StatusOr<Request> About(std::string_view text) const {
    const std::vector<std::string> parts = absl::StrSplit(absl::string_view(text.data(), text.size()), '/');
    if (parts.size() > 2 || parts.front().empty() || parts.back().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", std::string(text), "\" is no job: give NAME or NAMESPACE/NAME"));
    }
    Request request;
    request.set_namespace_(parts.size() == 2 ? parts.front() : name_space_);
    request.set_name(parts.back());
    return request;
  }

  absl::StatusOr<Job> Submit(v1::SubmitJobRequest request) {
    request.set_request_id(MakeRequestId());
    if (request.job().namespace_().empty()) request.mutable_job()->set_namespace_(name_space_);
    return JobOf(connection_.Call(&Jobs::SubmitJob, request));
  }

  template <typename Response>
  static absl::StatusOr<Job> JobOf(const absl::StatusOr<Response>& response) {
    if (!response.ok()) return response.status();
    return ToJob(response->job());
  }

 private:
  const RealClock clock_;
  const std::string name_space_;
  Connection connection_;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Open(Settings settings) {
  rpc::LinkSteadyWaits();
  if (settings.call_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("call_timeout must be more than 0");
  }
  const absl::StatusOr<Access> access = FindAccess(settings);
  if (!access.ok()) return access.status();
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(*access, std::move(settings))));
}

absl::StatusOr<Job> Client::Submit(const JobOrder& order) {
  absl::StatusOr<v1::SubmitJobRequest> request = FromOrder(order);
  if (!request.ok()) return request.status();
  return impl_->Submit(*std::move(request));
}

absl::StatusOr<Job> Client::SubmitJobFile(std::string_view text, std::string_view file_name,
                                          std::vector<std::string>* warnings) {
  if (text.size() > kMaxJobFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job file has ", text.size(), " bytes; the most is ", kMaxJobFileBytes));
  }
  absl::StatusOr<jobfile::JobFile> file =
      jobfile::ParseJobFile({text.data(), text.size()}, {file_name.data(), file_name.size()}, {});
  if (!file.ok()) return file.status();
  if (warnings != nullptr) *warnings = std::move(file->warnings);
  v1::SubmitJobRequest request;
  *request.mutable_job() = std::move(file->job);
  request.set_generate_name(std::move(file->generate_name));
  return impl_->Submit(std::move(request));
}

absl::StatusOr<Job> Client::Get(std::string_view job) {
  const auto request = impl_->About<v1::GetJobRequest>(job);
  if (!request.ok()) return request.status();
  return Impl::JobOf(impl_->connection().Call(&Jobs::GetJob, *request));
}

absl::StatusOr<std::vector<Job>> Client::List(const Selection& selection) {
  v1::ListJobsRequest request;
  request.set_namespace_(selection.name_space.empty() ? impl_->name_space() : selection.name_space);
  request.set_page_size(kPageSize);
  for (const Phase phase : selection.phases) request.add_phases(FromPhase(phase));
  request.mutable_labels()->insert(selection.labels.begin(), selection.labels.end());
  std::vector<Job> jobs;
  do {
    const auto page = impl_->connection().Call(&Jobs::ListJobs, request);
    if (!page.ok()) return page.status();
    for (const v1::Job& job : page->jobs()) jobs.push_back(ToJob(job));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return jobs;
}

absl::StatusOr<Job> Client::Update(std::string_view job, const Changes& changes) {
  auto request = impl_->About<v1::UpdateJobRequest>(job);
  if (!request.ok()) return request.status();
  request->set_request_id(MakeRequestId());
  if (changes.min_replicas.has_value()) request->set_min_replicas(*changes.min_replicas);
  if (changes.max_replicas.has_value()) request->set_max_replicas(*changes.max_replicas);
  if (changes.priority.has_value()) request->set_priority(*changes.priority);
  if (changes.suspend.has_value()) request->set_suspend(*changes.suspend);
  return Impl::JobOf(impl_->connection().Call(&Jobs::UpdateJob, *request));
}

absl::StatusOr<Job> Client::Cancel(std::string_view job) {
  auto request = impl_->About<v1::CancelJobRequest>(job);
  if (!request.ok()) return request.status();
  request->set_request_id(MakeRequestId());
  return Impl::JobOf(impl_->connection().Call(&Jobs::CancelJob, *request));
}

absl::Status Client::Delete(std::string_view job) {
  auto request = impl_->About<v1::DeleteJobRequest>(job);
  if (!request.ok()) return request.status();
  request->set_request_id(MakeRequestId());
  return impl_->connection().Call(&Jobs::DeleteJob, *request).status();
}

absl::StatusOr<std::vector<Event>> Client::Events(std::string_view job) {
  auto request = impl_->About<v1::ListEventsRequest>(job);
  if (!request.ok()) return request.status();
  request->set_page_size(kPageSize);
  std::vector<Event> events;
  do {
    const auto page = impl_->connection().Call(&Jobs::ListEvents, *request);
    if (!page.ok()) return page.status();
    for (const v1::Event& event : page->events()) events.push_back(ToEvent(event));
    request->set_page_token(page->next_page_token());
  } while (!request->page_token().empty());
  return events;
}

absl::StatusOr<std::vector<HistoryPoint>> Client::History(std::string_view job, int max_points,
                                                          absl::Time after) {
  auto request = impl_->About<v1::GetJobHistoryRequest>(job);
  if (!request.ok()) return request.status();
  request->set_max_points(max_points);
  if (after != absl::InfinitePast()) *request->mutable_after() = messages::ToProto(after);
  const auto response = impl_->connection().Call(&Histories::GetJobHistory, *request);
  if (!response.ok()) return response.status();
  std::vector<HistoryPoint> points;
  for (const v1::HistoryPoint& point : response->points()) points.push_back(ToPoint(point));
  return points;
}

absl::StatusOr<Job> Client::Watch(std::string_view job, const std::function<bool(const Job&)>& on_change,
                                  absl::Duration timeout) {
  Connection& connection = impl_->connection();
  const absl::Time deadline = connection.clock().Steady() + timeout;
  const auto request = impl_->About<v1::GetJobRequest>(job);
  if (!request.ok()) return request.status();
  // It has a deadline, and tells a supervisor that was never there from one that is away.
  const auto now = connection.Call(&Jobs::GetJob, *request);
  if (!now.ok()) return now.status();
  v1::Job message = now->job();
  Job last = ToJob(message);
  if (!on_change(last) || last.finished()) return last;
  v1::WatchJobsRequest watch;
  watch.set_namespace_(request->namespace_());
  watch.set_name(request->name());
  Reconnector reconnector(connection.clock());
  while (true) {
    grpc::ClientContext context;
    if (deadline != absl::InfiniteFuture()) rpc::SetTimeout(&context, deadline - connection.clock().Steady());
    const auto stream = Jobs(connection.Connected()).WatchJobs(&context, watch);
    for (v1::WatchJobsResponse change; stream->Read(&change);) {
      reconnector.Heard();
      if (change.deleted()) {
        return absl::NotFoundError(absl::StrCat("job ", last.name_space, "/", last.name, " was deleted"));
      }
      // A stream that is opened anew begins with what is known.
      if (!change.has_job() || google::protobuf::util::MessageDifferencer::Equals(change.job(), message))
        continue;
      message = change.job();
      last = ToJob(message);
      if (!on_change(last) || last.finished()) {
        context.TryCancel();
        return last;
      }
    }
    const grpc::Status status = stream->Finish();
    if (connection.clock().Steady() >= deadline ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      const std::string_view phase = NameOf(last.phase);
      return absl::DeadlineExceededError(absl::StrCat("job ", last.name_space, "/", last.name, " is still ",
                                                      std::string(phase), " after ",
                                                      absl::FormatDuration(timeout)));
    }
    if (!reconnector.WaitToRetry(status)) return connection.Explain(status);
    connection.GoOn();
  }
}

absl::StatusOr<Job> Client::Wait(std::string_view job, absl::Duration timeout) {
  return Watch(
      job, [](const Job&) { return true; }, timeout);
}

absl::Status Client::Logs(std::string_view job, const LogOptions& options,
                          const std::function<bool(const LogLine&)>& on_line) {
  Connection& connection = impl_->connection();
  auto request = impl_->About<v1::StreamLogsRequest>(job);
  if (!request.ok()) return request.status();
  request->set_follow(options.follow);
  if (options.rank.has_value()) request->set_rank(*options.rank);
  request->set_group(options.group);
  request->set_tail_lines(options.tail_lines);
  if (options.since != absl::InfinitePast()) *request->mutable_since() = messages::ToProto(options.since);
  request->set_pattern(options.pattern);
  if (const absl::Status there = Get(job).status(); !there.ok()) return there;
  Reconnector reconnector(connection.clock());
  SeenLines seen;
  while (true) {
    grpc::ClientContext context;
    const auto stream = Jobs(connection.Connected()).StreamLogs(&context, *request);
    bool wanted = true;
    for (v1::StreamLogsResponse response; wanted && stream->Read(&response);) {
      reconnector.Heard();
      for (const v1::LogLine& line : response.lines()) {
        if (wanted && seen.IsNew(line)) wanted = on_line(ToLine(line));
      }
      if (wanted && !response.warning().empty()) {
        LogLine line;
        line.warning = true;
        line.text = response.warning();
        wanted = on_line(line);
      }
    }
    if (!wanted) {
      context.TryCancel();
      return absl::OkStatus();
    }
    const grpc::Status status = stream->Finish();
    if (status.ok()) return absl::OkStatus();
    if (!options.follow || !reconnector.WaitToRetry(status)) return connection.Explain(status);
    connection.GoOn();
    seen.Restart();
    // What was there before the first stream's tail stays unseen, too: lines carry times.
    request->set_tail_lines(0);
  }
}

}  // namespace adaptdl::client
