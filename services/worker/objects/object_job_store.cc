#include "services/worker/objects/object_job_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

// How often those that wait for their turn say that they are still there.
constexpr absl::Duration kWaitStep = absl::Milliseconds(200);

absl::Status Ending() { return absl::CancelledError("the worker ends"); }

}  // namespace

ObjectJobStore::ObjectJobStore(ObjectJobStoreOptions options, objectstore::ObjectStore* store,
                               const Clock* clock, const Pauses* pauses, Post post)
    : options_(std::move(options)),
      store_(*store),
      clock_(*clock),
      pauses_(*pauses),
      post_(std::move(post)),
      checkpoints_(store, options_.checkpoint_folder),
      shares_(store, options_.share_folder) {}

MirroredJob ObjectJobStore::MirrorOf(const Job& job) const {
  return {.folder = job.folder,
          .prefix = options_.prefix.empty() ? job.name : absl::StrCat(options_.prefix, "/", job.name),
          .owner = job.owner};
}

void ObjectJobStore::SetErrorSink(ErrorSink sink) {
  MutexLock lock(&mutex_);
  sink_ = std::move(sink);
}

ObjectJobStore::State& ObjectJobStore::StateOf(const std::string& name) {
  std::unique_ptr<State>& state = jobs_[name];
  if (state == nullptr) {
    state = std::make_unique<State>(State{.job = {.name = name, .folder = ""},
                                          .replicas = {},
                                          .stop = std::stop_source(std::nostopstate),
                                          .backoff = Backoff(options_.first_pause, options_.longest_pause),
                                          .error = "",
                                          .settled = ""});
  }
  return *state;
}

bool ObjectJobStore::Begin(State* state, absl::Time deadline, const std::function<void()>& progress) {
  ++state->waiting;
  while (state->busy && !ending_ && clock_.Steady() < deadline) {
    progress();
    changed_.WaitFor(&mutex_, kWaitStep);
  }
  --state->waiting;
  if (state->busy || ending_) return false;
  state->busy = true;
  state->deadline = deadline;
  state->stop = std::stop_source();
  return true;
}

void ObjectJobStore::End(const std::string& name) {
  State& state = StateOf(name);
  state.busy = false;
  state.deadline = absl::InfiniteFuture();
  if (state.replicas.empty() && state.waiting == 0) jobs_.erase(name);
  changed_.SignalAll();
}

absl::Status ObjectJobStore::Enter(const Job& job, const std::string& replica_id,
                                   const std::function<void()>& progress) {
  std::stop_token stop;
  {
    MutexLock lock(&mutex_);
    State& state = StateOf(job.name);
    if (!Begin(&state, absl::InfiniteFuture(), progress)) return Ending();
    // Others of the job run here: the folders are theirs.
    if (!state.replicas.empty()) {
      state.job.group = std::max(state.job.group, job.group);
      state.replicas.insert(replica_id);
      End(job.name);
      return absl::OkStatus();
    }
    stop = state.stop.get_token();
  }
  absl::Status status = checkpoints_.Fetch(MirrorOf(job), progress, stop);
  if (status.ok()) status = shares_.Fetch(MirrorOf(job), progress, stop);
  MutexLock lock(&mutex_);
  if (status.ok()) {
    State& state = StateOf(job.name);
    state.job = job;
    state.replicas.insert(replica_id);
  }
  End(job.name);
  return status;
}

absl::Status ObjectJobStore::FetchStart(const Job& job, const Job& source,
                                        const std::function<void()>& progress) {
  std::stop_token stop;
  {
    MutexLock lock(&mutex_);
    State& state = StateOf(job.name);
    if (!Begin(&state, absl::InfiniteFuture(), progress)) return Ending();
    stop = state.stop.get_token();
  }
  const absl::Status status =
      checkpoints_.FetchStart(MirrorOf(job), MirrorOf(source).prefix, kStartFolder, progress, stop);
  MutexLock lock(&mutex_);
  End(job.name);
  return status;
}

void ObjectJobStore::Adopt(const Job& job, const std::string& replica_id) {
  MutexLock lock(&mutex_);
  State& state = StateOf(job.name);
  const int64_t group = std::max(state.job.group, job.group);
  state.job = job;
  state.job.group = group;
  state.replicas.insert(replica_id);
}

