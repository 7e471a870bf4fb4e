#include "services/supervisor/history/recorder.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "libs/messages/proto_time.h"
#include "libs/service/log.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::Duration kStepPeriod = absl::Seconds(1);
// How long after its end a job's last words may come.
constexpr absl::Duration kLastWords = absl::Seconds(1);
constexpr size_t kLeastBytesPerJob = size_t{16} << 10;
constexpr size_t kMostDeleted = 100'000;
// Points on disk are made fewer at some number between these, so that jobs that began together don't all have it done at
// once; and for so many jobs in one flush.
constexpr size_t kFewestToCoarsen = kMostPoints * 3 / 4;
constexpr size_t kMostCoarsened = 64;
constexpr size_t kMostEvents = 10'000;

size_t CoarsenAt(const std::string& uid) {
  return kFewestToCoarsen + std::hash<std::string>()(uid) % (kMostPoints - kFewestToCoarsen);
}

bool IsMember(const JobEntry& entry, const ReplicaRecord& replica) {
  return replica.replica.group() == entry.record.state.group &&
         replica.replica.state() == v1::REPLICA_STATE_RUNNING;
}

int CountRunning(const JobEntry& entry) {
  return static_cast<int>(std::count_if(entry.replicas.begin(), entry.replicas.end(),
                                        [&](const auto& replica) { return IsMember(entry, *replica); }));
}

int CountNodes(const JobEntry& entry) {
  std::set<absl::string_view> nodes;
  for (const auto& replica : entry.replicas) {
    if (IsMember(entry, *replica)) nodes.insert(replica->replica.node_id());
  }
  return static_cast<int>(nodes.size());
}

Counts CountsOfJob(const JobEntry& entry) {
  return entry.record.progress.has_value() ? CountsOf(*entry.record.progress) : Counts();
}

// SQLite's errors as those of the state, which they are not.
std::string TextOf(const absl::Status& status) {
  return absl::StrReplaceAll(status.ToString(), {{"state database", "history database"},
                                                 {"--state-dir", "the history"},
                                                 {"; restore the state directory from a backup", ""}});
}

}  // namespace

Recorder::Recorder(const HistoryOptions& options, Core* core) : options_(options), core_(core) {
  // Whoever reads sees what there is from the beginning.
  if (!options_.folder.empty()) NoteOutcome(FindFile().status());
  const Moment now = core_->Now();
  MutexLock lock(&mutex_);
  for (const auto& entry : core_->index().View().jobs) {
    ObserveEntry(*entry, now);
    const auto it = jobs_.find(entry->record.uid());
    if (it != jobs_.end()) it->second.may_follow = true;
  }
}

Recorder::~Recorder() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.SignalAll();
  if (thread_.joinable()) thread_.join();
  const Moment now = core_->Now();
  {
    MutexLock lock(&mutex_);
    for (auto& [uid, job] : jobs_) job.series.Close(now);
  }
  NoteOutcome(Write(true));
}

void Recorder::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Recorder::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!stopping_) wake_.WaitFor(&mutex_, options_.flush_period);
      if (stopping_) return;
    }
    Flush();
  }
}

void Recorder::ObserveEntry(const JobEntry& entry, const Moment& now) {
  const std::string& uid = entry.record.uid();
  const jobs::Phase phase = entry.record.state.phase;
  auto it = jobs_.find(uid);
  if (it == jobs_.end()) {
    // What there is to say of one that has finished is on disk.
    if (jobs::IsTerminal(phase)) return;
    it = jobs_.emplace(uid, Job(Series(now, CountsOfJob(entry)))).first;
  }
  Job& job = it->second;
  if (job.series.finished()) return;
  Allocation allocation;
  allocation.phase = ToProto(phase);
  if (!jobs::IsTerminal(phase)) allocation.replicas = CountRunning(entry);
  const AllocationChanges& known = job.series.changes();
  const bool same = !known.empty() && job.group == entry.record.state.group &&
                    known.last().allocation.phase == allocation.phase &&
                    known.last().allocation.replicas == allocation.replicas;
  if (same) return;
  job.group = entry.record.state.group;
  if (allocation.replicas > 0) allocation.nodes = CountNodes(entry);
  job.series.Observe(now, allocation);
  if (job.series.finished()) finished_.push_back(uid);
}

