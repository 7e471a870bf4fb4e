#include "services/worker/notices/azure_metadata.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::worker {
namespace {

using Json = nlohmann::json;

constexpr char kHeader[] = "Metadata: true";

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Azure compares names of resources without regard to case.
bool Concerns(const Json& event, const std::string& name) {
  const auto resources = event.find("Resources");
  if (resources == event.end() || !resources->is_array()) return false;
  return std::any_of(resources->begin(), resources->end(), [&](const Json& resource) {
    return resource.is_string() && absl::EqualsIgnoreCase(resource.get_ref<const std::string&>(), name);
  });
}

bool EndsWhatRuns(const std::string& type) {
  return type == "Preempt" || type == "Terminate" || type == "Reboot" || type == "Redeploy";
}

// "Mon, 19 Sep 2016 18:29:47 GMT"; of one that has begun: nothing.
absl::StatusOr<absl::Time> BeginOf(const Json& event, absl::Time now) {
  const std::string text = TextOf(event, "NotBefore");
  if (text.empty()) return now;
  absl::Time time;
  std::string error;
  if (absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", text, &time, &error) ||
      absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return std::max(time, now);
  }
  return absl::InvalidArgumentError(absl::StrCat("scheduledevents: NotBefore ", Quoted(text), " is no time"));
}

// Of several events the first.
absl::StatusOr<std::optional<Notice>> ReadEvents(const std::string& text, const std::string& name,
                                                 absl::Time now) {
  const Json answer = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto events = answer.is_object() ? answer.find("Events") : answer.end();
  if (!answer.is_object() || events == answer.end() || !events->is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat("scheduledevents: ", Quoted(text), " holds no list of events"));
  }
  std::optional<Notice> first;
  for (const Json& event : *events) {
    if (!event.is_object()) continue;
    const std::string type = TextOf(event, "EventType");
    if (!EndsWhatRuns(type) || !Concerns(event, name)) continue;
    const absl::StatusOr<absl::Time> begin = BeginOf(event, now);
    if (!begin.ok()) return begin.status();
    if (first.has_value() && first->deadline <= *begin) continue;
    first = Notice{.deadline = *begin, .reason = absl::StrCat("Azure takes the machine (", type, ")")};
  }
  return first;
}

}  // namespace

absl::StatusOr<std::optional<Notice>> AzureMetadata::Look(const std::stop_token& stop) {
  if (name_.empty()) {
    const absl::StatusOr<std::string> name = Get("compute/name", stop);
    if (!name.ok()) return name.status();
    absl::StatusOr<std::string> checked = ReadName(*name);
    if (!checked.ok()) return checked.status();
    name_ = *std::move(checked);
  }
  const absl::StatusOr<std::string> events =
      client_.Get("/metadata/scheduledevents?api-version=2020-07-01", {kHeader}, stop);
  if (!events.ok()) return events.status();
  return ReadEvents(*events, name_, clock_->Now());
}

absl::StatusOr<InstanceIdentity> AzureMetadata::Identify(const std::stop_token& stop) {
  const absl::StatusOr<std::string> id = Get("compute/vmId", stop);
  if (!id.ok()) return id.status();
  return ReadIdentity(id, Get("network/interface/0/ipv4/ipAddress/0/privateIpAddress", stop));
}

absl::StatusOr<std::string> AzureMetadata::Get(absl::string_view name, const std::stop_token& stop) {
  return client_.Get(absl::StrCat("/metadata/instance/", name, "?api-version=2021-02-01&format=text"),
                     {kHeader}, stop);
}

}  // namespace adaptdl::worker
