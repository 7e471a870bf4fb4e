// The secrets of jobs' groups, made of one key that all supervisors of a cluster share (a Secret): any of them knows each,
// and none is stored.
//
// Thread-safe. The key is never shown.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_GROUP_TOKENS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_GROUP_TOKENS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

class GroupTokens {
 public:
  // INVALID_ARGUMENT: the key has fewer than 32 bytes.
  static absl::StatusOr<GroupTokens> Create(std::string key);

  // HMAC-SHA256(key, "uid/group"), as 64 lower-case hexadecimal digits.
  std::string Token(const std::string& job_uid, int64_t group) const;

  // Gives the record those of its group and its plans, and those that its replicas may hold.
  void Fill(const std::vector<ReplicaRecord>& replicas, JobRecord* record) const;

 private:
  explicit GroupTokens(std::string key) : key_(std::move(key)) {}

  std::string key_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_GROUP_TOKENS_H_
