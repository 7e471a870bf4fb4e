#include "services/autoscaler/providers/aws/launch_request.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/endpoint.h"
#include "libs/aws/signature.h"

namespace adaptdl::autoscaler {
namespace {

using aws::Parameters;

// Of tags that EC2 takes for a machine; ours are four.
constexpr size_t kMaxTags = 40;
// Of a fleet's overrides.
constexpr size_t kMaxOverrides = 300;

absl::Status BadOption(absl::string_view field, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, " \"", value, "\": ", remedy));
}

std::map<std::string, std::string> TagsOf(const AwsPoolOptions& options) {
  std::map<std::string, std::string> tags = options.tags;
  tags[kClusterTag] = options.cluster;
  tags[kPoolTag] = options.pool;
  return tags;
}

void AddTags(const std::string& resource, int index, const std::map<std::string, std::string>& tags,
             Parameters* parameters) {
  const std::string prefix = absl::StrCat("TagSpecification.", index, ".");
  parameters->emplace_back(prefix + "ResourceType", resource);
  int k = 0;
  for (const auto& [name, value] : tags) {
    ++k;
    parameters->emplace_back(absl::StrCat(prefix, "Tag.", k, ".Key"), name);
    parameters->emplace_back(absl::StrCat(prefix, "Tag.", k, ".Value"), value);
  }
}

// Each type in each place.
void AddOverrides(const AwsPoolOptions& options, Parameters* parameters) {
  const bool by_subnet = !options.subnets.empty();
  std::vector<std::string> places = by_subnet ? options.subnets : options.zones;
  if (places.empty()) places = {""};
  std::vector<std::string> types = options.instance_types;
  if (types.empty()) types = {""};
  int index = 0;
  for (const std::string& type : types) {
    for (const std::string& place : places) {
      const std::string prefix = absl::StrCat("LaunchTemplateConfigs.1.Overrides.", ++index, ".");
      const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) parameters->emplace_back(prefix + name, value);
      };
      add("InstanceType", type);
      add(by_subnet ? "SubnetId" : "AvailabilityZone", place);
      if (options.spot) add("MaxPrice", options.max_price);
      if (!options.launch_template.empty()) add("ImageId", options.image);
    }
  }
}

absl::Status CheckTags(const std::map<std::string, std::string>& tags) {
  if (tags.size() > kMaxTags) return BadOption("tags", absl::StrCat(tags.size()), "at most 40 are possible");
  for (const auto& [name, value] : tags) {
    if (name.empty() || name.size() > 128 || absl::StartsWith(name, "aws:") ||
        absl::StartsWith(name, "adaptdl:"))
      return BadOption("tags", name,
                       "keys have 1 to 128 characters and begin with neither \"aws:\" nor \"adaptdl:\"");
    if (value.size() > 256) return BadOption("tags", name, "its value has more than 256 characters");
  }
  return absl::OkStatus();
}

absl::Status CheckFleetOptions(const AwsPoolOptions& options) {
  if (options.launch_template.empty() && options.image.empty())
    return BadOption("image", "", "name the machine image (ami-...), or a launch template that does");
  if (options.launch_template.empty() && options.instance_types.empty())
    return BadOption("instanceTypes", "",
                     "name at least one, such as g5.xlarge, or a launch template that does");
  if (!options.subnets.empty() && !options.zones.empty())
    return BadOption("zones", options.zones[0], "subnets say the zones already: leave one of the two out");
  const size_t places = std::max<size_t>(1, options.subnets.size() + options.zones.size());
  if (options.instance_types.size() * places > kMaxOverrides)
    return BadOption("instanceTypes", absl::StrCat(options.instance_types.size()),
                     "types times places are at most 300");
  double price = 0;
  if (!options.max_price.empty() && (!absl::SimpleAtod(options.max_price, &price) || !(price > 0)))
    return BadOption("maxPrice", options.max_price, "write USD per hour, such as 0.40");
  if (!options.max_price.empty() && !options.spot)
    return BadOption("maxPrice", options.max_price, "only spot machines have one: set spot, or leave it out");
  if (options.disk_gib < 0 || options.disk_gib > 65'536)
    return BadOption("disk", absl::StrCat(options.disk_gib), "write GiB from 1 to 65536");
  if (!options.launch_template.empty() && (!options.security_groups.empty() || !options.key_name.empty() ||
                                           !options.instance_profile.empty() || options.disk_gib != 0)) {
    return BadOption("launchTemplate", options.launch_template,
                     "it says the security groups, key, instance profile and disk: leave these out, or it");
  }
  return CheckWorkerLaunch(options.worker);
}

}  // namespace

