#include "services/supervisor/kubernetes/store/kube_events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/utf8.h"
#include "libs/service/log.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

// Bounds of the API.
constexpr size_t kLongestNote = 1024;
constexpr size_t kLongestWord = 128;

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
  if (event.job().empty()) return;
  {
    MutexLock lock(&mutex_);
    if (waiting_.size() >= kMostWaiting) {
      ++lost_;
      return;
    }
    waiting_.push_back(event);
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
    v1::Event event;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (stopping_) return;
      event = std::move(waiting_.front());
      waiting_.pop_front();
      telling_ = true;
    }
    const absl::Status told =
        client_
            .Create(kube::Collection(Events(), event.namespace_()), EventObject(event, instance_),
                    {.field_manager = kFieldManager}, stop)
            .status();
    // One whose first answer was lost is there.
    const bool lost = !told.ok() && !absl::IsAlreadyExists(told);
    if (lost)
      log::Info("an Event could not be told", {{"event", event.reason()}, {"error", told.ToString()}});
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
  const std::string reason = event.reason().substr(0, kLongestWord);
  Json object = {
      {"apiVersion", Events().ApiVersion()},
      {"kind", Events().kind},
      {"metadata",
       {{"namespace", event.namespace_()}, {"name", absl::StrFormat("%s.%x", event.job(), event.id())}}},
      {"eventTime", kube::MicroTimeText(time)},
      {"reportingController", "adaptdl.petuum.com/supervisor"},
      {"reportingInstance", instance.substr(0, kLongestWord)},
      {"action", reason},
      {"reason", reason},
      {"type", event.type() == v1::EVENT_TYPE_WARNING ? "Warning" : "Normal"},
      {"note", ToUtf8(event.message(), kLongestNote)},
      {"regarding",
       {{"apiVersion", AdaptDLJobs().ApiVersion()},
        {"kind", AdaptDLJobs().kind},
        {"namespace", event.namespace_()},
        {"name", event.job()},
        {"uid", event.job_uid()}}}};
  // The API counts from two.
  if (event.count() > 1) {
    object["series"] = {{"count", event.count()}, {"lastObservedTime", kube::MicroTimeText(time)}};
  }
  return object;
}

}  // namespace adaptdl::supervisor