absl::Status ObjectJobStore::Leave(const std::string& name, const std::string& replica_id, bool save) {
  const absl::Time deadline = clock_.Steady() + options_.upload_timeout;
  Job job;
  bool at_rest = false;
  std::stop_token stop;
  {
    MutexLock lock(&mutex_);
    const auto it = jobs_.find(name);
    if (it == jobs_.end() || !it->second->replicas.contains(replica_id)) return absl::OkStatus();
    State& state = *it->second;
    if (!save) {
      state.replicas.erase(replica_id);
      if (!state.busy) End(name);
      return absl::OkStatus();
    }
    const bool begun = Begin(&state, deadline, [] {});
    state.replicas.erase(replica_id);
    if (!begun) {
      state.stop.request_stop();
      return ending_
                 ? Ending()
                 : absl::DeadlineExceededError(absl::StrCat("the upload before it was not over within ",
                                                            absl::FormatDuration(options_.upload_timeout)));
    }
    job = state.job;
    at_rest = state.replicas.empty();
    stop = state.stop.get_token();
  }
  absl::Status status = SaveAtEnd(job, at_rest, deadline, stop);
  if (absl::IsCancelled(status) && clock_.Steady() >= deadline) {
    status = absl::DeadlineExceededError(
        absl::StrCat("the upload was not over within ", absl::FormatDuration(options_.upload_timeout)));
  }
  MutexLock lock(&mutex_);
  End(name);
  return status;
}

absl::Status ObjectJobStore::SaveAtEnd(const Job& job, bool at_rest, absl::Time deadline,
                                       const std::stop_token& stop) const {
  Backoff backoff(options_.first_pause, options_.longest_pause);
  while (true) {
    const absl::Status status = SaveOnce(job, at_rest, stop);
    if (status.ok() || stop.stop_requested()) return status;
    const absl::Duration pause = backoff.Next();
    log::Warning("what a job has left is not in the store yet",
                 {{"job", job.name}, {"error", status.ToString()}});
    if (clock_.Steady() + pause >= deadline) return status;
    if (!pauses_.WaitFor(pause, stop)) return absl::CancelledError("the upload was stopped");
  }
}

absl::Status ObjectJobStore::SaveOnce(const Job& job, bool at_rest, const std::stop_token& stop) const {
  absl::Status status = checkpoints_.Save(MirrorOf(job), job.group, at_rest, stop);
  if (status.ok() && at_rest) status = shares_.Save(MirrorOf(job), stop);
  return status;
}

absl::Status ObjectJobStore::Remove(const std::string& name) {
  std::stop_token stop;
  {
    MutexLock lock(&mutex_);
    State& state = StateOf(name);
    state.stop.request_stop();
    if (!Begin(&state, clock_.Steady() + options_.upload_timeout, [] {}))
      return ending_ ? Ending() : absl::UnavailableError("an upload of the job is still to end");
    stop = state.stop.get_token();
  }
  const std::string prefix = MirrorOf({.name = name, .folder = ""}).prefix;
  const absl::Status status = objectstore::DeletePrefix(store_, absl::StrCat(prefix, "/"), stop);
  MutexLock lock(&mutex_);
  End(name);
  return status;
}

void ObjectJobStore::Step() {
  std::vector<std::string> due;
  {
    MutexLock lock(&mutex_);
    const absl::Time now = clock_.Steady();
    for (auto& [name, state] : jobs_) {
      if (state->busy && now >= state->deadline) state->stop.request_stop();
      if (ending_ || state->busy || state->replicas.empty() || now < state->next_save) continue;
      state->busy = true;
      state->stop = std::stop_source();
      due.push_back(name);
    }
  }
  for (const std::string& name : due) {
    post_(name, [this, name] { SaveInBackground(name); });
  }
}

void ObjectJobStore::SaveInBackground(const std::string& name) {
  Job job;
  std::string settled;
  std::stop_token stop;
  {
    MutexLock lock(&mutex_);
    const State& state = StateOf(name);
    job = state.job;
    settled = state.settled;
    stop = state.stop.get_token();
  }
  const absl::StatusOr<std::string> now =
      FingerprintOf(absl::StrCat(job.folder, "/", options_.checkpoint_folder));
  absl::Status status = now.status();
  if (now.ok() && *now != settled)
    status = checkpoints_.Save(MirrorOf(job), job.group, /*at_rest=*/false, stop);
  ErrorSink sink;
  std::string error;
  {
    MutexLock lock(&mutex_);
    State& state = StateOf(name);
    absl::Duration pause = options_.period;
    if (status.ok()) {
      state.settled = *now;
      state.backoff.Reset();
    } else {
      pause = std::max(pause, state.backoff.Next());
      error = absl::StrCat("the newest checkpoint is not in the store: ", status.message());
      log::Warning("checkpoint not uploaded", {{"job", name}, {"error", status.ToString()}});
    }
    state.next_save = clock_.Steady() + pause;
    // A stop is no news: whoever asked for it knows.
    if (state.error != error && !absl::IsCancelled(status)) {
      state.error = error;
      sink = sink_;
    }
    End(name);
  }
  if (sink) sink(name, error);
}

void ObjectJobStore::Shutdown() {
  MutexLock lock(&mutex_);
  ending_ = true;
  for (auto& [name, state] : jobs_) state->stop.request_stop();
  changed_.SignalAll();
}

}  // namespace adaptdl::worker
