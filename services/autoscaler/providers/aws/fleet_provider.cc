#include "services/autoscaler/providers/aws/fleet_provider.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/aws/errors.h"
#include "libs/base/random_id.h"
#include "services/autoscaler/providers/aws/launch_request.h"

namespace adaptdl::autoscaler {
namespace {

// The machines that the answer names, and why they are fewer than wanted.
struct FleetAnswer {
  std::set<std::string> ids;
  absl::Status status;
};

FleetAnswer ReadFleet(const aws::XmlElement& answer, int wanted) {
  FleetAnswer read;
  for (const aws::XmlElement& set : answer.Items("fleetInstanceSet")) {
    for (const aws::XmlElement& id : set.Items("instanceIds")) read.ids.insert(id.Text());
  }
  if (static_cast<int>(read.ids.size()) >= wanted) return read;
  for (const aws::XmlElement& error : answer.Items("errorSet")) {
    read.status = aws::ErrorOfCode(error.Text("errorCode"), error.Text("errorMessage"));
    if (absl::IsResourceExhausted(read.status)) break;
  }
  if (read.status.ok())
    read.status = absl::ResourceExhaustedError(
        absl::StrCat("EC2 has made ", read.ids.size(), " of ", wanted, " machines"));
  return read;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FleetProvider>> FleetProvider::Create(const AwsPoolOptions& options,
                                                                     const aws::World& world) {
  if (const absl::Status status = CheckAwsPoolOptions(options); !status.ok()) return status;
  auto journal = CreationJournal::Open(options.state_dir + "/creations");
  if (!journal.ok()) return journal.status();
  return std::unique_ptr<FleetProvider>(new FleetProvider(options, world, *std::move(journal)));
}

FleetProvider::FleetProvider(AwsPoolOptions options, const aws::World& world,
                             std::unique_ptr<CreationJournal> journal)
    : options_(std::move(options)),
      world_(world),
      ec2_({.service = "ec2",
            .version = kEc2Version,
            .region = options_.region,
            .endpoint = options_.endpoint,
            .patience = options_.patience},
           world),
      journal_(std::move(journal)) {}

PoolKind FleetProvider::kind() const { return {{{kPoolLabel, options_.pool}}, options_.node}; }

absl::Status FleetProvider::Reconcile(const std::vector<Ec2Instance>& instances) {
  std::set<std::string> seen;
  std::map<std::string, std::set<std::string>> by_creation;
  for (const Ec2Instance& instance : instances) {
    seen.insert(instance.id);
    by_creation[instance.creation].insert(instance.id);
  }
  const std::map<std::string, Creation> open = journal_->open();
  for (const auto& [key, before] : open) {
    Creation creation = before;
    if (!creation.answered) {
      // Also where machines of it are there: how many it is to be is known by the token alone.
      const Created called = Call(creation);
      if (!called.status.ok() && journal_->open().contains(key) && !journal_->open().at(key).answered)
        return called.status;
      continue;
    }
    for (const std::string& id : seen) creation.unseen.erase(id);
    const bool is_over = creation.unseen.empty() || world_.clock->Now() - creation.time > kLongestUnseen;
    const absl::Status status = is_over                            ? journal_->Close(key)
                                : creation.unseen != before.unseen ? journal_->Write(creation)
                                                                   : absl::OkStatus();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProvidedNode>> FleetProvider::ListNodes() {
  const absl::StatusOr<std::vector<Ec2Instance>> instances =
      ListInstances(ec2_, {{kClusterTag, options_.cluster}, {kPoolTag, options_.pool}});
  if (!instances.ok()) return instances.status();
  if (const absl::Status status = Reconcile(*instances); !status.ok()) return status;
  std::map<std::string, ProvidedNode> nodes;
  for (const auto& [key, creation] : journal_->open()) {
    for (const std::string& id : creation.unseen) {
      ProvidedNode node{.node_id = id, .state = ProvidedState::kRequested};
      node.instance_id = id;
      node.create_time = creation.time;
      nodes[id] = std::move(node);
    }
  }
  for (const Ec2Instance& instance : *instances) {
    nodes.erase(instance.id);
    if (std::optional<ProvidedNode> node = ToProvidedNode(instance); node.has_value())
      nodes[instance.id] = *std::move(node);
  }
  std::vector<ProvidedNode> listed;
  for (auto& [id, node] : nodes) listed.push_back(std::move(node));
  return listed;
}

absl::Status FleetProvider::PrepareTemplate() {
  if (!options_.launch_template.empty() || !template_.empty()) return absl::OkStatus();
  std::string root_device;
  if (options_.disk_gib > 0) {
    const auto image = ec2_.Call(
        {.action = "DescribeImages", .parameters = {{"ImageId.1", options_.image}}, .may_repeat = true});
    if (!image.ok()) return image.status();
    for (const aws::XmlElement& item : image->Items("imagesSet")) root_device = item.Text("rootDeviceName");
    if (root_device.empty()) {
      return absl::NotFoundError(
          absl::StrCat("image ", options_.image, " is not there in ", options_.region, ": name one that is"));
    }
  }
  const absl::StatusOr<aws::Parameters> parameters = MakeLaunchTemplate(options_, root_device);
  if (!parameters.ok()) return parameters.status();
  // Its name says what is in it: one that is there is the right one.
  const absl::Status made =
      ec2_.Call({.action = "CreateLaunchTemplate", .parameters = *parameters, .may_repeat = true}).status();
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  template_ = LaunchTemplateName(*parameters);
  return absl::OkStatus();
}

NodePoolProvider::Created FleetProvider::Call(Creation creation) {
  const auto answer =
      ec2_.Call({.action = "CreateFleet", .parameters = creation.parameters, .may_repeat = true});
  if (!answer.ok()) {
    // Refused for good: nothing was made, and nothing will be.
    if (!aws::LeavesOpen(answer.status())) journal_->Close(creation.key).IgnoreError();
    return {{}, answer.status()};
  }
  const FleetAnswer fleet = ReadFleet(*answer, creation.count);
  creation.answered = true;
  creation.unseen = fleet.ids;
  const absl::Status noted = fleet.ids.empty() ? journal_->Close(creation.key) : journal_->Write(creation);
  // What could not be noted is called again, with the same token.
  if (!noted.ok()) return {{}, noted};
  return {{fleet.ids.begin(), fleet.ids.end()}, fleet.status};
}

NodePoolProvider::Created FleetProvider::CreateNodes(int count, const std::set<std::string>& /*taken_ids*/) {
  if (const absl::Status status = PrepareTemplate(); !status.ok()) return {{}, status};
  Creation creation{.key = RandomHex(16), .count = count, .time = world_.clock->Now()};
  absl::StatusOr<aws::Parameters> parameters = MakeFleet(options_, count, creation.key, template_);
  if (!parameters.ok()) return {{}, parameters.status()};
  creation.parameters = *std::move(parameters);
  if (const absl::Status status = journal_->Write(creation); !status.ok()) return {{}, status};
  return Call(std::move(creation));
}

absl::Status FleetProvider::RestartNode(const std::string& node_id) {
  return absl::UnimplementedError(absl::StrCat("machine ", node_id, " of EC2 is not started again"));
}

absl::Status FleetProvider::TerminateNode(const std::string& node_id) {
  const absl::Status status = TerminateInstances(ec2_, {node_id});
  if (!absl::IsNotFound(status)) return status;
  for (const auto& [key, creation] : journal_->open()) {
    if (creation.unseen.contains(node_id)) {
      return absl::UnavailableError(
          absl::StrCat("EC2 does not show machine ", node_id, " yet; it is ended when it does"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::autoscaler
