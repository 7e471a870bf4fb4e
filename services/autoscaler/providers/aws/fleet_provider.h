// Nodes that are machines of Amazon, made by EC2 Fleet (type "instant") and known by their tags.
//
// Ids of nodes are those of the machines. EC2 shows a new machine only after a while, and an answer may be lost: each creation is
// in a journal before EC2 is called, and is called again with the same token until it is answered (creation_journal.h). What was
// answered counts as requested until it is seen. So nothing is made twice, and nothing is left behind, whenever this
// program dies.
//
// A machine that EC2 takes back is never started again: it is stopping, then gone, and another one takes its place.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_FLEET_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_FLEET_PROVIDER_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/aws/query_api.h"
#include "services/autoscaler/providers/aws/aws_pool_options.h"
#include "services/autoscaler/providers/aws/ec2_instances.h"
#include "services/autoscaler/providers/machines/creation_journal.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

class FleetProvider final : public NodePoolProvider {
 public:
  // What `world` names outlives it. INVALID_ARGUMENT names the option that does not do. FAILED_PRECONDITION: another provider
  // uses the state folder.
  static absl::StatusOr<std::unique_ptr<FleetProvider>> Create(const AwsPoolOptions& options,
                                                               const aws::World& world);

  absl::string_view name() const override { return "aws"; }
  PoolKind kind() const override;
  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override;
  // RESOURCE_EXHAUSTED: EC2 has no capacity, or a quota of the account is used up.
  Created CreateNodes(int count, const std::set<std::string>& taken_ids) override;
  // UNIMPLEMENTED: no node is ever kDead.
  absl::Status RestartNode(const std::string& node_id) override;
  absl::Status TerminateNode(const std::string& node_id) override;

 private:
  FleetProvider(AwsPoolOptions options, const aws::World& world, std::unique_ptr<CreationJournal> journal);

  // Makes the launch template, unless it is there.
  absl::Status PrepareTemplate();
  // Calls EC2 for a creation that is in the journal, and notes the answer there.
  Created Call(Creation creation);
  // Calls again what was never answered, and notes what can be seen by now.
  absl::Status Reconcile(const std::vector<Ec2Instance>& instances);

  const AwsPoolOptions options_;
  const aws::World world_;
  aws::QueryApi ec2_;
  const std::unique_ptr<CreationJournal> journal_;
  // Name of the launch template that is known to be there. Empty: none yet, or it is the options' own.
  std::string template_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_FLEET_PROVIDER_H_
