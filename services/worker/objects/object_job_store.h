// Jobs' checkpoints and results in an object store, below a prefix: <prefix>/<namespace>/<job>-<uid>.
//
// The first replica of a job on this node finds the newest checkpoint of the store in the checkpoint folder, and the files of the
// share folder. While replicas run, each new complete checkpoint is uploaded in the background; what fails is tried again with
// growing pauses. When the process of a replica has ended, the last checkpoint is uploaded before anybody hears of the end, and with
// the last replica of the job here the share folder, for as long as `upload_timeout` allows.
//
// One thing is done at a time about a job. Step() looks after all of it: call it every second or so.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_OBJECT_JOB_STORE_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_OBJECT_JOB_STORE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/http/pauses.h"
#include "libs/objectstore/object_store.h"
#include "services/worker/objects/checkpoint_mirror.h"
#include "services/worker/objects/job_store.h"
#include "services/worker/objects/share_mirror.h"

namespace adaptdl::worker {

struct ObjectJobStoreOptions {
  // Within the bucket, without slashes at its ends. Empty: none.
  std::string prefix;
  // Of the job's folder.
  std::string checkpoint_folder = "checkpoint";
  std::string share_folder = "share";
  // Most time between the end of a replica's process and the report of it.
  absl::Duration upload_timeout = absl::Minutes(2);
  // How often is looked for new checkpoints.
  absl::Duration period = absl::Seconds(1);
  // Between tries of what fails.
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration longest_pause = absl::Minutes(1);
};

class ObjectJobStore final : public JobStore {
 public:
  // Does the work soon, on some thread; of one lane one after the other.
  using Post = std::function<void(const std::string& lane, std::function<void()> work)>;

  // All outlive it, and what was posted is done when it goes.
  ObjectJobStore(ObjectJobStoreOptions options, objectstore::ObjectStore* store, const Clock* clock,
                 const Pauses* pauses, Post post);

  absl::Status Enter(const Job& job, const std::string& replica_id,
                     const std::function<void()>& progress) override;
  absl::Status FetchStart(const Job& job, const Job& source, const std::function<void()>& progress) override;
  void Adopt(const Job& job, const std::string& replica_id) override;
  absl::Status Leave(const std::string& job, const std::string& replica_id, bool save) override;
  absl::Status Remove(const std::string& job) override;
  void SetErrorSink(ErrorSink sink) override;

  // Begins uploads that are due, and ends what has taken too long.
  void Step();

  // Ends whatever is being done, with CANCELLED; nothing is begun from here on.
  void Shutdown();

 private:
  struct State {
    Job job;
    std::set<std::string> replicas;
    // Somebody is at it, and until when (steady).
    bool busy = false;
    absl::Time deadline = absl::InfiniteFuture();
    std::stop_source stop;
    // Who waits for it.
    int waiting = 0;
    absl::Time next_save = absl::InfinitePast();
    Backoff backoff;
    std::string error;
    // Of the checkpoint folder when all of it was saved.
    std::string settled;
  };

  MirroredJob MirrorOf(const Job& job) const;
  State& StateOf(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it is the caller's turn to do something about the job, for at most so long. False: not before the deadline, or never.
  bool Begin(State* state, absl::Time deadline, const std::function<void()>& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SaveInBackground(const std::string& name);
  // Again and again until it is done, or too late.
  absl::Status SaveAtEnd(const Job& job, bool at_rest, absl::Time deadline,
                         const std::stop_token& stop) const;
  absl::Status SaveOnce(const Job& job, bool at_rest, const std::stop_token& stop) const;

  const ObjectJobStoreOptions options_;
  objectstore::ObjectStore& store_;
  const Clock& clock_;
  const Pauses& pauses_;
  const Post post_;
  const CheckpointMirror checkpoints_;
  const ShareMirror shares_;

  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::unique_ptr<State>> jobs_ ABSL_GUARDED_BY(mutex_);
  ErrorSink sink_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_OBJECT_JOB_STORE_H_
