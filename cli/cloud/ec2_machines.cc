#include "cli/cloud/ec2_machines.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adaptdl::cli {
namespace {

using aws::Parameters;
using aws::XmlElement;

constexpr char kEc2Version[] = "2016-11-15";
constexpr size_t kBatch = 100;
constexpr int64_t kGib = int64_t{1} << 30;

Machine ToMachine(const XmlElement& item) {
  Machine machine{.id = item.Text("instanceId"),
                  .state = item.Text("instanceState/name"),
                  .type = item.Text("instanceType"),
                  .private_address = item.Text("privateIpAddress"),
                  .public_address = item.Text("ipAddress")};
  absl::Time time;
  if (absl::ParseTime(absl::RFC3339_full, item.Text("launchTime"), &time, nullptr))
    machine.launch_time = time;
  for (const XmlElement& tag : item.Items("tagSet")) {
    if (tag.Text("key") == kPoolTag) machine.pool = tag.Text("value");
    if (tag.Text("key") == kRoleTag) machine.is_head = tag.Text("value") == kHeadRole;
  }
  return machine;
}

// Whether a rule lets somebody in at the port.
bool Covers(const XmlElement& rule, int port) {
  const std::string protocol = rule.Text("ipProtocol");
  const bool somebody = !rule.Items("ipRanges").empty() || !rule.Items("groups").empty() ||
                        !rule.Items("ipv6Ranges").empty() || !rule.Items("prefixListIds").empty();
  if (!somebody) return false;
  return protocol == "-1" ||
         (protocol == "tcp" && rule.Integer("fromPort") <= port && port <= rule.Integer("toPort"));
}

void AddTags(const std::string& cluster, const std::string& resource, int index, Parameters* parameters) {
  const std::string prefix = absl::StrCat("TagSpecification.", index, ".");
  const std::pair<const char*, std::string> tags[] = {
      {kClusterTag, cluster}, {kRoleTag, kHeadRole}, {"Name", absl::StrCat(cluster, "-head")}};
  parameters->emplace_back(prefix + "ResourceType", resource);
  int k = 0;
  for (const auto& [name, value] : tags) {
    ++k;
    parameters->emplace_back(absl::StrCat(prefix, "Tag.", k, ".Key"), name);
    parameters->emplace_back(absl::StrCat(prefix, "Tag.", k, ".Value"), value);
  }
}

}  // namespace

Ec2Machines::Ec2Machines(Ec2Options options, const aws::World& world)
    : options_(std::move(options)),
      ec2_({.service = "ec2",
            .version = kEc2Version,
            .region = options_.region,
            .endpoint = options_.endpoint},
           world) {}

void Ec2Machines::Tell(const std::string& action, const Parameters& parameters) const {
  if (!options_.dry_run) return;
  options_.tell(
      absl::StrCat(action, parameters.empty() ? "" : " ",
                   absl::StrJoin(parameters, " ",
                                 [](std::string* out, const std::pair<std::string, std::string>& parameter) {
                                   absl::StrAppend(out, parameter.first, "=", parameter.second);
                                 })));
}

absl::StatusOr<XmlElement> Ec2Machines::Read(const std::string& action, Parameters parameters) {
  Tell(action, parameters);
  return ec2_.Call({.action = action, .parameters = std::move(parameters), .may_repeat = true});
}

absl::StatusOr<std::optional<XmlElement>> Ec2Machines::Change(const std::string& action,
                                                              Parameters parameters) {
  Tell(action, parameters);
  if (options_.dry_run) return std::nullopt;
  absl::StatusOr<XmlElement> answer =
      ec2_.Call({.action = action, .parameters = std::move(parameters), .may_repeat = true});
  if (!answer.ok()) return answer.status();
  return *std::move(answer);
}

Parameters Ec2Machines::OfCluster() const {
  return {{"Filter.1.Name", absl::StrCat("tag:", kClusterTag)}, {"Filter.1.Value.1", options_.cluster}};
}

