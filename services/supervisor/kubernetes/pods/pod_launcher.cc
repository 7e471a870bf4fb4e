#include "services/supervisor/kubernetes/pods/pod_launcher.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/jobs/group_end.h"
#include "libs/kubejobs/names.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/kubernetes/pods/launch_error.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

const kube::ChangeOptions kByUs = {.field_manager = kubejobs::kFieldManager};

kube::ObjectKey ReplicaKey(const std::string& replica_id) { return {"", replica_id}; }

kube::Target TargetOf(const Pod& pod) { return kube::ObjectOf(kube::Pods(), pod.key); }

// Takes the place of a pod that is gone, or is another one by now.
absl::Status Gone(const Pod& pod) {
  return absl::NotFoundError(absl::StrCat("pod ", pod.key.ToString(), " is gone"));
}

// The kubelet has the grace period that is wanted, or less.
bool IsStopping(const Pod& pod, const std::optional<absl::Duration>& grace) {
  return pod.is_being_deleted && (!grace.has_value() || pod.deletion_grace <= *grace);
}

// It ended by a failure of its own: not as one does that was told to stop or has lost a peer, of which there may be
// any number.
bool HasFailed(const Pod& pod) {
  const v1::Replica& replica = pod.report.replica();
  const bool is_foreign = replica.end_cause() == v1::END_CAUSE_NODE ||
                          replica.end_cause() == v1::END_CAUSE_STORAGE ||
                          replica.end_cause() == v1::END_CAUSE_PREEMPTION;
  const bool is_bad = replica.exit_code() != 0 || replica.signal() != 0;
  return pod.HasEnded() && is_bad && replica.state() == v1::REPLICA_STATE_EXITED && !is_foreign &&
         replica.exit_code() != jobs::kExitStopped && replica.exit_code() != jobs::kExitPeerLost;
}

}  // namespace

PodLauncher::PodLauncher(const PodLauncherParts& parts, PodLauncherOptions options)
    : parts_(parts), options_(std::move(options)), queue_(parts.clock, options_.retries) {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Run(stop); });
  }
}

PodLauncher::~PodLauncher() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void PodLauncher::Launch(const std::string& node_id, const v1::LaunchReplica& launch) {
  orders_.Launch(node_id, launch);
  queue_.Add(ReplicaKey(launch.replica_id()));
}

void PodLauncher::Stop(const std::string& node_id, const v1::StopReplica& stop) {
  orders_.Stop(node_id, stop);
  queue_.Add(ReplicaKey(stop.replica_id()));
}

void PodLauncher::Acknowledge(const std::string& node_id, const std::string& replica_id) {
  orders_.Acknowledge(node_id, replica_id);
  queue_.Add(ReplicaKey(replica_id));
}

void PodLauncher::Reconsider(const std::string& replica_id) { queue_.Add(ReplicaKey(replica_id)); }

void PodLauncher::Run(const std::stop_token& stop) {
  // What is there has to be known before anything is taken for missing.
  if (!parts_.watch->AwaitSynced(stop)) return;
  while (const std::optional<kube::ObjectKey> key = queue_.Take(stop)) {
    PodOrder order = orders_.Take(key->name);
    const absl::Status status = CarryOut(key->name, &order, stop);
    orders_.GiveBack(key->name, std::move(order));
    if (status.ok()) {
      queue_.Done(*key);
      continue;
    }
    queue_.Retry(*key);
    if (options_.report != nullptr && !stop.stop_requested()) {
      options_.report(absl::StrCat("pod of replica ", key->name), status);
    }
  }
}

absl::Status PodLauncher::CarryOut(const std::string& replica_id, PodOrder* order,
                                   const std::stop_token& stop) {
  absl::Status status;
  if (order->launch.has_value()) {
    const bool wanted = !order->stop.has_value() && !order->acknowledged;
    status = wanted ? Make(order, stop) : Withdraw(replica_id, order);
  }
  if (status.ok() && order->stop.has_value()) status = Delete(replica_id, order, stop);
  if (status.ok() && order->acknowledged) status = Release(replica_id, order, stop);
  return status;
}

absl::Status PodLauncher::Make(PodOrder* order, const std::stop_token& stop) {
  const absl::StatusOr<Json> pod = MakeOrFind(*order, stop);
  if (pod.ok()) {
    parts_.watch->Expect(*pod);
  } else {
    const std::optional<v1::EndCause> cause = CauseOfRefusal(pod.status());
    if (!cause.has_value()) return pod.status();
    const absl::Status told = TellLost(
        *order, *cause, absl::StrCat("its pod can't be made: ", std::string(pod.status().message())));
    if (!told.ok()) return told;
  }
  order->launch.reset();
  return absl::OkStatus();
}

absl::StatusOr<Json> PodLauncher::MakeOrFind(const PodOrder& order, const std::stop_token& stop) {
  const v1::LaunchReplica& launch = *order.launch;
  const absl::StatusOr<std::string> claim = parts_.claims->Ensure(launch, stop);
  if (!claim.ok()) return claim.status();
  const absl::StatusOr<Json> pod = parts_.make_pod(order.node_id, launch, *claim);
  if (!pod.ok()) return pod.status();
  absl::StatusOr<Json> made =
      parts_.client->Create(kube::Collection(kube::Pods(), launch.namespace_()), *pod, kByUs, stop);
  return absl::IsAlreadyExists(made.status()) ? FindMade(launch, stop) : std::move(made);
}

