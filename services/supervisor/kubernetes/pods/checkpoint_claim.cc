#include "services/supervisor/kubernetes/pods/checkpoint_claim.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"
#include "services/supervisor/kubernetes/pods/pod.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

const kube::ResourceType kClaims = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
const kube::ResourceType kStorageClasses = {"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};

bool BringsItsOwnPlace(const v1::LaunchReplica& launch) {
  const auto& variables = launch.template_().env();
  return std::any_of(variables.begin(), variables.end(), [](const v1::EnvironmentVariable& variable) {
    return variable.name() == "ADAPTDL_CHECKPOINT_PATH";
  });
}

}  // namespace

std::string ClaimNameOf(const std::string& job_uid) { return absl::StrCat("adaptdl-", job_uid); }

Json MakeClaim(const v1::LaunchReplica& launch, const CheckpointClaimOptions& options) {
  const Json owner = {{"apiVersion", kubejobs::kApiVersion},
                      {"kind", kubejobs::kJobKind},
                      {"name", launch.job()},
                      {"uid", launch.job_uid()},
                      {"controller", true},
                      {"blockOwnerDeletion", true}};
  const Json labels = {{kubejobs::kReplicaLabel, "true"},
                       {kubejobs::kJobLabel, launch.job()},
                       {kubejobs::kJobUidLabel, launch.job_uid()}};
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata",
           {{"name", ClaimNameOf(launch.job_uid())},
            {"namespace", launch.namespace_()},
            {"labels", labels},
            {"ownerReferences", Json::array({owner})}}},
          {"spec",
           {{"accessModes", Json::array({"ReadWriteMany"})},
            {"storageClassName", options.storage_class},
            {"resources", {{"requests", {{"storage", options.size}}}}}}}};
}

void CheckpointClaims::Tell(const std::string& job_uid, const std::string& why) const {
  if (options_.tell != nullptr) options_.tell(job_uid, why);
}

absl::StatusOr<std::string> CheckpointClaims::Ensure(const v1::LaunchReplica& launch,
                                                     const std::stop_token& stop) {
  if (BringsItsOwnPlace(launch)) return "";
  if (options_.storage_class.empty()) {
    // Once for each set of replicas is enough.
    if (launch.rank() == 0) {
      Tell(launch.job_uid(),
           "no storage class is configured for checkpoints, so that they go with the pods; configure one, or "
           "set "
           "ADAPTDL_CHECKPOINT_PATH to a volume of the job's own");
    }
    return "";
  }
  const std::string name = ClaimNameOf(launch.job_uid());
  {
    MutexLock lock(&mutex_);
    if (made_.count(launch.job_uid()) > 0) return name;
  }
  const absl::Status status =
      client_
          .Create(kube::Collection(kClaims, launch.namespace_()), MakeClaim(launch, options_),
                  {.field_manager = kubejobs::kFieldManager}, stop)
          .status();
  if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
  MutexLock lock(&mutex_);
  made_.insert(launch.job_uid());
  return name;
}

absl::StatusOr<bool> CheckpointClaims::BindsAtOnce(const std::stop_token& stop) const {
  const absl::StatusOr<Json> found =
      client_.Get(kube::ObjectOf(kStorageClasses, {"", options_.storage_class}), stop);
  // Then a claim waits until there is one.
  if (absl::IsNotFound(found.status())) return true;
  if (!found.ok()) return found.status();
  return kube::TextAt(*found, {"volumeBindingMode"}) != "WaitForFirstConsumer";
}

absl::Status CheckpointClaims::Check(const std::stop_token& stop) {
  if (options_.storage_class.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<Json>> claims =
      client_.ListAll(kube::Collection(kClaims, options_.name_space), {.labels = kOurs}, stop);
  if (!claims.ok()) return claims.status();
  const absl::StatusOr<bool> binds_at_once = BindsAtOnce(stop);
  if (!binds_at_once.ok()) return binds_at_once.status();
  std::set<std::string> present;
  std::set<std::string> pending;
  for (const Json& claim : *claims) {
    const std::string uid = kube::LabelOf(claim, kubejobs::kJobUidLabel);
    present.insert(uid);
    if (*binds_at_once && kube::TextAt(claim, {"status", "phase"}) == "Pending") pending.insert(uid);
  }
  TellWaiting(pending);
  // One that was made since the list is made again, which does no harm.
  MutexLock lock(&mutex_);
  made_ = std::move(present);
  return absl::OkStatus();
}

void CheckpointClaims::TellWaiting(const std::set<std::string>& pending) {
  const absl::Time now = clock_.Steady();
  std::erase_if(waiting_, [&](const auto& entry) {
    const bool is_over = pending.count(entry.first) == 0;
    if (is_over && entry.second.is_told) Tell(entry.first, "");
    return is_over;
  });
  for (const std::string& uid : pending) {
    Waiting& waiting = waiting_.try_emplace(uid, Waiting{now}).first->second;
    if (waiting.is_told || now - waiting.since < options_.pending_deadline) continue;
    waiting.is_told = true;
    Tell(uid, absl::StrCat("the claim ", ClaimNameOf(uid),
                           " for its checkpoints waits for a volume of storage class ",
                           options_.storage_class, " that many nodes can write"));
  }
}

}  // namespace adaptdl::supervisor
