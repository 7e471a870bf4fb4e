// Nodes that are machines of an Auto Scaling group, which is there already and says what they are like; it is resized.
//
// What is asked of a group is how many machines it is to have altogether. So that nothing is made twice, and nothing is lost, whenever
// this program dies: that number is in a journal before Amazon is called (creation_journal.h), and counts until the group shows
// it. A number that was not answered is asked for again. What the group is to have beyond the machines that it has are nodes that
// are requested, without an id of Amazon's: "<pool>-requested-<k>".
//
// A machine that goes is named, and the group is told to make no other in its place. Only where a request is taken back does the
// number alone become smaller; so that Amazon can't end a machine of its own choice then, that is done only with machines that
// are protected from it ("scale-in protection").
//
// A machine that Amazon takes back is replaced by the group itself: what is to come in its place is a requested node at once.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_GROUP_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_GROUP_PROVIDER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/aws/query_api.h"
#include "services/autoscaler/providers/aws/aws_pool_options.h"
#include "services/autoscaler/providers/aws/scaling_group.h"
#include "services/autoscaler/providers/machines/creation_journal.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

class GroupProvider final : public NodePoolProvider {
 public:
  // What `world` names outlives it. INVALID_ARGUMENT names the option that does not do. FAILED_PRECONDITION: another provider
  // uses the state folder.
  static absl::StatusOr<std::unique_ptr<GroupProvider>> Create(const AwsPoolOptions& options,
                                                               const aws::World& world);

  absl::string_view name() const override { return "aws"; }
  PoolKind kind() const override;
  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override;
  // RESOURCE_EXHAUSTED: the group may not be larger. FAILED_PRECONDITION: it does not protect its machines. That Amazon has no
  // capacity is seen later: ListNodes() says so of the nodes that are requested.
  Created CreateNodes(int count, const std::set<std::string>& taken_ids) override;
  // UNIMPLEMENTED: no node is ever kDead.
  absl::Status RestartNode(const std::string& node_id) override;
  // FAILED_PRECONDITION: the group may not be smaller.
  absl::Status TerminateNode(const std::string& node_id) override;

 private:
  // The group, and its machines as nodes.
  struct View {
    ScalingGroupState group;
    std::map<std::string, ProvidedNode> nodes;
    // Machines that the group is to have, as it says or as it was told last.
    int desired = 0;
    // Those of them that are still to come.
    int missing = 0;
  };

  GroupProvider(AwsPoolOptions options, const aws::World& world, std::unique_ptr<CreationJournal> journal);

  absl::StatusOr<View> Look();
  // Asks again for what was never answered, and forgets what the group shows by now.
  absl::Status Reconcile(const ScalingGroupState& group);
  // Asks for what the journal says, and notes the answer there.
  absl::Status Call(Creation creation);
  // One machine fewer is to be there than what the journal says.
  absl::Status ExpectOneFewer();
  // Takes a request back.
  absl::Status Withdraw(const View& view);
  absl::StatusOr<std::string> Hindrance() const;
  std::string RequestId(int index) const;

  const AwsPoolOptions options_;
  const aws::World world_;
  aws::QueryApi ec2_;
  aws::QueryApi autoscaling_;
  const ScalingGroup group_;
  const std::unique_ptr<CreationJournal> journal_;
  // When more machines were asked for last. By the wall clock.
  absl::Time grown_at_ = absl::InfinitePast();
  // Machines that were told to end: the group may show it late, and is not to be told twice.
  std::set<std::string> ended_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_GROUP_PROVIDER_H_