absl::StatusOr<Json> PodLauncher::FindMade(const v1::LaunchReplica& launch, const std::stop_token& stop) {
  const kube::ObjectKey key = {launch.namespace_(), launch.replica_id()};
  absl::StatusOr<Json> found = parts_.client->Get(kube::ObjectOf(kube::Pods(), key), stop);
  // It has gone since.
  if (absl::IsNotFound(found.status())) return absl::AbortedError(found.status().message());
  if (found.ok() && kube::ControllerOf(*found).uid != launch.job_uid()) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is a pod ", key.ToString(), " already, and it is not this job's"));
  }
  return found;
}

absl::Status PodLauncher::Withdraw(const std::string& replica_id, PodOrder* order) {
  // Of an earlier try it may be there after all: then it is stopped as any other.
  if (order->stop.has_value() && parts_.watch->Find(replica_id) == nullptr) {
    const absl::Status told =
        TellLost(*order, v1::END_CAUSE_UNSPECIFIED, "it was stopped before its pod was made");
    if (!told.ok()) return told;
    order->stop.reset();
  }
  order->launch.reset();
  return absl::OkStatus();
}

absl::Status PodLauncher::Delete(const std::string& replica_id, PodOrder* order,
                                 const std::stop_token& stop) {
  std::optional<absl::Duration> grace;
  if (order->stop->has_grace_period()) grace = messages::ToDuration(order->stop->grace_period());
  const PodValue pod = parts_.watch->Find(replica_id);
  if (pod == nullptr) {
    parts_.watch->Reconcile(order->node_id);
  } else if (!pod->HasEnded() && !IsStopping(*pod, grace)) {
    if (parts_.output != nullptr) parts_.output->Follow(pod);
    const absl::Status status =
        parts_.client->Delete(TargetOf(*pod), {.uid = pod->uid, .grace_period = grace}, stop);
    // ABORTED: another one has its name by now.
    if (!status.ok() && !absl::IsNotFound(status) && !absl::IsAborted(status)) return status;
  }
  order->stop.reset();
  return absl::OkStatus();
}

absl::Status PodLauncher::Release(const std::string& replica_id, PodOrder* order,
                                  const std::stop_token& stop) {
  const PodValue pod = parts_.watch->Find(replica_id);
  absl::Status status = absl::OkStatus();
  if (pod != nullptr) {
    if (const absl::Duration wait = Detain(pod); wait > absl::ZeroDuration()) {
      queue_.AddAfter(ReplicaKey(replica_id), wait);
      return absl::OkStatus();
    }
    status = TakeOffFinalizer(*pod, stop);
    if (status.ok() && !pod->is_being_deleted && !IsKept(*pod)) {
      status = parts_.client->Delete(TargetOf(*pod), {.uid = pod->uid}, stop);
      if (absl::IsAborted(status)) status = Gone(*pod);
    }
  }
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  order->acknowledged = false;
  return absl::OkStatus();
}

absl::Duration PodLauncher::Detain(const PodValue& pod) const {
  const bool is_ours_to_hold = parts_.output != nullptr && pod->has_our_finalizer;
  return is_ours_to_hold ? parts_.output->Detain(pod) : absl::ZeroDuration();
}

absl::Status PodLauncher::TakeOffFinalizer(const Pod& pod, const std::stop_token& stop) {
  absl::Status status = TryTakeOffFinalizer(pod, stop);
  if (!absl::IsAborted(status)) return status;
  // It has changed since it was seen.
  const absl::StatusOr<Json> now = parts_.client->Get(TargetOf(pod), stop);
  if (!now.ok()) return now.status();
  if (kube::UidOf(*now) != pod.uid) return Gone(pod);
  return TryTakeOffFinalizer(ParsePod(*now), stop);
}

absl::Status PodLauncher::TryTakeOffFinalizer(const Pod& pod, const std::stop_token& stop) {
  if (!pod.has_our_finalizer) return absl::OkStatus();
  const Json patch = {
      {"metadata",
       {{"uid", pod.uid}, {"resourceVersion", pod.resource_version}, {"finalizers", pod.other_finalizers}}}};
  return parts_.client->MergePatch(TargetOf(pod), patch, kByUs, stop).status();
}

bool PodLauncher::IsKept(const Pod& pod) const {
  switch (options_.keep) {
    case KeepPods::kNone:
      return false;
    case KeepPods::kFailed:
      return HasFailed(pod);
    case KeepPods::kAll:
      return pod.HasEnded();
  }
  return false;
}

absl::Status PodLauncher::TellLost(const PodOrder& order, v1::EndCause cause, absl::string_view message) {
  const v1::LaunchReplica& launch = *order.launch;
  v1::ReplicaReport report;
  report.set_namespace_(launch.namespace_());
  report.set_job(launch.job());
  report.set_job_uid(launch.job_uid());
  v1::Replica* replica = report.mutable_replica();
  replica->set_replica_id(launch.replica_id());
  replica->set_group(launch.group());
  replica->set_rank(launch.rank());
  replica->set_node_id(order.node_id);
  return parts_.sink->ObserveReplica(order.node_id, Lost(std::move(report), cause, message));
}

}  // namespace adaptdl::supervisor
