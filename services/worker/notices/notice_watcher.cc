#include "services/worker/notices/notice_watcher.h"

#include <memory>
#include <string>
#include <utility>

#include "libs/service/log.h"

namespace adaptdl::worker {

NoticeWatcher::NoticeWatcher(const Options& options, std::unique_ptr<InstanceMetadata> metadata,
                             const Pauses* pauses, NoticeListener* listener)
    : options_(options),
      metadata_(std::move(metadata)),
      pauses_(pauses),
      listener_(listener),
      identified_(!options.identify) {}

NoticeWatcher::~NoticeWatcher() = default;  // the thread is told to stop, and awaited

void NoticeWatcher::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (pauses_->WaitFor(Step(stop), stop)) {
    }
  });
}

absl::Duration NoticeWatcher::Step(const std::stop_token& stop) {
  if (leaves()) {
    listener_->WhileLeaving();
  } else {
    if (!identified_) Identify(stop);
    Look(stop);
  }
  return leaves() ? options_.leaving_period : options_.period;
}

void NoticeWatcher::Look(const std::stop_token& stop) {
  const absl::StatusOr<std::optional<Notice>> notice = metadata_->Look(stop);
  if (stop.stop_requested()) return;
  NoteAnswer(notice.status());
  if (!notice.ok() || !notice->has_value()) return;
  if (told_.has_value() && (*notice)->likely_only) return;
  told_ = **notice;
  log::Warning(
      told_->likely_only ? "the node may be taken away" : "the node is taken away",
      {{"reason", told_->reason},
       {"deadline", told_->likely_only ? "none" : absl::FormatTime(told_->deadline, absl::UTCTimeZone())}});
  listener_->OnNotice(*told_);
}

void NoticeWatcher::Identify(const std::stop_token& stop) {
  const absl::StatusOr<InstanceIdentity> identity = metadata_->Identify(stop);
  if (!identity.ok()) return;
  identified_ = true;
  listener_->OnIdentity(*identity);
}

void NoticeWatcher::NoteAnswer(const absl::Status& status) {
  if (status.ok() == answers_) return;
  answers_ = status.ok();
  if (answers_) {
    log::Info("the metadata service answers again");
  } else {
    log::Warning("notices of the cloud can't be read; asking on", {{"error", status.ToString()}});
  }
}

}  // namespace adaptdl::worker