void Recorder::OnChanges(const Changes& changes) {
  std::vector<std::shared_ptr<const JobEntry>> entries;
  entries.reserve(changes.jobs.size());
  for (const auto& [uid, change] : changes.jobs) {
    if (auto entry = core_->index().FindJob(uid)) entries.push_back(std::move(entry));
  }
  const Moment now = core_->Now();
  MutexLock lock(&mutex_);
  for (const auto& entry : entries) ObserveEntry(*entry, now);
  for (const auto& [uid, job] : changes.deleted) {
    jobs_.erase(uid);
    if (options_.folder.empty()) continue;
    deleted_.insert(uid);
    if (deleted_.size() <= kMostDeleted) continue;
    // The disk fails for long: they are found there when it does no more.
    deleted_.clear();
    may_have_orphans_ = true;
  }
}

void Recorder::Observe(const std::map<std::string, v1::TrainingProgress>& progress) {
  const Moment now = core_->Now();
  MutexLock lock(&mutex_);
  for (const auto& [uid, said] : progress) {
    const auto it = jobs_.find(uid);
    if (it != jobs_.end()) it->second.series.Observe(now, said);
  }
}

void Recorder::Step() {
  const Moment now = core_->Now();
  if (now.steady < stepped_ + kStepPeriod) return;
  stepped_ = now.steady;
  MutexLock lock(&mutex_);
  for (auto& [uid, job] : jobs_) job.series.Advance(now);
}

absl::StatusOr<JobHistory> Recorder::Read(const std::string& uid) const {
  JobHistory history;
  File file;
  bool knows_changes = false;
  std::vector<v1::HistoryPoint> newest;
  {
    MutexLock lock(&mutex_);
    file = file_;
    const auto it = jobs_.find(uid);
    if (it != jobs_.end()) {
      newest = it->second.series.points();
      history.resolution = it->second.series.resolution();
      history.changes = it->second.series.changes();
      knows_changes = !it->second.may_follow;
    }
  }
  if (file != nullptr) {
    absl::StatusOr<std::vector<v1::HistoryPoint>> points = file->ReadPoints(uid);
    if (!points.ok()) return ReadFailure(points.status());
    history.points = *std::move(points);
    if (!knows_changes) {
      const absl::StatusOr<std::optional<HistoryHead>> head = file->ReadHead(uid);
      if (!head.ok()) return ReadFailure(head.status());
      if (head->has_value()) {
        history.changes.Precede((*head)->changes);
        history.resolution = std::max(history.resolution, (*head)->resolution);
      }
    }
  }
  history.points.insert(history.points.end(), std::make_move_iterator(newest.begin()),
                        std::make_move_iterator(newest.end()));
  // What was written meanwhile was read twice.
  DropOverlaps(&history.points);
  if (history.changes.empty()) history.changes = ChangesFromEvents(uid);
  return history;
}

absl::StatusOr<AllocationChanges> Recorder::ReadChanges(const std::string& uid) const {
  AllocationChanges changes;
  File file;
  {
    MutexLock lock(&mutex_);
    const auto it = jobs_.find(uid);
    if (it != jobs_.end()) {
      changes = it->second.series.changes();
      if (!it->second.may_follow) return changes;
    }
    file = file_;
  }
  if (file != nullptr) {
    const absl::StatusOr<std::optional<HistoryHead>> head = file->ReadHead(uid);
    if (!head.ok()) return ReadFailure(head.status());
    if (head->has_value()) changes.Precede((*head)->changes);
  }
  return changes.empty() ? ChangesFromEvents(uid) : changes;
}

absl::Status Recorder::ReadFailure(const absl::Status& status) const {
  if (absl::IsDataLoss(status)) {
    MutexLock lock(&mutex_);
    damage_ = status;
  }
  return absl::UnavailableError(TextOf(status));
}

void Recorder::Flush() {
  NoteOutcome(Write(false));
  BoundMemory();
}

absl::Status Recorder::Write(bool all) {
  if (options_.folder.empty()) return FindEarlierParts(nullptr);
  if (!core_->leads()) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    if (!damage_.ok()) return damage_;
  }
  const absl::StatusOr<File> file = FindFile();
  if (!file.ok()) return file.status();
  absl::Status status = FindOrphans(*file);
  if (status.ok()) status = FindEarlierParts(*file);
  if (!status.ok()) return status;
  std::vector<HistoryFile::Part> parts = CollectParts(all);
  status = CoarsenParts(file->get(), &parts);
  if (!status.ok()) return status;
  std::set<std::string> deleted;
  {
    MutexLock lock(&mutex_);
    deleted = deleted_;
  }
  status = (*file)->Write(parts, {deleted.begin(), deleted.end()});
  if (!status.ok()) return status;
  NoteWritten(parts);
  MutexLock lock(&mutex_);
  for (const std::string& uid : deleted) deleted_.erase(uid);
  return absl::OkStatus();
}

