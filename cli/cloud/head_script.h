// The user data of a supervisor host: a script that cloud-init runs at the machine's first start.
//
// It makes the cluster's authority and the administrator's token on the machine itself, starts supervisor, allocator and
// autoscaler by systemd, and tells what a client needs on the console (announcement.h). There is nothing secret in it: who may look
// at machines of the account can read it.
//
// Plain function; thread-safe.

#ifndef ADAPTDL_CLI_CLOUD_HEAD_SCRIPT_H_
#define ADAPTDL_CLI_CLOUD_HEAD_SCRIPT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/cloud/cluster_file.h"

namespace adaptdl::cli {

// `recipient_certificate`: of RecipientKey. INVALID_ARGUMENT: it is larger than the 16 KiB that Amazon takes.
absl::StatusOr<std::string> MakeHeadScript(const ClusterFile& cluster,
                                           absl::string_view recipient_certificate);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLOUD_HEAD_SCRIPT_H_
