// Where a service of Amazon is reached.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_AWS_ENDPOINT_H_
#define ADAPTDL_LIBS_AWS_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adaptdl::aws {

// "https://ec2.eu-west-1.amazonaws.com". `override_url`, if it is not empty, is what is answered, without a slash at its end.
std::string EndpointOf(absl::string_view service, absl::string_view region, absl::string_view override_url);

// INVALID_ARGUMENT names the problem: a region's name is a part of addresses.
absl::Status CheckRegion(absl::string_view region);

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_ENDPOINT_H_