absl::StatusOr<Recorder::File> Recorder::FindFile() {
  {
    MutexLock lock(&mutex_);
    if (file_ != nullptr) return file_;
  }
  absl::StatusOr<std::unique_ptr<HistoryFile>> opened = HistoryFile::Open(options_.folder);
  if (!opened.ok()) return opened.status();
  const File file = *std::move(opened);
  MutexLock lock(&mutex_);
  file_ = file;
  return file;
}

absl::Status Recorder::FindOrphans(const File& file) {
  {
    MutexLock lock(&mutex_);
    if (!may_have_orphans_) return absl::OkStatus();
  }
  // Whose they are can't be told.
  if (core_->unreadable_jobs().empty()) {
    const absl::StatusOr<std::vector<std::string>> uids = file->ListUids();
    if (!uids.ok()) return uids.status();
    std::vector<std::string> orphans;
    for (const std::string& uid : *uids) {
      if (core_->index().FindJob(uid) == nullptr) orphans.push_back(uid);
    }
    MutexLock lock(&mutex_);
    deleted_.insert(orphans.begin(), orphans.end());
  }
  MutexLock lock(&mutex_);
  may_have_orphans_ = false;
  return absl::OkStatus();
}

absl::Status Recorder::FindEarlierParts(const File& file) {
  std::vector<std::string> uids;
  {
    MutexLock lock(&mutex_);
    for (const auto& [uid, job] : jobs_) {
      if (job.may_follow) uids.push_back(uid);
    }
  }
  for (const std::string& uid : uids) {
    absl::StatusOr<std::optional<HistoryHead>> head = std::optional<HistoryHead>();
    if (file != nullptr) head = file->ReadHead(uid);
    if (!head.ok()) return head.status();
    absl::StatusOr<std::vector<v1::HistoryPoint>> points = std::vector<v1::HistoryPoint>();
    if (head->has_value()) points = file->ReadPoints(uid);
    if (!points.ok()) return points.status();
    const HistoryHead earlier =
        head->has_value() ? **std::move(head) : HistoryHead{kFinestResolution, ChangesFromEvents(uid)};
    const absl::Time end = points->empty() ? absl::InfinitePast() : messages::ToTime(points->back().end());
    MutexLock lock(&mutex_);
    const auto it = jobs_.find(uid);
    if (it == jobs_.end()) continue;
    Job& job = it->second;
    job.series.Follow(earlier.changes, end, earlier.resolution);
    job.points_on_disk = points->size();
    job.end_on_disk = end;
    job.may_follow = false;
  }
  return absl::OkStatus();
}

AllocationChanges Recorder::ChangesFromEvents(const std::string& uid) const {
  const std::shared_ptr<const JobEntry> entry = core_->index().FindJob(uid);
  if (entry == nullptr) return {};
  std::vector<v1::Event> all;
  int64_t after = 0;
  while (all.size() < kMostEvents) {
    absl::StatusOr<std::vector<v1::Event>> events = core_->store()->ListEvents(
        {entry->record.job->namespace_(), entry->record.job->name(), after, kReadBatch, kMaxPageBytes});
    // It is the history only.
    if (!events.ok() || events->empty()) break;
    after = events->back().id();
    for (v1::Event& event : *events) {
      if (event.job_uid() == uid) all.push_back(std::move(event));
    }
  }
  return FromEvents(all);
}

std::vector<HistoryFile::Part> Recorder::CollectParts(bool all) {
  const absl::Time now = core_->Now().steady;
  std::vector<HistoryFile::Part> parts;
  MutexLock lock(&mutex_);
  for (const auto& [uid, job] : jobs_) {
    const Series& series = job.series;
    if (job.may_follow || (series.finished() && !all && now < series.finished_at() + kLastWords)) continue;
    const bool has_news = !series.points().empty() || series.revision() != job.revision_on_disk;
    if (!has_news && !series.finished()) continue;
    HistoryFile::Part& part = parts.emplace_back();
    part.uid = uid;
    part.points = series.points();
    part.head.resolution = series.resolution();
    part.same_head =
        series.revision() == job.revision_on_disk && series.resolution() == job.resolution_on_disk;
    if (!part.same_head) part.head.changes = series.changes();
    part.points_then = job.points_on_disk + part.points.size();
    part.end = part.points.empty() ? job.end_on_disk : messages::ToTime(part.points.back().end());
    part.revision = series.revision();
    part.is_last = series.finished();
  }
  return parts;
}

