// Makes the providers that a pool file asks for. Not thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDER_FACTORY_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDER_FACTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/kube/access/access.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/session.h"
#include "libs/poolfile/pool_file.h"
#include "services/autoscaler/providers/node_pool_provider.h"
#include "services/autoscaler/providers/process/process_provider.h"

namespace adaptdl::autoscaler {

// A way to a Kubernetes cluster.
class KubeWay {
 public:
  // `timeout`: of each call. A round that can't be is over soon; the next one tries again.
  static absl::StatusOr<std::unique_ptr<KubeWay>> Find(const kube::AccessOptions& access,
                                                       absl::Duration timeout);

  const kube::Client* client() const { return &client_; }

 private:
  explicit KubeWay(std::unique_ptr<kube::Session> session)
      : session_(std::move(session)), client_(session_.get()) {}

  const std::unique_ptr<kube::Session> session_;
  const kube::Client client_;
};

// What providers need that is the same for all pools.
struct ProviderFactoryOptions {
  // Of workers on this machine; pool, folder and what workers offer are filled in for each pool. Machines of clouds find the
  // supervisor by what is here, too, unless `advertised_supervisor` says otherwise.
  ProcessProviderOptions process;
  // host:port by which machines of clouds reach the supervisor, or several, separated by commas. Empty: as this program does.
  std::string advertised_supervisor;
  absl::Duration kube_timeout = absl::Seconds(5);
};

// Of a pool that is checked. The clock outlives what is made. INVALID_ARGUMENT names the field of the file.
absl::StatusOr<std::shared_ptr<NodePoolProvider>> MakeProvider(const ProviderFactoryOptions& options,
                                                               const poolfile::PoolFile& file,
                                                               const poolfile::Pool& pool, Clock* clock);

// The script by which a machine of the pool becomes a node of the cluster: what the template of a group is to hold as user data
// (Amazon) or startup script (Google). INVALID_ARGUMENT names the field of the file; FAILED_PRECONDITION: machines of that
// provider need none.
absl::StatusOr<std::string> UserDataOf(const ProviderFactoryOptions& options, const poolfile::Pool& pool);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDER_FACTORY_H_
