// Tokens by which the replicas of a job that asks for it (v1::ReplicaTemplate.api_access) call this API: as a user of the
// job's namespace, and of no other.
//
// One is made of the secret of the group that a replica was launched in, and says nothing about that; so nothing is
// stored for it, and it is good as long as a replica of that launch lives, also where the job has changed its replicas in place.
// What the supervisor has not committed is not good yet.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_API_TOKENS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_API_TOKENS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "libs/base/mutex.h"
#include "libs/service/security/authority.h"
#include "services/supervisor/state/read_index.h"

namespace adaptdl::supervisor {

// "adaptdl_job.<uid>.<group>.<secret>".
std::string ApiToken(const std::string& job_uid, int64_t launch_group, const std::string& group_token);

class ApiTokens : public security::JobTokens {
 public:
  // From now on finds what is there; null: nothing any more. `index` outlives this, or the next call.
  void Attach(const ReadIndex* index);

  std::optional<security::Caller> Find(const std::string& token) const override;

 private:
  mutable Mutex mutex_;
  const ReadIndex* index_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_API_TOKENS_H_
