#include "services/supervisor/kubernetes/store/kube_events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/utf8.h"
#include "libs/kube/json/object.h"
#include "libs/service/log.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

// Bounds of the API.
constexpr size_t kLongestNote = 1024;
constexpr size_t kLongestWord = 128;

struct Said {
  std::string instance;
  // Of the name's end.
  int64_t id;
  bool is_warning;
  std::string reason;
  std::string note;
  absl::Time time;
};

Json MakeEvent(const Said& said, const Json& regarding) {
  const std::string reason = said.reason.substr(0, kLongestWord);
  return {{"apiVersion", Events().ApiVersion()},
          {"kind", Events().kind},
          {"metadata",
           {{"namespace", kube::TextAt(regarding, {"namespace"})},
            {"name", absl::StrFormat("%s.%x", kube::TextAt(regarding, {"name"}), said.id)}}},
          {"eventTime", kube::MicroTimeText(said.time)},
          {"reportingController", "adaptdl.petuum.com/supervisor"},
          {"reportingInstance", said.instance.substr(0, kLongestWord)},
          {"action", reason},
          {"reason", reason},
          {"type", said.is_warning ? "Warning" : "Normal"},
          {"note", ToUtf8(said.note, kLongestNote)},
          {"regarding", regarding}};
}

}  // namespace

KubeEvents::KubeEvents(const kube::Client* client, std::string instance)
    : client_(*client),
      instance_(std::move(instance)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

KubeEvents::~KubeEvents() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.request_stop();
  thread_.join();
}

void KubeEvents::Tell(const v1::Event& event) {
  if (!event.job().empty()) Add(EventObject(event, instance_));
}

void KubeEvents::Warn(const Json& object, const std::string& reason, const std::string& note,
                      absl::Time time) {
  const kube::ObjectKey key = kube::KeyOf(object);
  const Json regarding = {{"apiVersion", kube::TextAt(object, {"apiVersion"})},
                          {"kind", kube::TextAt(object, {"kind"})},
                          {"namespace", key.name_space},
                          {"name", key.name},
                          {"uid", kube::UidOf(object)}};
  Add(MakeEvent({.instance = instance_,
                 .id = absl::ToUnixMicros(time),
                 .is_warning = true,
                 .reason = reason,
                 .note = note,
                 .time = time},
                regarding));
}

void KubeEvents::Add(Json event) {
  {
    MutexLock lock(&mutex_);
    if (waiting_.size() >= kMostWaiting) {
      ++lost_;
      return;
    }
    waiting_.push_back(std::move(event));
  }
  changed_.SignalAll();
}

void KubeEvents::Flush() {
  MutexLock lock(&mutex_);
  while (!waiting_.empty() || telling_) changed_.Wait(&mutex_);
}

int64_t KubeEvents::lost() const {
  MutexLock lock(&mutex_);
  return lost_;
}

void KubeEvents::Run(const std::stop_token& stop) {
  while (true) {
    Json event;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (stopping_) return;
      event = std::move(waiting_.front());
      waiting_.pop_front();
      telling_ = true;
    }
    const absl::Status told = client_
                                  .Create(kube::Collection(Events(), kube::KeyOf(event).name_space), event,
                                          {.field_manager = kFieldManager}, stop)
                                  .status();
    // One whose first answer was lost is there.
    const bool lost = !told.ok() && !absl::IsAlreadyExists(told);
    if (lost)
      log::Info("an Event could not be told",
                {{"event", kube::TextAt(event, {"reason"})}, {"error", told.ToString()}});
    {
      MutexLock lock(&mutex_);
      telling_ = false;
      if (lost) ++lost_;
    }
    changed_.SignalAll();
  }
}

Json EventObject(const v1::Event& event, const std::string& instance) {
  const absl::Time time = TimeOf(event);
  Json object = MakeEvent({.instance = instance,
                           .id = event.id(),
                           .is_warning = event.type() == v1::EVENT_TYPE_WARNING,
                           .reason = event.reason(),
                           .note = event.message(),
                           .time = time},
                          {{"apiVersion", AdaptDLJobs().ApiVersion()},
                           {"kind", AdaptDLJobs().kind},
                           {"namespace", event.namespace_()},
                           {"name", event.job()},
                           {"uid", event.job_uid()}});
  // The API counts from two.
  if (event.count() > 1) {
    object["series"] = {{"count", event.count()}, {"lastObservedTime", kube::MicroTimeText(time)}};
  }
  return object;
}

}  // namespace adaptdl::supervisor
