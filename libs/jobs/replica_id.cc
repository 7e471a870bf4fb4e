#include "libs/jobs/replica_id.h"

#include "absl/strings/str_cat.h"

namespace adaptdl::jobs {
namespace {

constexpr size_t kUidCharacters = 8;

absl::string_view ShortUid(absl::string_view uid) { return uid.substr(0, kUidCharacters); }

}  // namespace

std::string ReplicaIdPrefix(absl::string_view job, absl::string_view uid) {
  return absl::StrCat(job, "-", ShortUid(uid));
}

std::string ReplicaId(absl::string_view prefix, int64_t launch_group, int launch_rank) {
  return absl::StrCat(prefix, "-", launch_group, "-", launch_rank);
}

bool MayBeReplicaOf(absl::string_view replica_id, absl::string_view uid) {
  // The group and the rank come last, and the uid before them.
  absl::string_view prefix = replica_id;
  for (int part = 0; part < 2; ++part) {
    const size_t dash = prefix.rfind('-');
    if (dash == absl::string_view::npos) return false;
    prefix = prefix.substr(0, dash);
  }
  const size_t dash = prefix.rfind('-');
  return dash != absl::string_view::npos && !uid.empty() && prefix.substr(dash + 1) == ShortUid(uid);
}

}  // namespace adaptdl::jobs
