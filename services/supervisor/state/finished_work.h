// How much work jobs took that succeeded, by kind: a hint for the allocator, how long others of the kind will take.
//
// Jobs are of one kind within a namespace if they have the same image and the same command with all arguments; where few of
// those are done, if they have the same image and run the same program: the first word of the command, and the first
// of the others that names a script (*.py, *.sh), a module (-m) or a text (-c). Of a kind the newest jobs count, by
// submission. It holds what can be made of the finished jobs' records again, and no more.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_FINISHED_WORK_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_FINISHED_WORK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "adaptdl/v1/job.pb.h"
#include "libs/pastwork/past_work.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// Tells kinds apart; by a salt of this process, so that nobody can make up a job that passes for another tenant's.
using JobKind = size_t;

class FinishedWork {
 public:
  // No-op for jobs that have not succeeded, or have told nothing of their progress, or are there already.
  void Put(const JobRecord& record);
  // No-op if it is not there.
  void Erase(const JobRecord& record);

  // What is known of the job's kind, in samples. nullopt: nothing, or the job says itself how much work it has.
  std::optional<pastwork::PastWork> Of(const JobRecord& record) const;

  // Kinds of both sorts.
  size_t size() const { return kinds_.size(); }

 private:
  struct Kind {
    std::map<int64_t, double> work;  // of the newest, in samples, by sequence
    // All of them.
    pastwork::PastWork past;
    void Count();
  };

  void PutInto(JobKind kind, int64_t sequence, double work);
  void EraseFrom(JobKind kind, int64_t sequence);

  std::unordered_map<JobKind, Kind> kinds_;
};

// By the whole command, and by its program.
JobKind CommandKind(const v1::Job& job);
JobKind ProgramKind(const v1::Job& job);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_FINISHED_WORK_H_
