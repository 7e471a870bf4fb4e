#include "services/supervisor/watch_stream.h"

#include <string>
#include <utility>
#include <vector>

namespace adaptdl::supervisor {

absl::Status WatchStream::List() {
  std::vector<std::string> uids;
  std::string only_uid;
  if (request_.name().empty()) {
    uids = state_->JobUids(request_.namespace_());
  } else {
    const absl::StatusOr<v1::Job> job = state_->GetJob(request_.namespace_(), request_.name());
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
  while (true) {
    std::string uid;
    {
      MutexLock lock(&mutex_);
      if (only_one_deleted_) {
        *end = grpc::Status::OK;
        return Pull::kEnd;
      }
      if (!initial_.empty()) {
        uid = std::move(initial_.front());
        initial_.pop_front();
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
      } else if (!changed_.empty()) {
        uid = *changed_.begin();
        changed_.erase(changed_.begin());
      } else {
        return Pull::kWait;
      }
    }
    absl::StatusOr<v1::Job> job = state_->GetJobByUid(uid);
    // One that was deleted meanwhile comes as such.
    if (!job.ok() || !Wanted(*job)) continue;
    *message->mutable_job() = *std::move(job);
    return Pull::kMessage;
  }
}

}  // namespace adaptdl::supervisor
