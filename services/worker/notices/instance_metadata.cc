#include "services/worker/notices/instance_metadata.h"

#include <array>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "services/worker/notices/aws_metadata.h"
#include "services/worker/notices/azure_metadata.h"
#include "services/worker/notices/gcp_metadata.h"

namespace adaptdl::worker {
namespace {

constexpr int64_t kMaxDmi = 4096;
// What Azure's machines have for a chassis tag; their vendor is that of every machine under Hyper-V.
constexpr char kAzureTag[] = "7783-7084-3265-9085-8269-3286-77";
// Where all three have it.
constexpr char kServiceUrl[] = "http://169.254.169.254";

// Empty: the machine does not say.
std::string ReadDmi(const std::string& folder, absl::string_view name) {
  const absl::StatusOr<std::string> text = ReadWholeFile(absl::StrCat(folder, "/", name), kMaxDmi);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

}  // namespace

absl::string_view CloudName(Cloud cloud) {
  switch (cloud) {
    case Cloud::kNone:
      return "none";
    case Cloud::kAws:
      return "aws";
    case Cloud::kGcp:
      return "gcp";
    case Cloud::kAzure:
      return "azure";
  }
  return "none";
}

Cloud FindCloud(const std::string& folder) {
  // The older machines of AWS run under Xen, and say it in the version only.
  if (ReadDmi(folder, "sys_vendor") == "Amazon EC2" ||
      absl::EndsWith(ReadDmi(folder, "bios_version"), ".amazon")) {
    return Cloud::kAws;
  }
  if (ReadDmi(folder, "product_name") == "Google Compute Engine") return Cloud::kGcp;
  if (ReadDmi(folder, "chassis_asset_tag") == kAzureTag) return Cloud::kAzure;
  return Cloud::kNone;
}

absl::StatusOr<Cloud> ParseCloud(absl::string_view kind) {
  if (kind == "auto") return FindCloud();
  for (const Cloud cloud : std::array{Cloud::kNone, Cloud::kAws, Cloud::kGcp, Cloud::kAzure}) {
    if (kind == CloudName(cloud)) return cloud;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--instance-metadata \"", kind, "\" is not valid: give auto, aws, gcp, azure or none"));
}

std::unique_ptr<InstanceMetadata> MakeInstanceMetadata(Cloud cloud, const std::string& url,
                                                       const Clock* clock) {
  const std::string at = url.empty() ? kServiceUrl : url;
  switch (cloud) {
    case Cloud::kNone:
      return nullptr;
    case Cloud::kAws:
      return std::make_unique<AwsMetadata>(at, clock);
    case Cloud::kGcp:
      return std::make_unique<GcpMetadata>(at, clock);
    case Cloud::kAzure:
      return std::make_unique<AzureMetadata>(at, clock);
  }
  return nullptr;
}

}  // namespace adaptdl::worker
