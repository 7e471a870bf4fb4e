// Azure's instance metadata service and its scheduled events.
//
// Notices: events of the types Preempt, Terminate, Reboot and Redeploy that name this machine: each ends what runs here.
// The list holds the events of all machines of a scale set.
//
// Thread-safety: not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_AZURE_METADATA_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_AZURE_METADATA_H_

#include <optional>
#include <string>

#include "services/worker/notices/instance_metadata.h"
#include "services/worker/notices/metadata_client.h"

namespace adaptdl::worker {

class AzureMetadata final : public InstanceMetadata {
 public:
  AzureMetadata(const std::string& url, const Clock* clock) : client_(url), clock_(clock) {}

  absl::StatusOr<std::optional<Notice>> Look(const std::stop_token& stop) override;
  absl::StatusOr<InstanceIdentity> Identify(const std::stop_token& stop) override;

 private:
  // A text of the instance; `name`: below /metadata/instance/.
  absl::StatusOr<std::string> Get(absl::string_view name, const std::stop_token& stop);

  MetadataClient client_;
  const Clock* const clock_;
  // What events call this machine. Empty: not asked for yet.
  std::string name_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_AZURE_METADATA_H_
