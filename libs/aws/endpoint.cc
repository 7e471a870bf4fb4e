#include "libs/aws/endpoint.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace adaptdl::aws {

std::string EndpointOf(absl::string_view service, absl::string_view region, absl::string_view override_url) {
  if (!override_url.empty()) return std::string(absl::StripSuffix(override_url, "/"));
  const absl::string_view domain = absl::StartsWith(region, "cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return absl::StrCat("https://", service, ".", region, ".", domain);
}

absl::Status CheckRegion(absl::string_view region) {
  for (const char c : region) {
    if (!absl::ascii_islower(static_cast<unsigned char>(c)) &&
        !absl::ascii_isdigit(static_cast<unsigned char>(c)) && c != '-') {
      return absl::InvalidArgumentError(
          absl::StrCat("region \"", region, "\" is no region of Amazon; write one such as eu-west-1"));
    }
  }
  if (!region.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("region is not set: write one such as eu-west-1, or set AWS_REGION");
}

}  // namespace adaptdl::aws
