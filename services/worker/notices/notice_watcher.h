// Asks a cloud's metadata service now and then whether this node goes away, on a thread of its own, and what the cloud
// calls the machine, until that is known.
//
//   asks ──(nothing)──▶ asks ... ──(likely)──▶ told, asks on ──(certain)──▶ told, asks no more: leaves
//
// The first notice that is certain counts. From then on the listener is called every `leaving_period`.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_NOTICE_WATCHER_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_NOTICE_WATCHER_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "libs/http/pauses.h"
#include "services/worker/notices/instance_metadata.h"

namespace adaptdl::worker {

// Called by the watcher's thread.
class NoticeListener {
 public:
  virtual ~NoticeListener() = default;
  virtual void OnNotice(const Notice& notice) = 0;
  // Again and again after a notice that is certain.
  virtual void WhileLeaving() = 0;
  // Once, if the machine's name was not known before.
  virtual void OnIdentity(const InstanceIdentity& identity) = 0;
};

class NoticeWatcher {
 public:
  struct Options {
    absl::Duration period = absl::Seconds(2);
    absl::Duration leaving_period = absl::Milliseconds(100);
    // Whether the machine's name is still to be found out.
    bool identify = false;
  };

  // `pauses` and `listener` outlive it. Start() begins the asking.
  NoticeWatcher(const Options& options, std::unique_ptr<InstanceMetadata> metadata, const Pauses* pauses,
                NoticeListener* listener);
  // Ends a call that is under way.
  ~NoticeWatcher();

  void Start();

  // What the thread does, step by step, for tests that do not Start(). Returns the pause after it.
  absl::Duration StepForTest() { return Step({}); }

 private:
  // Whether a notice that is certain was told.
  bool leaves() const { return told_.has_value() && !told_->likely_only; }
  absl::Duration Step(const std::stop_token& stop);
  void Look(const std::stop_token& stop);
  void Identify(const std::stop_token& stop);
  // Says once that the service can't be asked, and once that it can again.
  void NoteAnswer(const absl::Status& status);

  const Options options_;
  const std::unique_ptr<InstanceMetadata> metadata_;
  const Pauses* const pauses_;
  NoticeListener* const listener_;
  // Of the thread.
  bool identified_;
  bool answers_ = true;
  std::optional<Notice> told_;
  std::jthread thread_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_NOTICE_WATCHER_H_
