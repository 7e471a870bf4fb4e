#include "services/supervisor/kubernetes/quotas/quota_watch.h"

#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/kube/json/object.h"
#include "libs/service/log.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/kubernetes/store/quota_object.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::util::MessageDifferencer;

}  // namespace

QuotaWatch::QuotaWatch(QuotaWatchParts parts, const QuotaWatchOptions& options)
    : parts_(std::move(parts)), objects_({.parse = [](const kube::Json& object) { return object; }}) {
  objects_.AddHandler([this](const auto& change) { Mark(change.key.name_space); });
  kube::ReflectorOptions reflector;
  reflector.report = options.report;
  reflector_ = std::make_unique<kube::Reflector>(
      parts_.client, kube::Collection(AdaptDLQuotas(), options.name_space), reflector, &objects_);
}

void QuotaWatch::Mark(const std::string& name_space) {
  MutexLock lock(&mutex_);
  marked_.insert(name_space);
}

bool QuotaWatch::AwaitSynced(const std::stop_token& stop) {
  if (!objects_.AwaitSynced(stop)) return false;
  Step();
  return true;
}

void QuotaWatch::MarkOrphans() {
  if (std::exchange(looked_for_orphans_, true)) return;
  for (const v1::NamespaceQuota& quota :
       parts_.core->index().QuotasAfter("", std::numeric_limits<size_t>::max())) {
    Mark(quota.namespace_());
  }
}

void QuotaWatch::Step() {
  if (!objects_.synced()) return;
  MarkOrphans();
  std::set<std::string> marked;
  {
    MutexLock lock(&mutex_);
    marked.swap(marked_);
  }
  for (const std::string& name_space : marked) {
    const absl::Status status = Follow(name_space);
    if (status.ok()) continue;
    Mark(name_space);
    log::Warning("what an AdaptDLQuota says can't be taken over; it is tried again",
                 {{"namespace", name_space}, {"error", status.ToString()}});
  }
}

absl::Status QuotaWatch::Follow(const std::string& name_space) {
  const auto object = objects_.Find({name_space, kQuotaName});
  if (object == nullptr || kube::IsBeingDeleted(*object)) return TakeOver(name_space, std::nullopt);
  const absl::StatusOr<v1::NamespaceQuota> quota = ReadQuota(*object);
  if (quota.ok()) return TakeOver(name_space, *quota);
  Refuse(*object, quota.status());
  return absl::OkStatus();
}

absl::Status QuotaWatch::TakeOver(const std::string& name_space,
                                  const std::optional<v1::NamespaceQuota>& quota) {
  return parts_.core->Update([&](Transaction* transaction) {
    parts_.seen(name_space, quota);
    const auto& known = transaction->base().quotas;
    const auto before = known.find(name_space);
    if (!quota.has_value()) {
      if (before != known.end()) transaction->DeleteQuota(name_space);
    } else if (before == known.end() || !MessageDifferencer::Equals(before->second, *quota)) {
      transaction->PutQuota(*quota);
    }
    return absl::OkStatus();
  });
}

void QuotaWatch::Refuse(const kube::Json& object, const absl::Status& why) {
  const int64_t version = kube::IntegerAt(object, {"metadata", "generation"});
  int64_t& refused = refused_.try_emplace(kube::UidOf(object), -1).first->second;
  if (std::exchange(refused, version) == version) return;
  parts_.refuse(object, std::string(why.message()));
}

}  // namespace adaptdl::supervisor
