#include "services/supervisor/state/tables.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "libs/jobs/planning.h"

namespace adaptdl::supervisor {
namespace {

void Unlist(const JobRecord& record, Tables* tables) {
  const std::string& name_space = record.job->namespace_();
  tables->waiting.erase(record.sequence);
  if (tables->active.erase(record.sequence) > 0 && --tables->unfinished[name_space] == 0) {
    tables->unfinished.erase(name_space);
  }
}

}  // namespace

bool WaitsForRoom(const JobRecord& job) {
  const std::vector<std::string>& desired = job.decision.nodes;
  if (desired.empty()) return false;
  switch (job.state.phase) {
    case jobs::Phase::kPending:
    case jobs::Phase::kRescaling:
      return true;
    case jobs::Phase::kRunning:
      // A job may go on without those of its nodes that were lost, until they are back.
      return desired != job.state.allocation && !jobs::SameNodes(desired, job.state.allocation);
    default:
      return false;
  }
}

void PutJob(std::shared_ptr<const JobEntry> entry, Tables* tables) {
  const JobRecord& record = entry->record;
  const std::string uid = record.uid();
  tables->by_sequence[record.sequence] = uid;
  tables->by_name[{record.job->namespace_(), record.job->name()}] = uid;
  if (jobs::IsTerminal(record.state.phase)) {
    Unlist(record, tables);
  } else {
    const bool is_new = tables->active.emplace(record.sequence, uid).second;
    if (is_new) ++tables->unfinished[record.job->namespace_()];
    if (WaitsForRoom(record)) {
      tables->waiting.emplace(record.sequence, uid);
    } else {
      tables->waiting.erase(record.sequence);
    }
  }
  std::shared_ptr<const JobEntry>& slot = tables->jobs[uid];
  const JobShare before = slot == nullptr ? JobShare() : ShareOf(*slot);
  const JobShare after = ShareOf(*entry);
  if (before.live != after.live || before.wanted != after.wanted || before.kept != after.kept) {
    tables->use.Add(before, -1);
    tables->use.Add(after, 1);
  }
  slot = std::move(entry);
}

void EraseJob(const std::string& uid, Tables* tables) {
  const std::shared_ptr<const JobEntry> entry = tables->jobs.at(uid);
  const JobRecord& record = entry->record;
  tables->use.Add(ShareOf(*entry), -1);
  tables->by_sequence.erase(record.sequence);
  tables->by_name.erase({record.job->namespace_(), record.job->name()});
  Unlist(record, tables);
  tables->jobs.erase(uid);
}

}  // namespace adaptdl::supervisor
