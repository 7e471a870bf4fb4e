#include "libs/service/strangers.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::service {

void Strangers::Enter(Id id, const std::string& host, std::function<void(const absl::Status& why)> end) {
  MutexLock lock(&mutex_);
  if (places_.size() >= options_.most) MakeRoom();
  Queue& queue = hosts_[host];
  queue.push_back({id, std::move(end), std::nullopt});
  places_[id] = {host, std::prev(queue.end())};
}

void Strangers::Leave(Id id) {
  MutexLock lock(&mutex_);
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  const auto host = hosts_.find(place->second.host);
  host->second.erase(place->second.stranger);
  if (host->second.empty()) hosts_.erase(host);
  places_.erase(place);
}

void Strangers::EndFirst(std::map<std::string, Queue>::iterator host, const absl::Status& why) {
  const Stranger& first = host->second.front();
  places_.erase(first.id);
  first.end(why);
  host->second.pop_front();
}

void Strangers::MakeRoom() {
  const auto largest = std::max_element(hosts_.begin(), hosts_.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (largest == hosts_.end()) return;
  EndFirst(largest, absl::ResourceExhaustedError(
                        absl::StrCat("too many others have connected and said nothing, ",
                                     largest->second.size(), " of them from this host; try again later")));
  if (largest->second.empty()) hosts_.erase(largest);
}

void Strangers::Step(absl::Time now) {
  MutexLock lock(&mutex_);
  for (auto host = hosts_.begin(); host != hosts_.end();) {
    Queue& queue = host->second;
    while (!queue.empty() && queue.front().since.has_value() &&
           now - *queue.front().since >= options_.patience) {
      EndFirst(host, absl::DeadlineExceededError(
                         absl::StrCat("nothing was said for ", absl::FormatDuration(options_.patience),
                                      "; say first who you are, as soon as you have connected")));
    }
    // The newest ones, which no step has seen before.
    for (auto it = queue.rbegin(); it != queue.rend() && !it->since.has_value(); ++it) it->since = now;
    host = queue.empty() ? hosts_.erase(host) : std::next(host);
  }
}

size_t Strangers::size() const {
  MutexLock lock(&mutex_);
  return places_.size();
}

std::string HostOf(const std::string& peer) {
  if (absl::StartsWith(peer, "unix")) return "unix";
  return peer.substr(0, peer.rfind(':'));
}

}  // namespace adaptdl::service
