// EC2's instance metadata service, version 2: calls take a token, which a PUT gives.
//
// Notices: /latest/meta-data/spot/instance-action (two minutes before a spot instance is taken), and
// events/recommendations/rebalance (it is likely to be). Where there is none, it answers 404.
//
// Thread-safety: not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_AWS_METADATA_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_AWS_METADATA_H_

#include <optional>
#include <string>

#include "services/worker/notices/instance_metadata.h"
#include "services/worker/notices/metadata_client.h"

namespace adaptdl::worker {

class AwsMetadata final : public InstanceMetadata {
 public:
  AwsMetadata(const std::string& url, const Clock* clock) : client_(url), clock_(clock) {}

  absl::StatusOr<std::optional<Notice>> Look(const std::stop_token& stop) override;
  absl::StatusOr<InstanceIdentity> Identify(const std::stop_token& stop) override;

 private:
  // `name`: below /latest/meta-data/.
  absl::StatusOr<std::string> Get(absl::string_view name, const std::stop_token& stop);
  absl::Status RenewToken(const std::stop_token& stop);

  MetadataClient client_;
  const Clock* const clock_;
  std::string token_;
  // Steady.
  absl::Time token_end_ = absl::InfinitePast();
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_AWS_METADATA_H_
