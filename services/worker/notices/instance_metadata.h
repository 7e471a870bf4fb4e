// The metadata service of the cloud that a machine is one of.
//
// Thread-safety: not thread-safe; one thread at a time asks.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_INSTANCE_METADATA_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_INSTANCE_METADATA_H_

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/clock.h"
#include "services/worker/notices/instance_identity.h"
#include "services/worker/notices/notice_source.h"

namespace adaptdl::worker {

class InstanceMetadata : public NoticeSource {
 public:
  // An error: nobody could be asked, or what came is no answer.
  virtual absl::StatusOr<InstanceIdentity> Identify(const std::stop_token& stop) = 0;
};

enum class Cloud { kNone, kAws, kGcp, kAzure };

// For people, and for --instance-metadata: "none", "aws", "gcp", "azure".
absl::string_view CloudName(Cloud cloud);

// The cloud whose machine this is, by what its firmware says (/sys/class/dmi/id, given as `folder`): nobody is asked over
// the network, least of all at an address that means something else elsewhere.
Cloud FindCloud(const std::string& folder = "/sys/class/dmi/id");

// `kind`: "auto", or the name of a cloud. INVALID_ARGUMENT names --instance-metadata.
absl::StatusOr<Cloud> ParseCloud(absl::string_view kind);

// `url`: of the service; empty: the cloud's own. Null for kNone. `clock` outlives it.
std::unique_ptr<InstanceMetadata> MakeInstanceMetadata(Cloud cloud, const std::string& url,
                                                       const Clock* clock);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_INSTANCE_METADATA_H_
