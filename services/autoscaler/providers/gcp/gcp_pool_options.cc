#include "services/autoscaler/providers/gcp/gcp_pool_options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::autoscaler {
namespace {

absl::Status BadGcpOption(absl::string_view field, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, " \"", value, "\": ", remedy));
}

// They become parts of URLs. Projects may have a domain: "example.com:my-project".
bool IsResourceName(absl::string_view text, absl::string_view also = "") {
  return !text.empty() && text.size() <= 100 && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || absl::StrContains(also, c);
  });
}

}  // namespace

absl::Status CheckGcpPoolOptions(const GcpPoolOptions& options) {
  if (options.pool.empty() || options.pool.size() > 50)
    return BadGcpOption("pool", options.pool, "1 to 50 characters");
  if (options.state_dir.empty()) return BadGcpOption("state folder", "", "name one");
  if (!IsResourceName(options.project, ".:"))
    return BadGcpOption("gcp.project", options.project, "write the project's id, such as my-project");
  if (!IsResourceName(options.zone))
    return BadGcpOption("gcp.zone", options.zone, "write a zone such as europe-west4-a");
  if (!IsResourceName(options.instance_group))
    return BadGcpOption("gcp.instanceGroup", options.instance_group,
                        "write the name of a managed instance group");
  if (!options.endpoint.empty() && !absl::StartsWith(options.endpoint, "http://") &&
      !absl::StartsWith(options.endpoint, "https://"))
    return BadGcpOption("gcp.endpoint", options.endpoint, "write a URL such as http://127.0.0.1:5000");
  return absl::OkStatus();
}

}  // namespace adaptdl::autoscaler
