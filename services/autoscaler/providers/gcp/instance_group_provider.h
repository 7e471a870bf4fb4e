// Nodes that are machines of a managed instance group of Google Cloud, which is there already and whose template says what they
// are like.
//
// Machines are made by names of our own, and the names of a creation are in a journal before Google is called (creation_journal.h):
// a call that was not answered is made again, and makes nothing twice, as a name is made once. So nothing is made twice, and nothing
// is left behind, whenever this program dies. Ids of nodes are the machines' names; what the supervisor knows a machine by when
// it joins is the number that Google gives to it.
//
// A machine that Google takes back is made again by the group, under its name, with another number.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_INSTANCE_GROUP_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_INSTANCE_GROUP_PROVIDER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/gcp/rest_api.h"
#include "services/autoscaler/providers/gcp/gcp_pool_options.h"
#include "services/autoscaler/providers/gcp/instance_group.h"
#include "services/autoscaler/providers/machines/creation_journal.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

class InstanceGroupProvider final : public NodePoolProvider {
 public:
  // What `world` names outlives it. INVALID_ARGUMENT names the option that does not do. FAILED_PRECONDITION: another provider
  // uses the state folder.
  static absl::StatusOr<std::unique_ptr<InstanceGroupProvider>> Create(const GcpPoolOptions& options,
                                                                       const gcp::World& world);

  absl::string_view name() const override { return "gcp"; }
  PoolKind kind() const override { return {{{kPoolLabel, options_.pool}}, options_.node}; }
  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override;
  // RESOURCE_EXHAUSTED: a quota is used up. That the zone has no capacity is seen later: ListNodes() says so of the nodes that are
  // requested.
  Created CreateNodes(int count, const std::set<std::string>& taken_ids) override;
  // UNIMPLEMENTED: no node is ever kDead.
  absl::Status RestartNode(const std::string& node_id) override;
  absl::Status TerminateNode(const std::string& node_id) override;

 private:
  InstanceGroupProvider(GcpPoolOptions options, const gcp::World& world,
                        std::unique_ptr<CreationJournal> journal)
      : options_(std::move(options)),
        world_(world),
        api_({.url = options_.endpoint.empty() ? "https://compute.googleapis.com" : options_.endpoint,
              .patience = options_.patience},
             world),
        group_(options_, &api_),
        journal_(std::move(journal)) {}

  // Makes again the call that was never answered, and forgets what can be seen by now.
  absl::Status Reconcile(const std::vector<ManagedInstance>& instances);
  absl::Status ReconcileOne(const Creation& before, const std::set<std::string>& seen);
  // Calls Google for a creation that is in the journal, and notes the answer there.
  absl::Status Call(Creation creation);
  // Whether the work that a creation has begun came to nothing; notes why.
  absl::Status LookAtOperation(const Creation& creation);
  // Asks where machines are of which that is not known yet, so many a round.
  absl::Status AskForDetails(const std::vector<ManagedInstance>& instances);
  ProvidedNode NodeOfInstance(const ManagedInstance& instance) const;
  Created CreateSome(int count);
  // The one that is to make a machine which was not seen yet. Null: there is none. Good until the journal's next change.
  const Creation* CreationOfUnseen(const std::string& node_id) const;

  const GcpPoolOptions options_;
  const gcp::World world_;
  gcp::RestApi api_;
  const InstanceGroup group_;
  const std::unique_ptr<CreationJournal> journal_;
  // Of machines, by their numbers: it stays as it is.
  std::map<std::string, InstanceDetails> details_;
  // Why creations came to nothing, by their keys.
  std::map<std::string, std::string> failed_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_INSTANCE_GROUP_PROVIDER_H_