absl::Status CheckAwsPoolOptions(const AwsPoolOptions& options) {
  if (options.pool.empty() || options.pool.size() > 50)
    return BadOption("pool", options.pool, "1 to 50 characters");
  if (options.cluster.empty() || options.cluster.size() > 64)
    return BadOption("cluster", options.cluster, "1 to 64 characters");
  if (options.state_dir.empty()) return BadOption("state folder", "", "name one");
  if (const absl::Status status = aws::CheckRegion(options.region); !status.ok()) return status;
  if (!options.endpoint.empty() && !absl::StartsWith(options.endpoint, "http://") &&
      !absl::StartsWith(options.endpoint, "https://")) {
    return BadOption("endpoint", options.endpoint, "write a URL such as http://127.0.0.1:5000");
  }
  if (const absl::Status status = CheckTags(options.tags); !status.ok()) return status;
  return options.auto_scaling_group.empty() ? CheckFleetOptions(options) : absl::OkStatus();
}

absl::StatusOr<Parameters> MakeLaunchTemplate(const AwsPoolOptions& options, const std::string& root_device) {
  const absl::StatusOr<std::string> user_data = MakeUserData(options.worker);
  if (!user_data.ok()) return user_data.status();
  Parameters data;
  const auto add = [&data](const char* name, const std::string& value) {
    if (!value.empty()) data.emplace_back(absl::StrCat("LaunchTemplateData.", name), value);
  };
  add("ImageId", options.image);
  add("KeyName", options.key_name);
  add(absl::StartsWith(options.instance_profile, "arn:") ? "IamInstanceProfile.Arn"
                                                         : "IamInstanceProfile.Name",
      options.instance_profile);
  for (size_t k = 0; k < options.security_groups.size(); ++k)
    add(absl::StrCat("SecurityGroupId.", k + 1).c_str(), options.security_groups[k]);
  if (options.disk_gib > 0) {
    add("BlockDeviceMapping.1.DeviceName", root_device);
    add("BlockDeviceMapping.1.Ebs.VolumeSize", absl::StrCat(options.disk_gib));
    add("BlockDeviceMapping.1.Ebs.VolumeType", "gp3");
    add("BlockDeviceMapping.1.Ebs.Encrypted", "true");
    add("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true");
  }
  // One hop: containers with a network of their own do not reach it. A token: nor does who can only make others ask.
  add("MetadataOptions.HttpEndpoint", "enabled");
  add("MetadataOptions.HttpTokens", "required");
  add("MetadataOptions.HttpPutResponseHopLimit", "1");
  // A machine that shuts itself down is gone.
  add("InstanceInitiatedShutdownBehavior", "terminate");
  add("UserData", absl::Base64Escape(*user_data));

  std::string content;
  for (const auto& [name, value] : data) absl::StrAppend(&content, name, "=", value, "\n");
  const std::string hash = aws::Sha256Hex(content).substr(0, 16);
  Parameters parameters = {
      {"LaunchTemplateName",
       absl::StrCat("adaptdl-", aws::Sha256Hex(options.cluster).substr(0, 8), "-", options.pool, "-", hash)}};
  AddTags("launch-template", 1, TagsOf(options), &parameters);
  parameters.insert(parameters.end(), data.begin(), data.end());
  return parameters;
}

std::string LaunchTemplateName(const Parameters& launch_template) { return launch_template.at(0).second; }

absl::StatusOr<Parameters> MakeFleet(const AwsPoolOptions& options, int count, const std::string& key,
                                     const std::string& launch_template) {
  Parameters parameters = {
      {"Type", "instant"},
      {"ClientToken", key},
      {"TargetCapacitySpecification.TotalTargetCapacity", absl::StrCat(count)},
      {"TargetCapacitySpecification.DefaultTargetCapacityType", options.spot ? "spot" : "on-demand"},
  };
  if (options.spot) {
    // Of the pools of spare machines, those that are least likely to be taken back and cheap.
    parameters.emplace_back("SpotOptions.AllocationStrategy", "price-capacity-optimized");
    parameters.emplace_back("SpotOptions.InstanceInterruptionBehavior", "terminate");
  } else {
    parameters.emplace_back("OnDemandOptions.AllocationStrategy", "lowest-price");
  }
  const std::string prefix = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.";
  if (!launch_template.empty()) {
    parameters.emplace_back(prefix + "LaunchTemplateName", launch_template);
    parameters.emplace_back(prefix + "Version", "1");
  } else {
    const bool by_id = absl::StartsWith(options.launch_template, "lt-");
    parameters.emplace_back(prefix + (by_id ? "LaunchTemplateId" : "LaunchTemplateName"),
                            options.launch_template);
    parameters.emplace_back(prefix + "Version", "$Default");
    const absl::StatusOr<std::string> user_data = MakeUserData(options.worker);
    if (!user_data.ok()) return user_data.status();
    parameters.emplace_back(prefix + "LaunchTemplateSpecificationUserData", absl::Base64Escape(*user_data));
  }
  AddOverrides(options, &parameters);
  std::map<std::string, std::string> tags = TagsOf(options);
  tags[kCreationTag] = key;
  AddTags("fleet", 1, tags, &parameters);
  tags["Name"] = absl::StrCat(options.cluster, "-", options.pool);
  AddTags("instance", 2, tags, &parameters);
  return parameters;
}

}  // namespace adaptdl::autoscaler
