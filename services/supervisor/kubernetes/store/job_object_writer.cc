#include "services/supervisor/kubernetes/store/job_object_writer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/http/http_client.h"
#include "libs/kube/json/object.h"
#include "services/supervisor/kubernetes/store/object_types.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

// Others change metadata; not all the time.
constexpr int kMostTries = 3;
// Of one job, while the server does not answer.
constexpr size_t kMostAttempted = 16;

Json StatusIn(const Json& object) {
  const Json& status = kube::At(object, {"status"});
  return status.is_null() ? Json::object() : status;
}

kube::Target TargetOf(const Json& object) { return kube::ObjectOf(AdaptDLJobs(), kube::KeyOf(object)); }

// Whether the server has surely done nothing: it said so, or was not there.
bool SurelyNotDone(const absl::Status& error) {
  return NotConnected(error) || absl::IsInvalidArgument(error) || absl::IsUnauthenticated(error) ||
         absl::IsPermissionDenied(error) || absl::IsUnimplemented(error) || absl::IsResourceExhausted(error);
}

absl::Status NotWritten(const Json& object, const absl::Status& error) {
  const std::string text =
      absl::StrCat("AdaptDLJob ", kube::KeyOf(object).ToString(), ": ", error.ToString());
  return absl::IsInvalidArgument(error) ? absl::InternalError(text) : absl::UnavailableError(text);
}

void NoteAttempt(const Json& status, KnownObject* known) {
  if (known->attempted.size() >= kMostAttempted) known->attempted.erase(known->attempted.begin());
  known->attempted.push_back(status);
}

}  // namespace

KnownObject JustRead(std::shared_ptr<const Json> object) {
  Json status = StatusIn(*object);
  return {.object = std::move(object), .written = std::move(status)};
}

absl::Status JobObjectWriter::Write(const Json& status, KnownObject* known) const {
  absl::Status error;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const Json& object = *known->object;
    const Json patch = {{"metadata", {{"resourceVersion", kube::ResourceVersionOf(object)}}},
                        {"status", MergePatchOf(StatusIn(object), status)}};
    absl::StatusOr<Json> answer =
        client_.MergePatch(TargetOf(object).Sub("status"), patch, {.field_manager = kFieldManager});
    if (answer.ok()) {
      *known = JustRead(std::make_shared<const Json>(*std::move(answer)));
      return absl::OkStatus();
    }
    error = answer.status();
    if (SurelyNotDone(error)) return NotWritten(object, error);
    if (!absl::IsAborted(error) && !absl::IsNotFound(error)) NoteAttempt(status, known);
    const absl::StatusOr<Json> found = Read(object);
    if (absl::IsNotFound(found.status())) return found.status();
    if (!found.ok()) return NotWritten(object, found.status());
    const absl::Status judged = Judge(*found, status, known);
    if (absl::IsAlreadyExists(judged)) return absl::OkStatus();
    if (!judged.ok()) return judged;
  }
  return NotWritten(*known->object, error);
}

absl::StatusOr<Json> JobObjectWriter::Read(const Json& object) const {
  absl::StatusOr<Json> found = client_.Get(TargetOf(object));
  if (found.ok() && kube::UidOf(*found) != kube::UidOf(object)) {
    return absl::NotFoundError("there is another one of this name");
  }
  return found;
}

absl::Status JobObjectWriter::Judge(const Json& found, const Json& status, KnownObject* known) const {
  const Json stands = StatusIn(found);
  if (stands == status) {
    *known = JustRead(std::make_shared<const Json>(found));
    return absl::AlreadyExistsError("it was written");
  }
  if (kube::IntegerAt(stands, {"term"}) > lease_.term()) {
    return GiveUp(found, "it was written by a leader of a later term");
  }
  const bool ours = stands == known->written || std::find(known->attempted.begin(), known->attempted.end(),
                                                          stands) != known->attempted.end();
  if (!ours) return GiveUp(found, "its status is not as this supervisor has left it");
  const auto generation = [](const Json& object) {
    return kube::IntegerAt(object, {"metadata", "generation"});
  };
  if (generation(found) != generation(*known->object)) {
    return absl::AbortedError(absl::StrCat("AdaptDLJob ", kube::KeyOf(found).ToString(),
                                           ": its spec has changed meanwhile; try again"));
  }
  known->object = std::make_shared<const Json>(found);
  known->written = stands;
  return absl::OkStatus();
}

absl::Status JobObjectWriter::GiveUp(const Json& object, const std::string& why) const {
  const std::string text = absl::StrCat("AdaptDLJob ", kube::KeyOf(object).ToString(), ": ", why);
  lease_.GiveUp(text);
  return absl::UnavailableError(text);
}

absl::Status JobObjectWriter::Delete(const Json& object) const {
  const absl::Status deleted = client_.Delete(TargetOf(object), {.uid = kube::UidOf(object)});
  if (deleted.ok() || absl::IsNotFound(deleted)) return deleted;
  // Another one of its name.
  if (absl::IsAborted(deleted)) return absl::NotFoundError(deleted.message());
  if (SurelyNotDone(deleted)) return NotWritten(object, deleted);
  const absl::StatusOr<Json> found = Read(object);
  if (absl::IsNotFound(found.status())) return found.status();
  return found.ok() && kube::IsBeingDeleted(*found) ? absl::OkStatus() : NotWritten(object, deleted);
}

Json MergePatchOf(const Json& from, const Json& to) {
  if (!from.is_object() || !to.is_object()) return to;
  Json patch = Json::object();
  for (const auto& [name, value] : from.items()) {
    if (!to.contains(name)) patch[name] = nullptr;
  }
  for (const auto& [name, value] : to.items()) {
    const auto before = from.find(name);
    if (before == from.end()) {
      patch[name] = value;
    } else if (*before != value) {
      patch[name] = MergePatchOf(*before, value);
    }
  }
  return patch;
}

}  // namespace adaptdl::supervisor