absl::StatusOr<std::vector<Machine>> Ec2Machines::List() {
  std::vector<Machine> machines;
  Parameters parameters = OfCluster();
  parameters.emplace_back("MaxResults", "1000");
  Tell("DescribeInstances", parameters);
  const absl::Status status = aws::ForEachPage(
      ec2_,
      {.call = {.action = "DescribeInstances", .parameters = std::move(parameters), .may_repeat = true}},
      [&](const XmlElement& page) {
        for (const XmlElement& reservation : page.Items("reservationSet")) {
          for (const XmlElement& item : reservation.Items("instancesSet"))
            machines.push_back(ToMachine(item));
        }
      });
  if (!status.ok()) return status;
  std::sort(machines.begin(), machines.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  // A page may show again what came on one before it.
  machines.erase(std::unique(machines.begin(), machines.end(),
                             [](const auto& a, const auto& b) { return a.id == b.id; }),
                 machines.end());
  return machines;
}

absl::Status Ec2Machines::CheckSecurityGroups(const HeadOptions& head) {
  Parameters parameters;
  for (size_t k = 0; k < head.security_groups.size(); ++k)
    parameters.emplace_back(absl::StrCat("GroupId.", k + 1), head.security_groups[k]);
  const absl::StatusOr<XmlElement> answer = Read("DescribeSecurityGroups", std::move(parameters));
  if (!answer.ok()) return answer.status();
  for (const XmlElement& group : answer->Items("securityGroupInfo")) {
    for (const XmlElement& rule : group.Items("ipPermissions")) {
      if (Covers(rule, head.port)) return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("head.securityGroups ", absl::StrJoin(head.security_groups, ", "),
                   ": none of them lets anybody in at TCP port ", head.port,
                   ": add a rule for your address and one for the workers' group"));
}

absl::StatusOr<std::string> Ec2Machines::RunHead(const HeadOptions& head, const std::string& token,
                                                 const std::string& user_data) {
  std::string root_device;
  if (head.disk_bytes > 0) {
    const absl::StatusOr<XmlElement> image = Read("DescribeImages", {{"ImageId.1", head.image}});
    if (!image.ok()) return image.status();
    for (const XmlElement& item : image->Items("imagesSet")) root_device = item.Text("rootDeviceName");
    if (root_device.empty())
      return absl::NotFoundError(absl::StrCat("head.image ", head.image, " is not there in ", options_.region,
                                              ": name one that is"));
  }
  Parameters parameters = {{"ImageId", head.image}, {"InstanceType", head.instance_type},
                           {"MinCount", "1"},       {"MaxCount", "1"},
                           {"ClientToken", token},  {"SubnetId", head.subnet}};
  for (size_t k = 0; k < head.security_groups.size(); ++k)
    parameters.emplace_back(absl::StrCat("SecurityGroupId.", k + 1), head.security_groups[k]);
  parameters.emplace_back(
      absl::StartsWith(head.instance_profile, "arn:") ? "IamInstanceProfile.Arn" : "IamInstanceProfile.Name",
      head.instance_profile);
  if (!head.key_name.empty()) parameters.emplace_back("KeyName", head.key_name);
  if (head.disk_bytes > 0) {
    const std::string prefix = "BlockDeviceMapping.1.";
    parameters.emplace_back(prefix + "DeviceName", root_device);
    parameters.emplace_back(prefix + "Ebs.VolumeSize", absl::StrCat((head.disk_bytes + kGib - 1) / kGib));
    parameters.emplace_back(prefix + "Ebs.VolumeType", "gp3");
    parameters.emplace_back(prefix + "Ebs.Encrypted", "true");
    parameters.emplace_back(prefix + "Ebs.DeleteOnTermination", "true");
  }
  parameters.emplace_back("MetadataOptions.HttpEndpoint", "enabled");
  parameters.emplace_back("MetadataOptions.HttpTokens", "required");
  parameters.emplace_back("MetadataOptions.HttpPutResponseHopLimit", "1");
  AddTags(options_.cluster, "instance", 1, &parameters);
  AddTags(options_.cluster, "volume", 2, &parameters);
  parameters.emplace_back("UserData", absl::Base64Escape(user_data));
  const auto answer = Change("RunInstances", std::move(parameters));
  if (!answer.ok()) return answer.status();
  if (!answer->has_value()) return std::string();
  for (const XmlElement& item : (*answer)->Items("instancesSet")) return item.Text("instanceId");
  return absl::InternalError("RunInstances has answered without a machine; look at the account's machines");
}

absl::StatusOr<std::string> Ec2Machines::ConsoleOf(const std::string& id) {
  const auto answer = Read("GetConsoleOutput", {{"InstanceId", id}, {"Latest", "true"}});
  if (!answer.ok()) return answer.status();
  std::string encoded = answer->Text("output");
  encoded.erase(
      std::remove_if(encoded.begin(), encoded.end(), [](unsigned char c) { return absl::ascii_isspace(c); }),
      encoded.end());
  std::string text;
  if (absl::Base64Unescape(encoded, &text)) return text;
  return absl::UnavailableError(absl::StrCat("EC2 has answered no console output of ", id));
}

absl::Status Ec2Machines::Terminate(const std::vector<std::string>& ids) {
  for (size_t begin = 0; begin < ids.size(); begin += kBatch) {
    Parameters parameters;
    for (size_t k = begin; k < std::min(begin + kBatch, ids.size()); ++k)
      parameters.emplace_back(absl::StrCat("InstanceId.", k - begin + 1), ids[k]);
    const absl::Status status = Change("TerminateInstances", std::move(parameters)).status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Ec2Machines::Volumes() {
  const auto answer = Read("DescribeVolumes", OfCluster());
  if (!answer.ok()) return answer.status();
  std::vector<std::string> ids;
  for (const XmlElement& item : answer->Items("volumeSet")) ids.push_back(item.Text("volumeId"));
  return ids;
}

absl::StatusOr<std::vector<std::string>> Ec2Machines::LaunchTemplates() {
  const auto answer = Read("DescribeLaunchTemplates", OfCluster());
  if (!answer.ok()) return answer.status();
  std::vector<std::string> names;
  for (const XmlElement& item : answer->Items("launchTemplates"))
    names.push_back(item.Text("launchTemplateName"));
  return names;
}

absl::Status Ec2Machines::DeleteLaunchTemplate(const std::string& name) {
  return Change("DeleteLaunchTemplate", {{"LaunchTemplateName", name}}).status();
}

}  // namespace adaptdl::cli
