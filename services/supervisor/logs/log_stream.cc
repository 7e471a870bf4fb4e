#include "services/supervisor/logs/log_stream.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kMaxLinesPerMessage = 512;
constexpr size_t kMaxBytesPerMessage = 256 << 10;

}  // namespace

absl::Status LogStream::Validate(const v1::StreamLogsRequest& request) {
  if (request.has_rank() && request.rank() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("rank: ", request.rank(), ": give a number from 0"));
  }
  if (request.group() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("group: ", request.group(), ": give 0 for all, or a group's number"));
  }
  if (request.tail_lines() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tail_lines: ", request.tail_lines(), ": give 0 for all, or more"));
  }
  return logs::CheckPattern(request.pattern());
}

Pull LogStream::Next(v1::StreamLogsResponse* message, grpc::Status* end) {
  while (true) {
    OpenNewcomers();
    OpenPending();
    for (const auto& source : sources_) Fetch(source.get());
    AddLines(message);
    if (!message->lines().empty()) return Pull::kMessage;
    const bool all_done =
        std::all_of(sources_.begin(), sources_.end(), [](const auto& source) { return source->done; });
    if (!all_done) return Pull::kWait;
    for (const auto& source : sources_) {
      if (source->warning.empty()) continue;
      message->set_warning(std::exchange(source->warning, ""));
      return Pull::kMessage;
    }
    bool over = false;
    if (!OpenNextRun(&over, end)) return over ? Pull::kEnd : Pull::kWait;
  }
}

std::vector<LogLocation> LogStream::Run(std::vector<LogLocation> locations) {
  std::sort(locations.begin(), locations.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first_group, a.replica.rank()) < std::pair(b.first_group, b.replica.rank());
  });
  std::vector<LogLocation> run;
  for (LogLocation& location : locations) {
    if (location.first_group < run_begin_) continue;
    if (!run.empty() && location.first_group > run_end_) break;
    if (run.empty()) run_end_ = location.first_group;
    run_end_ = std::max(run_end_, location.replica.group());
    run.push_back(std::move(location));
  }
  std::erase_if(run, [this](const LogLocation& location) { return !Wanted(location); });
  return run;
}

bool LogStream::Wanted(const LogLocation& location) const {
  if (request_.has_rank() && request_.rank() != location.replica.rank()) return false;
  return request_.group() == 0 ||
         (location.first_group <= request_.group() && request_.group() <= location.replica.group());
}

bool LogStream::OpenNextRun(bool* over, grpc::Status* end) {
  sources_.clear();
  // First the job, then its replicas: a group that comes in between is not missed.
  const std::shared_ptr<const JobEntry> job = locations_->FindJob(job_uid_);
  const absl::StatusOr<std::vector<LogLocation>> locations = locations_->FindLogs(job_uid_);
  if (job == nullptr || !locations.ok()) {
    *end = job != nullptr
               ? grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(locations.status().message()))
               : grpc::Status::OK;
    *over = true;
    return false;
  }
  const bool any = std::any_of(locations->begin(), locations->end(),
                               [this](const auto& location) { return location.first_group > run_end_; });
  if (!any) {
    const bool last_seen = request_.group() > 0 && job->record.state.group > request_.group();
    *over = !request_.follow() || jobs::IsTerminal(job->record.state.phase) || last_seen ||
            (request_.group() > 0 && run_end_ >= request_.group());
    return false;
  }
  run_begin_ = run_end_ + 1;
  known_group_ = job->record.state.group;
  merging_ = true;
  AddSources(Run(*locations));
  return true;
}

void LogStream::OpenNewcomers() {
  if (!request_.follow() || sources_.empty()) return;
  const std::shared_ptr<const JobEntry> job = locations_->FindJob(job_uid_);
  if (job == nullptr || job->record.state.group == known_group_) return;
  known_group_ = job->record.state.group;
  std::vector<LogLocation> run = Run(locations_->FindLogs(job_uid_).value_or(std::vector<LogLocation>()));
  for (const auto& source : sources_) {
    const auto now = std::find_if(run.begin(), run.end(), [&](const LogLocation& location) {
      return location.replica.replica_id() == source->location.replica.replica_id();
    });
    if (now == run.end()) continue;
    source->location.replica = now->replica;
    run.erase(now);
  }
  AddSources(std::move(run));
}

