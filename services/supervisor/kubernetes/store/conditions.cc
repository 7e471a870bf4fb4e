#include "services/supervisor/kubernetes/store/conditions.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "libs/base/utf8.h"

namespace adaptdl::supervisor {
namespace {

using jobs::Phase;
using kube::Json;

// The API convention for a condition's message is 32,768; the whole of it stands in status.message.
constexpr size_t kLongestMessage = 1024;
constexpr size_t kLongestReason = 128;

struct Condition {
  const char* type;
  bool (*holds)(const JobRecord& record);
};

bool Runs(const JobRecord& record) {
  return record.state.phase == Phase::kRunning || record.state.phase == Phase::kRescaling;
}
bool IsSuspended(const JobRecord& record) {
  return record.state.suspended && record.state.phase == Phase::kPending;
}
bool HasSucceeded(const JobRecord& record) { return record.state.phase == Phase::kSucceeded; }
bool HasFailed(const JobRecord& record) {
  return record.state.phase == Phase::kFailed || record.state.phase == Phase::kCancelled;
}

constexpr std::array<Condition, 4> kConditions = {
    {{"Running", Runs}, {"Suspended", IsSuspended}, {"Succeeded", HasSucceeded}, {"Failed", HasFailed}}};

// A letter first, then letters and digits: the job's reason is such a word unless somebody has made it up.
bool IsReason(const std::string& text) {
  return !text.empty() && text.size() <= kLongestReason && absl::ascii_isalpha(text[0]) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isalnum(c); });
}

std::string SinceWhen(const Json& before, const std::string& type, const char* status, absl::Time now) {
  if (before.is_array()) {
    for (const Json& condition : before) {
      if (kube::TextAt(condition, {"type"}) != type || kube::TextAt(condition, {"status"}) != status)
        continue;
      std::string since = kube::TextAt(condition, {"lastTransitionTime"});
      if (kube::TimeFromText(since).ok()) return since;
    }
  }
  return kube::TimeText(now);
}

constexpr char kStorage[] = "CheckpointStorage";

// Null: it is not there.
Json StorageCondition(const Json& before, absl::Time now, const std::optional<std::string>& no_storage) {
  if (no_storage.has_value()) {
    const char* status = no_storage->empty() ? "True" : "False";
    return {{"type", kStorage},
            {"status", status},
            {"reason", no_storage->empty() ? "Bound" : "NoCheckpointStorage"},
            {"message", ToUtf8(*no_storage, kLongestMessage)},
            {"lastTransitionTime", SinceWhen(before, kStorage, status, now)}};
  }
  if (!before.is_array()) return nullptr;
  const auto found = std::find_if(before.begin(), before.end(), [](const Json& condition) {
    return kube::TextAt(condition, {"type"}) == kStorage;
  });
  return found == before.end() ? Json() : *found;
}

}  // namespace

Json ConditionsOf(const JobRecord& record, const Json& before, absl::Time now,
                  const std::optional<std::string>& no_storage) {
  Json conditions = Json::array();
  const std::string reason = record.state.phase == Phase::kCancelled ? "Cancelled" : record.state.reason;
  for (const auto& [type, holds] : kConditions) {
    const char* status = holds(record) ? "True" : "False";
    conditions.push_back({{"type", type},
                          {"status", status},
                          {"reason", IsReason(reason) ? reason : "Unknown"},
                          {"message", ToUtf8(record.state.message, kLongestMessage)},
                          {"lastTransitionTime", SinceWhen(before, type, status, now)}});
  }
  Json storage = StorageCondition(before, now, no_storage);
  if (!storage.is_null()) conditions.push_back(std::move(storage));
  return conditions;
}

}  // namespace adaptdl::supervisor
