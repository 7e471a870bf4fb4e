// Jobs that are submitted through the API become AdaptDLJob objects. A request's id and content are annotations of the
// object, so that the same call once more finds what it has made, also after its supervisor's end.
//
// Thread-safe. Errors are the API server's, in its words.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_JOBS_OBJECT_REGISTRAR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_JOBS_OBJECT_REGISTRAR_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/jobs/job_registrar.h"

namespace adaptdl::supervisor {

class ObjectRegistrar final : public JobRegistrar {
 public:
  // `seen`: is told of each object as the API server has it then. `default_resources`: of containers (JobFromObject()).
  // The client outlives it.
  ObjectRegistrar(const kube::Client* client, std::function<void(const kube::Json&)> seen,
                  kube::Json default_resources = {})
      : client_(*client), seen_(std::move(seen)), default_resources_(std::move(default_resources)) {}

  absl::StatusOr<v1::Job> Create(const v1::Job& job, const std::string& generate_name,
                                 const RequestKey& key) override;
  absl::Status Update(const v1::Job& job) override;

 private:
  // The object that the request has made before. NOT_FOUND: it has made none.
  absl::StatusOr<kube::Json> FindMade(const v1::Job& job, const std::string& request) const;

  const kube::Client& client_;
  const std::function<void(const kube::Json&)> seen_;
  const kube::Json default_resources_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_JOBS_OBJECT_REGISTRAR_H_
