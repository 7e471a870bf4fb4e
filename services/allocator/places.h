// Rules of where replicas may be placed, as the scheduler can keep to them: a resource that the nodes have which a rule
// admits, and no others, and of which each replica needs one. Rules that admit the same nodes share a resource; those
// that admit all need none.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_PLACES_H_
#define ADAPTDL_SERVICES_ALLOCATOR_PLACES_H_

#include <map>
#include <string>
#include <vector>

#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/placement.pb.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::allocator {

class Places {
 public:
  // Nodes of the view, and what is known of them, in the same order. Both outlive it.
  Places(std::vector<const v1::Node*> known, std::vector<scheduling::NodeInfo>* nodes);

  // The resource that replicas with this rule need one of; nodes that it admits have it from now on. Empty: none.
  std::string ResourceFor(const v1::Placement& placement);

 private:
  std::string NameFor(const v1::Placement& placement, const std::vector<bool>& admitted);

  const std::vector<const v1::Node*> known_;
  std::vector<scheduling::NodeInfo>& nodes_;
  bool tainted_ = false;
  // By rule, as it is encoded, and by the nodes that are admitted.
  std::map<std::string, std::string> by_rule_;
  std::map<std::vector<bool>, std::string> by_nodes_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_PLACES_H_
