// What EC2 is asked for: the parameters of the calls that make machines.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_LAUNCH_REQUEST_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_LAUNCH_REQUEST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/aws/query_api.h"
#include "services/autoscaler/providers/aws/aws_pool_options.h"

namespace adaptdl::autoscaler {

// Tags by which machines are found again: the cluster's name, the pool's, and the creation that a machine came from.
inline constexpr char kClusterTag[] = "adaptdl:cluster";
inline constexpr char kPoolTag[] = "adaptdl:pool";
inline constexpr char kCreationTag[] = "adaptdl:creation";

// INVALID_ARGUMENT names the field, its value and the remedy.
absl::Status CheckAwsPoolOptions(const AwsPoolOptions& options);

// Of CreateLaunchTemplate, for a pool without a launch template of a person's. Its name says what is in it: the same content
// has the same name. `root_device`: the image's name for its root disk; needed where disk_gib is set.
absl::StatusOr<aws::Parameters> MakeLaunchTemplate(const AwsPoolOptions& options,
                                                   const std::string& root_device);
// The name among these parameters.
std::string LaunchTemplateName(const aws::Parameters& launch_template);

// Of CreateFleet, for `count` machines. `key`: names the creation, and is the call's token. `launch_template`: the name of the
// one above; empty: the options' own.
absl::StatusOr<aws::Parameters> MakeFleet(const AwsPoolOptions& options, int count, const std::string& key,
                                          const std::string& launch_template);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_LAUNCH_REQUEST_H_
