// Follows the AdaptDLQuota objects of a cluster: what others write there, by kubectl or as they keep a cluster in git,
// counts as if they had called, and with the object goes the quota. What we write comes back and changes nothing. An object
// that makes no sense is refused once, and what counted before stays.
//
// Owns a reflector; borrows its parts. Thread-safe, but for Step(), which one thread calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_QUOTAS_QUOTA_WATCH_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_QUOTAS_QUOTA_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/reflector.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

struct QuotaWatchParts {
  const kube::Client* client = nullptr;
  Core* core = nullptr;
  // Told, within the change that takes it over, what the namespace's object says; nothing: there is none.
  std::function<void(const std::string& name_space, const std::optional<v1::NamespaceQuota>&)> seen = nullptr;
  // Told of an object that makes no sense, and why.
  std::function<void(const kube::Json& object, const std::string& why)> refuse = nullptr;
};

struct QuotaWatchOptions {
  // Empty: objects of all namespaces.
  std::string name_space = {};
  std::function<void(const absl::Status&)> report = nullptr;
};

class QuotaWatch {
 public:
  // Begins.
  QuotaWatch(QuotaWatchParts parts, const QuotaWatchOptions& options);

  // Waits until all objects that there are count. False: a stop was requested first.
  bool AwaitSynced(const std::stop_token& stop);
  // Does what follows from what was seen.
  void Step();

 private:
  void Mark(const std::string& name_space);
  // Namespaces whose objects went while nobody looked.
  void MarkOrphans();
  absl::Status Follow(const std::string& name_space);
  absl::Status TakeOver(const std::string& name_space, const std::optional<v1::NamespaceQuota>& quota);
  void Refuse(const kube::Json& object, const absl::Status& why);

  const QuotaWatchParts parts_;
  // Used in Step() only: whether it has looked for orphans, and which version of an object, by uid, was refused.
  bool looked_for_orphans_ = false;
  std::map<std::string, int64_t> refused_;
  // Namespaces of whose objects one has changed.
  Mutex mutex_;
  std::set<std::string> marked_ ABSL_GUARDED_BY(mutex_);
  kube::Cache<kube::Json> objects_;
  // Begins when all that it uses is there, and ends before.
  std::unique_ptr<kube::Reflector> reflector_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_QUOTAS_QUOTA_WATCH_H_
