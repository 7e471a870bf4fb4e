#include "services/worker/names.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::worker {
namespace {

bool IsAlphanumeric(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); }

}  // namespace

absl::Status CheckName(absl::string_view field, absl::string_view value, size_t max_length) {
  bool valid = !value.empty() && value.size() <= max_length && IsAlphanumeric(value[0]);
  for (const char c : value) valid = valid && (IsAlphanumeric(c) || c == '.' || c == '-');
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " \"", absl::CEscape(value.substr(0, 256)), "\" is not valid: it takes 1 to ",
                   max_length, " of the characters a-z, 0-9, '.' and '-', beginning with a letter or digit"));
}

absl::Status CheckReplicaId(absl::string_view replica_id) { return CheckName("replica_id", replica_id, 200); }

absl::Status CheckJobNames(absl::string_view job_namespace, absl::string_view job,
                           absl::string_view job_uid) {
  if (absl::Status status = CheckName("namespace", job_namespace, 63); !status.ok()) return status;
  if (absl::Status status = CheckName("job", job, 63); !status.ok()) return status;
  return CheckName("job_uid", job_uid, 64);
}

std::string JobFolderName(absl::string_view job_namespace, absl::string_view job, absl::string_view job_uid) {
  return absl::StrCat(job_namespace, "/", job, "-", job_uid);
}

}  // namespace adaptdl::worker
