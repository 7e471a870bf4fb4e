#include "cli/kubernetes/copy_pod.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/http/pauses.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"

namespace adaptdl::cli {
namespace {

using kube::At;
using kube::TextAt;

// Where the supervisor mounts the claims that it makes, by two of their folders.
constexpr char kCheckpointFolder[] = "/adaptdl/checkpoint";
constexpr char kShareFolder[] = "/adaptdl/share";
constexpr char kOwnVolume[] = "adaptdl-storage";
constexpr char kContainer[] = "files";
constexpr absl::Duration kLife = absl::Hours(1);
constexpr absl::Duration kPoll = absl::Milliseconds(250);

const kube::Json& MainContainer(const kube::Json& job) {
  static const kube::Json& none = *new kube::Json(nullptr);
  const kube::Json& containers = At(job, {"spec", "template", "spec", "containers"});
  return containers.is_array() && !containers.empty() ? containers.front() : none;
}

std::string VariableOf(const kube::Json& container, const std::string& name, const std::string& otherwise) {
  const kube::Json& variables = At(container, {"env"});
  if (!variables.is_array()) return otherwise;
  for (const kube::Json& variable : variables) {
    if (TextAt(variable, {"name"}) == name) return TextAt(variable, {"value"});
  }
  return otherwise;
}

void AddOwnClaim(const std::string& claim, JobStorage* storage) {
  storage->volumes.push_back({{"name", kOwnVolume}, {"persistentVolumeClaim", {{"claimName", claim}}}});
  for (const auto& [path, folder] :
       {std::pair(kCheckpointFolder, "checkpoint"), std::pair(kShareFolder, "share")}) {
    storage->mounts.push_back(
        {{"name", kOwnVolume}, {"mountPath", path}, {"subPath", folder}, {"readOnly", true}});
  }
}

// Those of the claims that the job's own template names.
void AddTemplateClaims(const kube::Json& job, JobStorage* storage) {
  std::set<std::string> names;
  const kube::Json& volumes = At(job, {"spec", "template", "spec", "volumes"});
  if (volumes.is_array()) {
    for (const kube::Json& volume : volumes) {
      if (!At(volume, {"persistentVolumeClaim"}).is_object()) continue;
      storage->volumes.push_back(volume);
      names.insert(TextAt(volume, {"name"}));
    }
  }
  const kube::Json& mounts = At(MainContainer(job), {"volumeMounts"});
  if (!mounts.is_array()) return;
  for (kube::Json mount : mounts) {
    if (!names.contains(TextAt(mount, {"name"}))) continue;
    mount["readOnly"] = true;
    storage->mounts.push_back(std::move(mount));
  }
}

// Why a pod does not run yet, as well as it says.
std::string WhyPending(const kube::Json& pod) {
  const kube::Json& containers = At(pod, {"status", "containerStatuses"});
  if (containers.is_array() && !containers.empty()) {
    const kube::Json& waiting = At(containers.front(), {"state", "waiting"});
    const std::string message = TextAt(waiting, {"message"});
    return absl::StrCat(TextAt(waiting, {"reason"}), message.empty() ? "" : ": ", message);
  }
  const kube::Json& conditions = At(pod, {"status", "conditions"});
  if (!conditions.is_array()) return "";
  for (const kube::Json& condition : conditions) {
    if (TextAt(condition, {"type"}) == "PodScheduled" && TextAt(condition, {"status"}) == "False") {
      return TextAt(condition, {"message"});
    }
  }
  return "";
}

}  // namespace

std::string OwnClaimName(const kube::Json& job) { return absl::StrCat("adaptdl-", kube::UidOf(job)); }

JobStorage StorageOf(const kube::Json& job, const std::string& own_claim) {
  JobStorage storage;
  AddTemplateClaims(job, &storage);
  if (!own_claim.empty()) AddOwnClaim(own_claim, &storage);
  storage.checkpoint_folder = VariableOf(MainContainer(job), "ADAPTDL_CHECKPOINT_PATH", kCheckpointFolder);
  storage.share_folder = VariableOf(MainContainer(job), "ADAPTDL_SHARE_PATH", kShareFolder);
  return storage;
}

absl::StatusOr<std::string> PathInPod(const JobStorage& storage, const std::string& path) {
  std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  if (!whole.is_absolute()) {
    const std::string head = whole.empty() ? "" : whole.begin()->string();
    if (head != "checkpoint" && head != "share") {
      return absl::InvalidArgumentError(
          absl::StrCat("the path ", path, " must begin with checkpoint/, share/ or /"));
    }
    whole = (std::filesystem::path(head == "share" ? storage.share_folder : storage.checkpoint_folder) /
             whole.lexically_relative(head))
                .lexically_normal();
  }
  std::string text = whole.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  std::vector<std::string> places;
  for (const kube::Json& mount : storage.mounts) {
    places.push_back(TextAt(mount, {"mountPath"}));
    while (places.back().size() > 1 && places.back().back() == '/') places.back().pop_back();
    if (text == places.back() || absl::StartsWith(text, absl::StrCat(places.back(), "/"))) return text;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      text, " is on none of the job's claims",
      places.empty() ? ": it has none" : absl::StrCat(", which are at ", absl::StrJoin(places, ", "))));
}

