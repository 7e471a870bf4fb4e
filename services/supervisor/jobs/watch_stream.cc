#include "services/supervisor/jobs/watch_stream.h"

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/pages.h"

namespace adaptdl::supervisor {
namespace {

// Between two batches of changes of many jobs: one that has changed twice meanwhile is sent once.
constexpr absl::Duration kPause = absl::Milliseconds(200);
// Jobs in one message, and about how many bytes of them.
constexpr size_t kMostInMessage = 64;
constexpr size_t kMostBytes = 1 << 20;

}  // namespace

absl::Status WatchStream::List() {
  {
    // What was heard of so far is in the list.
    MutexLock lock(&mutex_);
    changed_.clear();
    deleted_.clear();
  }
  std::vector<std::string> uids;
  std::string only_uid;
  if (request_.name().empty()) {
    uids = jobs_->JobUids(request_.namespace_());
  } else {
    const absl::StatusOr<v1::Job> job = jobs_->GetJob(request_.namespace_(), request_.name());
    if (!job.ok()) return job.status();
    only_uid = job->uid();
    uids.push_back(only_uid);
  }
  MutexLock lock(&mutex_);
  only_uid_ = only_uid;
  initial_.assign(uids.begin(), uids.end());
  return absl::OkStatus();
}

bool WatchStream::Wanted(const v1::Job& job) const {
  if (!request_.name().empty() && job.name() != request_.name()) return false;
  return WantsNamespace(job.namespace_());
}

bool WatchStream::WantsNamespace(const std::string& name_space) const {
  return request_.namespace_() == "*" || name_space == NamespaceOr(request_.namespace_());
}

void WatchStream::OnChanges(const Changes& changes) {
  // Nothing is kept for a reader that is given up.
  const bool over = ending();
  bool news = false;
  {
    MutexLock lock(&mutex_);
    if (over) {
      changed_.clear();
      deleted_.clear();
      return;
    }
    for (const auto& [uid, change] : changes.jobs) {
      // Most changes are none of this reader's.
      if (!WantsNamespace(change.name_space) || (!only_uid_.empty() && uid != only_uid_)) continue;
      news = changed_.insert(uid).second || news;
    }
    for (const auto& [uid, job] : changes.deleted) {
      changed_.erase(uid);
      if (!Wanted(job) || (!only_uid_.empty() && uid != only_uid_)) continue;
      deleted_[uid] = job;
      news = true;
    }
  }
  if (news) Poke();
}

Pull WatchStream::Next(v1::WatchJobsResponse* message, grpc::Status* end) {
  if (!std::exchange(listed_, true)) {
    if (const absl::Status status = List(); !status.ok()) {
      *end = rpc::ToGrpcStatus(status);
      return Pull::kEnd;
    }
  }
  while (true) {
    std::deque<std::string>* source = nullptr;
    std::vector<std::string> uids;
    {
      MutexLock lock(&mutex_);
      if (only_one_deleted_) {
        *end = grpc::Status::OK;
        return Pull::kEnd;
      }
      if (!initial_.empty()) {
        source = &initial_;
      } else if (!initial_done_sent_) {
        initial_done_sent_ = true;
        message->set_initial_list_done(true);
        return Pull::kMessage;
      } else if (!deleted_.empty()) {
        const auto it = deleted_.begin();
        *message->mutable_job() = std::move(it->second);
        message->set_deleted(true);
        deleted_.erase(it);
        only_one_deleted_ = !only_uid_.empty();
        return Pull::kMessage;
      } else {
        if (batch_.empty() && !BeginBatch()) return Pull::kWait;
        source = &batch_;
      }
      const size_t most = request_.batch() ? kMostInMessage : 1;
      for (; !source->empty() && uids.size() < most; source->pop_front()) {
        uids.push_back(std::move(source->front()));
      }
    }
    const size_t described = Describe(uids, message);
    {
      // What did not fit comes next. Only this function takes from it.
      MutexLock lock(&mutex_);
      source->insert(source->begin(), uids.begin() + static_cast<std::ptrdiff_t>(described), uids.end());
    }
    if (message->has_job()) return Pull::kMessage;
  }
}

// False: there is nothing yet, or not enough time has passed.
bool WatchStream::BeginBatch() {
  if (changed_.empty()) return false;
  const absl::Time now = SteadyNow();
  if (only_uid_.empty() && now < next_batch_) {
    PokeAt(next_batch_);
    return false;
  }
  next_batch_ = now + kPause;
  batch_.assign(changed_.begin(), changed_.end());
  changed_.clear();
  return true;
}

// How many of the jobs were dealt with: as many as fit. Those that were deleted meanwhile come as such.
size_t WatchStream::Describe(const std::vector<std::string>& uids, v1::WatchJobsResponse* message) {
  size_t bytes = 0;
  for (size_t i = 0; i < uids.size(); ++i) {
    if (bytes > kMostBytes) return i;
    absl::StatusOr<v1::Job> job = jobs_->GetJobByUid(uids[i]);
    if (!job.ok() || !Wanted(*job)) continue;
    bytes += job->ByteSizeLong();
    *(message->has_job() ? message->add_more() : message->mutable_job()) = *std::move(job);
  }
  return uids.size();
}

}  // namespace adaptdl::supervisor