void LogStream::AddSources(std::vector<LogLocation> locations) {
  for (LogLocation& location : locations) {
    auto source = std::make_unique<Source>();
    if (request_.follow() && IsLive(location.replica)) merging_ = false;
    source->pending = request_.follow() && location.replica.state() == v1::REPLICA_STATE_LAUNCHING;
    source->location = std::move(location);
    if (!source->pending) Open(source.get());
    sources_.push_back(std::move(source));
  }
}

void LogStream::OpenPending() {
  if (std::none_of(sources_.begin(), sources_.end(), [](const auto& source) { return source->pending; }))
    return;
  const std::vector<LogLocation> locations =
      locations_->FindLogs(job_uid_).value_or(std::vector<LogLocation>());
  for (const auto& source : sources_) {
    if (!source->pending) continue;
    const LogLocation* now = nullptr;
    for (const LogLocation& location : locations) {
      if (location.replica.replica_id() == source->location.replica.replica_id()) now = &location;
    }
    if (now != nullptr && now->replica.state() == v1::REPLICA_STATE_LAUNCHING) continue;
    source->pending = false;
    if (now == nullptr) {
      source->done = true;  // Its job was deleted, and its log with it.
      continue;
    }
    source->location = *now;
    Open(source.get());
  }
}

void LogStream::Open(Source* source) {
  const bool follow = request_.follow() && IsLive(source->location.replica);
  const LogWish wish = {
      .follow = follow, .tail_lines = request_.tail_lines(), .since = since_, .pattern = request_.pattern()};
  absl::StatusOr<std::shared_ptr<LogReader>> reader =
      readers_->Open(source->location, wish, [this, weak = weak_from_this()] {
        if (const auto self = weak.lock()) Poke();
      });
  if (since_ != absl::InfinitePast() || !request_.pattern().empty()) {
    // It was checked when the call began.
    source->filter = logs::LineFilter::Create(since_, request_.pattern()).value_or(nullptr);
  }
  if (reader.ok()) {
    source->reader = *std::move(reader);
  } else {
    Fail(reader.status().message(), source);
  }
}

void LogStream::Fail(absl::string_view why, Source* source) {
  source->done = true;
  source->warning = absl::StrCat("the output of replica ", source->location.replica.replica_id(), " on node ",
                                 source->location.replica.node_id(),
                                 source->has_begun ? " is not whole: " : " can't be read: ", why);
}

void LogStream::Keep(logs::Lines* lines, Source* source) {
  for (v1::LogLine& line : *lines) {
    line.set_replica_id(source->location.replica.replica_id());
    line.set_group(source->location.replica.group());
    line.set_rank(source->location.replica.rank());
    source->lines.push_back(std::move(line));
  }
}

void LogStream::Fetch(Source* source) {
  // What is not wanted is passed over.
  while (!source->pending && !source->done && source->lines.empty()) {
    logs::Lines wanted;
    switch (source->reader->state()) {
      case ReaderState::kWaiting:
        return;
      case ReaderState::kReady: {
        v1::StreamReplicaLogsResponse response = source->reader->Take();
        source->has_begun = true;
        if (source->filter == nullptr) {
          wanted.Swap(response.mutable_lines());
        } else {
          for (v1::LogLine& line : *response.mutable_lines()) source->filter->Add(std::move(line), &wanted);
        }
        Keep(&wanted, source);
        break;
      }
      case ReaderState::kDone: {
        source->done = true;
        if (source->filter != nullptr) source->filter->Finish(&wanted);
        Keep(&wanted, source);
        const grpc::Status status = source->reader->status();
        if (!status.ok()) Fail(status.error_message(), source);
        return;
      }
    }
  }
}

LogStream::Source* LogStream::Oldest() {
  Source* oldest = nullptr;
  for (const auto& source : sources_) {
    Fetch(source.get());
    if (source->lines.empty()) {
      if (merging_ && !source->done) return nullptr;
      continue;
    }
    if (oldest == nullptr || ToTime(source->lines.front().time()) < ToTime(oldest->lines.front().time())) {
      oldest = source.get();
    }
  }
  return oldest;
}

void LogStream::AddLines(v1::StreamLogsResponse* message) {
  size_t bytes = 0;
  while (message->lines_size() < kMaxLinesPerMessage && bytes < kMaxBytesPerMessage) {
    Source* source = Oldest();
    if (source == nullptr) return;
    bytes += source->lines.front().ByteSizeLong();
    *message->add_lines() = std::move(source->lines.front());
    source->lines.pop_front();
  }
}

void LogStream::OnEnd() {
  for (const auto& source : sources_) {
    if (source->reader != nullptr) source->reader->Abandon();
  }
}

}  // namespace adaptdl::supervisor
