#include "services/autoscaler/providers/aws/ec2_instances.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/autoscaler/providers/aws/launch_request.h"

namespace adaptdl::autoscaler {
namespace {

Ec2Instance ToInstance(const aws::XmlElement& item) {
  Ec2Instance instance = {.id = item.Text("instanceId"), .state = item.Text("instanceState/name")};
  const std::string code = item.Text("stateReason/code");
  if (!code.empty()) instance.reason = absl::StrCat(code, ": ", item.Text("stateReason/message"));
  instance.address = item.Text("privateIpAddress");
  absl::Time time;
  if (absl::ParseTime(absl::RFC3339_full, item.Text("launchTime"), &time, nullptr))
    instance.launch_time = time;
  for (const aws::XmlElement& tag : item.Items("tagSet")) {
    if (tag.Text("key") == kCreationTag) instance.creation = tag.Text("value");
  }
  return instance;
}

}  // namespace

bool IsTakenBack(const Ec2Instance& instance) {
  const bool ends = instance.state != "pending" && instance.state != "running";
  return ends && absl::StartsWith(instance.reason, "Server.");
}

std::optional<ProvidedNode> ToProvidedNode(const Ec2Instance& instance) {
  if (instance.state == "terminated") return std::nullopt;
  ProvidedNode node = {.node_id = instance.id};
  node.state = instance.state == "running"   ? ProvidedState::kAlive
               : instance.state == "pending" ? ProvidedState::kRequested
                                             : ProvidedState::kStopping;
  if (IsTakenBack(instance)) node.hindrance = absl::StrCat("is taken back by EC2 (", instance.reason, ")");
  node.instance_id = instance.id;
  node.address = instance.address;
  node.create_time = instance.launch_time;
  return node;
}

absl::StatusOr<std::vector<Ec2Instance>> ListInstances(aws::QueryApi& ec2,
                                                       const std::vector<TagFilter>& tags) {
  aws::Parameters parameters = {{"MaxResults", "1000"}};
  for (size_t k = 0; k < tags.size(); ++k) {
    parameters.emplace_back(absl::StrCat("Filter.", k + 1, ".Name"), "tag:" + tags[k].first);
    parameters.emplace_back(absl::StrCat("Filter.", k + 1, ".Value.1"), tags[k].second);
  }
  std::vector<Ec2Instance> instances;
  const absl::Status status =
      aws::ForEachPage(ec2, {.call = {.action = "DescribeInstances", .parameters = std::move(parameters)}},
                       [&](const aws::XmlElement& page) {
                         for (const aws::XmlElement& reservation : page.Items("reservationSet")) {
                           for (const aws::XmlElement& item : reservation.Items("instancesSet"))
                             instances.push_back(ToInstance(item));
                         }
                       });
  if (!status.ok()) return status;
  // A page may show again what came on one before it.
  std::sort(instances.begin(), instances.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  instances.erase(std::unique(instances.begin(), instances.end(),
                              [](const auto& a, const auto& b) { return a.id == b.id; }),
                  instances.end());
  return instances;
}

absl::Status TerminateInstances(aws::QueryApi& ec2, const std::vector<std::string>& ids) {
  for (size_t begin = 0; begin < ids.size(); begin += kTerminateBatch) {
    aws::Parameters parameters;
    for (size_t k = begin; k < std::min(begin + kTerminateBatch, ids.size()); ++k)
      parameters.emplace_back(absl::StrCat("InstanceId.", k - begin + 1), ids[k]);
    const absl::Status status =
        ec2.Call({.action = "TerminateInstances", .parameters = std::move(parameters), .may_repeat = true})
            .status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::autoscaler
