#include "libs/kube/control/reflector.h"

#include <utility>

#include "absl/status/statusor.h"

namespace adaptdl::kube {

Reflector::Reflector(const Client* client, Target collection, ReflectorOptions options, ObjectSink* sink)
    : client_(*client),
      collection_(std::move(collection)),
      options_(std::move(options)),
      sink_(*sink),
      backoff_(options_.first_pause, options_.longest_pause),
      page_size_(options_.page_size),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Reflector::~Reflector() = default;  // the thread is stopped first

void Reflector::Report(const absl::Status& status) const {
  if (options_.report != nullptr) options_.report(status);
}

void Reflector::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const absl::Time begin = client_.session().clock().Steady();
    const std::string before = resource_version_;
    const absl::Status status = before.empty() ? List(stop) : Watch(stop);
    if (stop.stop_requested()) return;
    if (!status.ok()) Report(status);
    const bool lasted = client_.session().clock().Steady() - begin >= options_.good_watch;
    const bool told = !resource_version_.empty() && resource_version_ != before;
    // A list alone is no sign that all is well: the watch after it may fail each time.
    if (!before.empty() && (told || lasted)) backoff_.Reset();
    if (!told && !lasted) client_.session().pauses().WaitFor(backoff_.Next(), stop);
  }
}

absl::Status Reflector::List(const std::stop_token& stop) {
  std::set<ObjectKey> present;
  const absl::StatusOr<std::string> listed = client_.List(
      collection_, {.selection = options_.selection, .page_size = page_size_},
      [&](Json object) {
        present.insert(KeyOf(object));
        sink_.Put(std::move(object));
      },
      stop);
  // Pages that take longer than the server remembers: the next list comes in one.
  page_size_ = absl::IsOutOfRange(listed.status()) ? 0 : options_.page_size;
  if (!listed.ok()) return listed.status();
  if (listed->empty()) return absl::UnknownError("a list has no resourceVersion");
  sink_.Listed(present);
  resource_version_ = *listed;
  return absl::OkStatus();
}

absl::Status Reflector::Watch(const std::stop_token& stop) {
  const absl::Status status = kube::Watch(
      client_, collection_,
      {.selection = options_.selection,
       .resource_version = resource_version_,
       .timeout = options_.watch_timeout},
      [this](WatchEvent event) { Take(std::move(event)); }, stop);
  if (absl::IsOutOfRange(status) || absl::IsUnknown(status)) resource_version_.clear();
  return status;
}

void Reflector::Take(WatchEvent event) {
  const std::string version = ResourceVersionOf(event.object);
  if (!version.empty()) resource_version_ = version;
  switch (event.kind) {
    case WatchEventKind::kAdded:
    case WatchEventKind::kModified:
      return sink_.Put(std::move(event.object));
    case WatchEventKind::kDeleted:
      return sink_.Remove(std::move(event.object));
    case WatchEventKind::kBookmark:
      return;
  }
}

}  // namespace adaptdl::kube
