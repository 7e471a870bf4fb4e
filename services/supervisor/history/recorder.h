// Keeps the history of each job: makes points of what it hears, and writes them to disk every few seconds.
//
//   progress, twice a second   ──▶ ProgressKeeper ──▶ Observe() ─┐
//   changes that are durable   ──▶ ChangeHub ──▶ OnChanges() ────┤
//   the supervisor's step      ──▶ Step() ───────────────────────┴▶ a Series per job, under a lock that is held for moments
//                                      a thread of its own: Flush() ─▶ HistoryFile
//
// Nothing of it is on the way of a heartbeat or a commit, and nobody but its own thread waits for the disk, but who reads. What
// was written leaves memory, and a job that has finished leaves it whole. While the disk can't be written, or without one,
// memory holds what there is, within a bound: then points get coarser, and jobs that finished long ago are forgotten.
//
// Of several supervisors of one state the leader writes. Thread-safe; no lock is held while the disk is waited for.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HISTORY_RECORDER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HISTORY_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/history_service.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/supervisor/history/history_file.h"
#include "services/supervisor/history/series.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

struct HistoryOptions {
  // Where histories are kept. Empty: in memory only, as long as this process lives.
  std::string folder;
  // How often they are written; a crash loses at most so much.
  absl::Duration flush_period = absl::Seconds(10);
  // Of all that is in memory, about. A job that has not finished may have 16 KiB in any case.
  size_t memory_bytes = size_t{64} << 20;
};

// What is known of a job.
struct JobHistory {
  std::vector<v1::HistoryPoint> points;
  absl::Duration resolution = kFinestResolution;
  AllocationChanges changes;
};

class Recorder final : public ChangeListener {
 public:
  // `core` outlives it; jobs that are there are followed from now on.
  Recorder(const HistoryOptions& options, Core* core);
  // What is known is written once more.
  ~Recorder() override;

  // Starts the thread that writes.
  void Start();

  void OnChanges(const Changes& changes) override;
  // What leading replicas have said, by the uids of their jobs.
  void Observe(const std::map<std::string, v1::TrainingProgress>& progress);
  // Time has passed. Does something once a second.
  void Step();

  // UNAVAILABLE: the disk can't be read. Of a job that nobody has kept a history of, its events tell the changes.
  absl::StatusOr<JobHistory> Read(const std::string& uid) const;
  absl::StatusOr<AllocationChanges> ReadChanges(const std::string& uid) const;

  // Writes what there is to be written. Called by one thread: its own, or that of a test.
  void Flush();

 private:
  struct Job {
    explicit Job(Series series) : series(std::move(series)) {}
    Series series;
    // Of the newest allocation that was looked at.
    int64_t group = -1;
    // Whether there may be an older part of its history that was not looked for yet: it was there before this process.
    bool may_follow = false;
    // What is on disk of it: points, the end of the last one, and which changes.
    size_t points_on_disk = 0;
    absl::Time end_on_disk = absl::InfinitePast();
    int64_t revision_on_disk = 0;
    absl::Duration resolution_on_disk = absl::ZeroDuration();
  };
  using Jobs = std::unordered_map<std::string, Job>;
  using File = std::shared_ptr<HistoryFile>;

  // A job as it is in the index.
  void ObserveEntry(const JobEntry& entry, const Moment& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  // What readers are told. Notes it if the file is damaged.
  absl::Status ReadFailure(const absl::Status& status) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Of Flush(). `all`: also what may still change, as this is the end.
  absl::Status Write(bool all) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<File> FindFile() ABSL_LOCKS_EXCLUDED(mutex_);
  // Null `file`: nothing is kept on disk.
  absl::Status FindEarlierParts(const File& file) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FindOrphans(const File& file) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<HistoryFile::Part> CollectParts(bool all) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CoarsenParts(HistoryFile* file, std::vector<HistoryFile::Part>* parts) const;
  void NoteWritten(const std::vector<HistoryFile::Part>& parts) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteOutcome(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  void BoundMemory() ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AllocationChanges ChangesFromEvents(const std::string& uid) const;

  const HistoryOptions options_;
  Core* const core_;

  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Jobs that have not finished, and others whose end is not on disk.
  Jobs jobs_ ABSL_GUARDED_BY(mutex_);
  // Of those in memory that have finished, in the order in which they did.
  std::deque<std::string> finished_ ABSL_GUARDED_BY(mutex_);
  // Jobs that are to go from disk, and whether there may be others there that nobody knows.
  std::set<std::string> deleted_ ABSL_GUARDED_BY(mutex_);
  bool may_have_orphans_ ABSL_GUARDED_BY(mutex_) = true;
  // Null: there is none now.
  File file_ ABSL_GUARDED_BY(mutex_);

  // What a reader has found.
  mutable absl::Status damage_ ABSL_GUARDED_BY(mutex_);

  absl::Time stepped_ = absl::InfinitePast();  // Used in Step() only.
  bool failing_ = false;                       // Used in Flush() only: whether the last one has failed.
  std::thread thread_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HISTORY_RECORDER_H_
