#include "services/autoscaler/providers/aws/group_provider.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/errors.h"
#include "libs/base/random_id.h"
#include "services/autoscaler/providers/aws/ec2_instances.h"
#include "services/autoscaler/providers/aws/launch_request.h"

namespace adaptdl::autoscaler {
namespace {

// The tag that Amazon gives to machines of a group.
constexpr char kGroupTag[] = "aws:autoscaling:groupName";
// Of the record of a creation: what the group was asked to have.
constexpr char kDesired[] = "DesiredCapacity";
// The group tries on; a failure that is older says nothing of now.
constexpr absl::Duration kFailureCounts = absl::Minutes(15);
// Amazon's times are whole seconds of its own clock.
constexpr absl::Duration kClocksDiffer = absl::Seconds(5);

aws::QueryApiOptions ApiOf(const AwsPoolOptions& options, const char* service, const char* version) {
  return {.service = service,
          .version = version,
          .region = options.region,
          .endpoint = options.endpoint,
          .patience = options.patience};
}

int DesiredOf(const Creation& creation) {
  int desired = 0;
  for (const auto& [name, value] : creation.parameters) {
    if (name == kDesired) (void)absl::SimpleAtoi(value, &desired);
  }
  return desired;
}

void SetDesiredOf(Creation* creation, int desired) {
  creation->parameters = {{kDesired, absl::StrCat(desired)}};
}

// A machine of the group as a node; `ec2`: as EC2 knows it, if it does. None: it is gone.
std::optional<ProvidedNode> NodeOfMember(const GroupInstance& member, const Ec2Instance* ec2) {
  ProvidedNode node = {.node_id = member.id, .state = ProvidedState::kRequested};
  node.instance_id = member.id;
  if (ec2 != nullptr) {
    const std::optional<ProvidedNode> known = ToProvidedNode(*ec2);
    if (!known.has_value()) return std::nullopt;
    node = *known;
  }
  if (node.state == ProvidedState::kStopping) return node;
  switch (member.membership) {
    case GroupMembership::kPending:
      node.state = ProvidedState::kRequested;
      break;
    case GroupMembership::kInService:
      break;
    case GroupMembership::kTerminating:
      node.state = ProvidedState::kStopping;
      break;
    case GroupMembership::kStandby:
      node.state = ProvidedState::kReleased;
      break;
  }
  return node;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupProvider>> GroupProvider::Create(const AwsPoolOptions& options,
                                                                     const aws::World& world) {
  if (const absl::Status status = CheckAwsPoolOptions(options); !status.ok()) return status;
  auto journal = CreationJournal::Open(options.state_dir + "/creations");
  if (!journal.ok()) return journal.status();
  return std::unique_ptr<GroupProvider>(new GroupProvider(options, world, *std::move(journal)));
}

GroupProvider::GroupProvider(AwsPoolOptions options, const aws::World& world,
                             std::unique_ptr<CreationJournal> journal)
    : options_(std::move(options)),
      world_(world),
      ec2_(ApiOf(options_, "ec2", kEc2Version), world),
      autoscaling_(ApiOf(options_, "autoscaling", kAutoScalingVersion), world),
      group_(options_.auto_scaling_group, &autoscaling_),
      journal_(std::move(journal)) {}

PoolKind GroupProvider::kind() const { return {{{kPoolLabel, options_.pool}}, options_.node}; }

std::string GroupProvider::RequestId(int index) const {
  return absl::StrCat(options_.pool, "-requested-", index);
}

absl::Status GroupProvider::Reconcile(const ScalingGroupState& group) {
  const std::map<std::string, Creation> open = journal_->open();
  for (const auto& [key, creation] : open) {
    // Whoever was away for long decides anew: the number is one of another time.
    const bool is_over =
        group.desired >= DesiredOf(creation) || world_.clock->Now() - creation.time > kLongestUnseen;
    absl::Status status;
    if (is_over) {
      status = journal_->Close(key);
    } else if (!creation.answered) {
      status = Call(creation);
      // Refused for good: the group is as it shows.
      if (!journal_->open().contains(key)) status = absl::OkStatus();
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status GroupProvider::Call(Creation creation) {
  const absl::Status status = group_.SetDesired(DesiredOf(creation));
  if (!status.ok()) {
    if (!aws::LeavesOpen(status)) journal_->Close(creation.key).IgnoreError();
    return status;
  }
  grown_at_ = world_.clock->Now();
  creation.answered = true;
  return journal_->Write(creation);
}

absl::StatusOr<GroupProvider::View> GroupProvider::Look() {
  absl::StatusOr<ScalingGroupState> group = group_.Describe();
  if (!group.ok()) return group.status();
  if (const absl::Status status = Reconcile(*group); !status.ok()) return status;
  const absl::StatusOr<std::vector<Ec2Instance>> machines =
      ListInstances(ec2_, {{kGroupTag, options_.auto_scaling_group}});
  if (!machines.ok()) return machines.status();
  std::map<std::string, const Ec2Instance*> known;
  for (const Ec2Instance& machine : *machines) known[machine.id] = &machine;

  View view;
  int held = 0;
  std::set<std::string> still_ended;
  for (GroupInstance& member : group->instances) {
    const auto machine = known.find(member.id);
    if (ended_.contains(member.id)) {
      still_ended.insert(member.id);
      member.membership = GroupMembership::kTerminating;
    }
    std::optional<ProvidedNode> node =
        NodeOfMember(member, machine == known.end() ? nullptr : machine->second);
    // One that ends without having been told is replaced by the group, whether it knows that yet or not.
    const bool counts = node.has_value() &&
                        (node->state == ProvidedState::kAlive || node->state == ProvidedState::kRequested);
    held += counts ? 1 : 0;
    if (node.has_value()) view.nodes[member.id] = *std::move(node);
  }
  ended_ = std::move(still_ended);
  view.desired = group->desired;
  for (const auto& [key, creation] : journal_->open())
    view.desired = std::max(view.desired, DesiredOf(creation));
  view.missing = std::max(0, view.desired - held);
  view.group = *std::move(group);
  return view;
}

absl::StatusOr<std::string> GroupProvider::Hindrance() const {
  const absl::StatusOr<std::optional<LaunchFailure>> failure = group_.LastLaunchFailure();
  if (!failure.ok()) return failure.status();
  if (!failure->has_value()) return "";
  const absl::Time since = std::max(grown_at_ - kClocksDiffer, world_.clock->Now() - kFailureCounts);
  return (*failure)->time < since ? "" : (*failure)->why;
}

absl::StatusOr<std::vector<ProvidedNode>> GroupProvider::ListNodes() {
  absl::StatusOr<View> view = Look();
  if (!view.ok()) return view.status();
  std::string hindrance;
  if (view->missing > 0) {
    absl::StatusOr<std::string> found = Hindrance();
    if (!found.ok()) return found.status();
    hindrance = *std::move(found);
  }
  for (int k = 0; k < view->missing; ++k) {
    const std::string id = RequestId(k);
    view->nodes[id] = {.node_id = id, .state = ProvidedState::kRequested, .hindrance = hindrance};
  }
  std::vector<ProvidedNode> listed;
  for (auto& [id, node] : view->nodes) listed.push_back(std::move(node));
  return listed;
}

NodePoolProvider::Created GroupProvider::CreateNodes(int count, const std::set<std::string>& /*taken_ids*/) {
  const absl::StatusOr<View> view = Look();
  if (!view.ok()) return {{}, view.status()};
  const std::string& group = group_.name();
  if (!view->group.protects_new) {
    return {{},
            absl::FailedPreconditionError(absl::StrCat(
                "Auto Scaling group ", group,
                " does not protect its machines from scale-in: Amazon would choose which of them end. Set "
                "NewInstancesProtectedFromScaleIn, and SetInstanceProtection of those that are there"))};
  }
  const int grow = std::min(count, std::max(0, view->group.max_size - view->desired));
  Created created;
  if (grow < count) {
    created.status = absl::ResourceExhaustedError(absl::StrCat(
        "Auto Scaling group ", group, " has ", view->desired, " machines to be and MaxSize ",
        view->group.max_size, ", ", count, " more are wanted: raise MaxSize, or lower maxNodes"));
  }
  if (grow == 0) return created;
  Creation creation{.key = RandomHex(16), .count = grow, .time = world_.clock->Now()};
  SetDesiredOf(&creation, view->desired + grow);
  if (const absl::Status status = journal_->Write(creation); !status.ok()) return {{}, status};
  if (const absl::Status status = Call(std::move(creation)); !status.ok()) return {{}, status};
  for (int k = 0; k < grow; ++k) created.node_ids.push_back(RequestId(view->missing + k));
  return created;
}

absl::Status GroupProvider::RestartNode(const std::string& node_id) {
  return absl::UnimplementedError(absl::StrCat("machine ", node_id, " of EC2 is not started again"));
}

absl::Status GroupProvider::ExpectOneFewer() {
  const std::map<std::string, Creation> open = journal_->open();
  for (const auto& [key, before] : open) {
    Creation creation = before;
    SetDesiredOf(&creation, DesiredOf(before) - 1);
    if (const absl::Status status = journal_->Write(creation); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status GroupProvider::Withdraw(const View& view) {
  // It has come meanwhile; the next look shows it.
  if (view.missing == 0) return absl::OkStatus();
  for (const GroupInstance& member : view.group.instances) {
    if (member.is_protected || member.membership == GroupMembership::kTerminating) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "a request is not taken back from Auto Scaling group ", group_.name(), ": its machine ", member.id,
        " is not protected from scale-in, and could be ended instead. Set its SetInstanceProtection"));
  }
  // Before the call: a number that is too low for a while does no harm, one that is too high would ask again.
  if (const absl::Status status = ExpectOneFewer(); !status.ok()) return status;
  return group_.SetDesired(view.desired - 1);
}

absl::Status GroupProvider::TerminateNode(const std::string& node_id) {
  const absl::StatusOr<View> view = Look();
  if (!view.ok()) return view.status();
  const auto node = view->nodes.find(node_id);
  const bool is_request = absl::StartsWith(node_id, options_.pool + "-requested-");
  if (node == view->nodes.end() && !is_request) return absl::OkStatus();
  if (!is_request && node->second.state == ProvidedState::kStopping) return absl::OkStatus();
  if (!is_request && node->second.state == ProvidedState::kReleased) {
    return absl::FailedPreconditionError(
        absl::StrCat("machine ", node_id, " is in standby: put it in service again, or end it yourself"));
  }
  if (view->desired <= view->group.min_size) {
    return absl::FailedPreconditionError(
        absl::StrCat("Auto Scaling group ", group_.name(), " has MinSize ", view->group.min_size,
                     " and as many machines to be: lower MinSize, or raise minNodes"));
  }
  if (is_request) return Withdraw(*view);
  if (const absl::Status status = ExpectOneFewer(); !status.ok()) return status;
  const absl::Status status = group_.Terminate(node_id);
  if (status.ok()) ended_.insert(node_id);
  return status;
}

}  // namespace adaptdl::autoscaler