absl::Status Recorder::CoarsenParts(HistoryFile* file, std::vector<HistoryFile::Part>* parts) const {
  size_t coarsened = 0;
  for (HistoryFile::Part& part : *parts) {
    const bool due = part.points_then > CoarsenAt(part.uid) && coarsened < kMostCoarsened;
    if (!due && part.points_then <= kMostPoints) continue;
    ++coarsened;
    absl::StatusOr<std::vector<v1::HistoryPoint>> points = file->ReadPoints(part.uid);
    if (!points.ok()) return points.status();
    points->insert(points->end(), part.points.begin(), part.points.end());
    DropOverlaps(&*points);
    Coarsen(kMostPoints / 2, &part.head.resolution, &*points);
    part.points = *std::move(points);
    part.points_then = part.points.size();
    part.replaces = true;
  }
  return absl::OkStatus();
}

void Recorder::NoteWritten(const std::vector<HistoryFile::Part>& parts) {
  MutexLock lock(&mutex_);
  for (const HistoryFile::Part& part : parts) {
    const auto it = jobs_.find(part.uid);
    if (it == jobs_.end()) continue;
    if (part.is_last) {
      jobs_.erase(it);
      continue;
    }
    Job& job = it->second;
    job.series.TakeAway(part.end);
    job.series.SetResolution(part.head.resolution);
    job.points_on_disk = part.points_then;
    job.end_on_disk = part.end;
    job.revision_on_disk = part.revision;
    // Of what was made coarser, the next head tells.
    if (!part.replaces) job.resolution_on_disk = part.head.resolution;
  }
  ForgetFinished();
}

// Those of which nothing is in memory any more.
void Recorder::ForgetFinished() {
  std::deque<std::string> left;
  for (std::string& uid : finished_) {
    if (jobs_.count(uid) > 0) left.push_back(std::move(uid));
  }
  finished_ = std::move(left);
}

void Recorder::NoteOutcome(const absl::Status& status) {
  if (status.ok()) {
    if (failing_) log::Info("the history of jobs is written again", {{"folder", options_.folder}});
    failing_ = false;
    return;
  }
  if (Metrics* metrics = core_->metrics()) metrics->CountHistoryFailure();
  if (!failing_) {
    log::Warning("the history of jobs can't be written; it stays in memory, where there is little room",
                 {{"folder", options_.folder}, {"error", TextOf(status)}});
  }
  failing_ = true;
  if (!absl::IsDataLoss(status)) return;
  {
    MutexLock lock(&mutex_);
    file_ = nullptr;
    damage_ = absl::OkStatus();
    for (auto& [uid, job] : jobs_) {
      job.points_on_disk = 0;
      job.end_on_disk = absl::InfinitePast();
      job.revision_on_disk = 0;
      job.resolution_on_disk = absl::ZeroDuration();
    }
  }
  HistoryFile::SetAside(options_.folder, status);
}

void Recorder::BoundMemory() {
  MutexLock lock(&mutex_);
  size_t sum = 0;
  for (const auto& [uid, job] : jobs_) sum += job.series.bytes();
  while (sum > options_.memory_bytes && !finished_.empty()) {
    const auto it = jobs_.find(finished_.front());
    if (it != jobs_.end()) {
      sum -= std::min(sum, it->second.series.bytes());
      jobs_.erase(it);
    }
    finished_.pop_front();
  }
  if (sum <= options_.memory_bytes) return;
  const size_t each = std::max(kLeastBytesPerJob, options_.memory_bytes / jobs_.size());
  for (auto& [uid, job] : jobs_) {
    const Series& series = job.series;
    if (series.bytes() <= each) continue;
    const size_t size = series.points().empty() ? 1 : SizeOf(series.points().back());
    job.series.Limit(each / 2 / size, each / 4 / sizeof(AllocationChanges::Change));
  }
}

}  // namespace adaptdl::supervisor
