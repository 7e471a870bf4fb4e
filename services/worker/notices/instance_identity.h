// What a cloud calls a machine, and where others in its network reach it, as its metadata service says. Plain values
// and functions; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_INSTANCE_IDENTITY_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_INSTANCE_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::worker {

struct InstanceIdentity {
  std::string instance_id;
  // An IP address.
  std::string address;
};

// Of two answers. INVALID_ARGUMENT: one of them is not what it is to be; else the error of one.
absl::StatusOr<InstanceIdentity> ReadIdentity(const absl::StatusOr<std::string>& instance_id,
                                              const absl::StatusOr<std::string>& address);

// A name that a cloud gave a machine: 1 to 128 characters that can be seen. INVALID_ARGUMENT: it is none.
absl::StatusOr<std::string> ReadName(absl::string_view text);

// The beginning of an answer, for messages and logs.
std::string Quoted(absl::string_view answer);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_INSTANCE_IDENTITY_H_
