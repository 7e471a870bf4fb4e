// Compute Engine's metadata server.
//
// Notices: instance/preempted (a spot VM that has 30 seconds left), and instance/maintenance-event where that means the
// end of the VM. It says for neither when: the time counts from the last look at which it had not come.
//
// Thread-safety: not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_GCP_METADATA_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_GCP_METADATA_H_

#include <optional>
#include <string>

#include "services/worker/notices/instance_metadata.h"
#include "services/worker/notices/metadata_client.h"

namespace adaptdl::worker {

class GcpMetadata final : public InstanceMetadata {
 public:
  GcpMetadata(const std::string& url, const Clock* clock) : client_(url), clock_(clock) {}

  absl::StatusOr<std::optional<Notice>> Look(const std::stop_token& stop) override;
  absl::StatusOr<InstanceIdentity> Identify(const std::stop_token& stop) override;

 private:
  // `name`: below /computeMetadata/v1/instance/.
  absl::StatusOr<std::string> Get(absl::string_view name, const std::stop_token& stop);
  // Of a VM that has so much time from its notice.
  absl::Time DeadlineOf(absl::Duration window, const Moment& now) const;

  MetadataClient client_;
  const Clock* const clock_;
  // When there was no notice last. Steady.
  absl::Time nothing_at_ = absl::InfinitePast();
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_GCP_METADATA_H_