kube::Json MakeCopyPod(const kube::Json& job, const JobStorage& storage, const std::string& name,
                       const std::string& image) {
  const kube::ObjectKey key = kube::KeyOf(job);
  const kube::Json container = {
      {"name", kContainer},
      {"image", image},
      {"command", {"sleep", absl::StrCat(absl::ToInt64Seconds(kLife))}},
      {"volumeMounts", storage.mounts},
      {"resources", {{"requests", {{"cpu", "10m"}, {"memory", "16Mi"}}}}},
      {"securityContext", {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}};
  kube::Json spec = {{"containers", kube::Json::array({container})},
                     {"volumes", storage.volumes},
                     {"restartPolicy", "Never"},
                     {"terminationGracePeriodSeconds", 0},
                     {"automountServiceAccountToken", false}};
  // Whose the files are is the job's to say, and which nodes it may be on.
  for (const char* field : {"securityContext", "tolerations", "imagePullSecrets"}) {
    const kube::Json& value = At(job, {"spec", "template", "spec", field});
    if (!value.is_null()) spec[field] = value;
  }
  const kube::Json owner = {{"apiVersion", kubejobs::kApiVersion},
                            {"kind", kubejobs::kJobKind},
                            {"name", key.name},
                            {"uid", kube::UidOf(job)}};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", name},
            {"namespace", key.name_space},
            {"labels", {{"app.kubernetes.io/managed-by", "adaptdl-cp"}}},
            {"ownerReferences", kube::Json::array({owner})}}},
          {"spec", spec}};
}

absl::StatusOr<std::unique_ptr<CopyPod>> CopyPod::Start(const Cluster& cluster, const kube::Json& pod,
                                                        const std::function<void(const std::string&)>& note,
                                                        const std::stop_token& stop) {
  const kube::ObjectKey key = kube::KeyOf(pod);
  auto made = std::unique_ptr<CopyPod>(new CopyPod(cluster, key));
  absl::Status status = While(
      absl::StrCat("pod ", key.ToString()),
      cluster.client().Create(kube::Collection(kube::Pods(), key.name_space), pod, ByUs(), stop).status());
  if (status.ok()) status = made->WaitUntilItRuns(note, stop);
  if (status.ok()) return made;
  // One whose making failed may have been made.
  const absl::Status deleted = made->Delete();
  if (deleted.ok()) return status;
  return While(deleted.message(), status);
}

absl::Status CopyPod::WaitUntilItRuns(const std::function<void(const std::string&)>& note,
                                      const std::stop_token& stop) const {
  const RealPauses pauses;
  std::string told;
  while (true) {
    const absl::StatusOr<kube::Json> pod = cluster_.client().Get(kube::ObjectOf(kube::Pods(), key_), stop);
    if (!pod.ok()) return While(absl::StrCat("pod ", key_.ToString()), pod.status());
    const std::string phase = TextAt(*pod, {"status", "phase"});
    if (phase == "Running") return absl::OkStatus();
    if (phase == "Failed" || phase == "Succeeded") {
      return absl::FailedPreconditionError(absl::StrCat("pod ", key_.ToString(),
                                                        " has ended: ", TextAt(*pod, {"status", "reason"}),
                                                        " ", TextAt(*pod, {"status", "message"})));
    }
    const std::string why = WhyPending(*pod);
    if (!why.empty() && why != told) note(absl::StrCat("waiting for pod ", key_.ToString(), ": ", why));
    told = why;
    if (!pauses.WaitFor(kPoll, stop)) return absl::CancelledError("interrupted");
  }
}

absl::Status CopyPod::Copy(const std::string& from, const std::string& to,
                           const std::stop_token& stop) const {
  if (absl::Status status = cluster_.kubectl().Run(
          key_.name_space, {"cp", "-c", kContainer, absl::StrCat(key_.name, ":", from), to}, stop);
      !status.ok()) {
    return status;
  }
  // Which not every kubectl takes for a failure.
  if (std::filesystem::exists(std::filesystem::symlink_status(to))) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the job has no ", from));
}

absl::Status CopyPod::Delete() const {
  absl::Status status =
      cluster_.client().Delete(kube::ObjectOf(kube::Pods(), key_), {.grace_period = absl::ZeroDuration()});
  if (absl::IsNotFound(status)) return absl::OkStatus();
  return While(absl::StrCat("pod ", key_.ToString(), " could not be deleted, and ends by itself within ",
                            absl::FormatDuration(kLife)),
               status);
}

}  // namespace adaptdl::cli
