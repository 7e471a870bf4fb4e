// Nodes that go away, or are likely to: what a notice makes of a node, and what its jobs are told. Pure functions on what
// they are given; thread-safe.
//
// A node that is likely to leave drains, too, but keeps what it runs until there is room elsewhere, or a notice comes that
// is certain. To the allocator, which decides that, it has the taint kLikelyToLeave (libs/jobspec/placement.h).

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_LEAVING_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_LEAVING_H_

#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "services/supervisor/replicas/report_limiter.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

// Whether it has been said when the node goes away.
bool IsLeaving(const v1::Node& node);

// Whether the node drains only since it may be taken away.
bool IsLikelyToLeave(const v1::Node& node);

// Takes the notice over. False: that, or an earlier end, is known.
bool NoteLeaving(const v1::PreemptionNotice& notice, absl::Time wall, v1::Node* node);

// Somebody drains a node that was only likely to leave: now it leaves.
void ForgetLikelihood(v1::Node* node);

// Tells the jobs that run on the node of the notice that was taken over, and has them write checkpoints if it is certain.
void TellLeaving(Transaction* transaction, const std::string& node_id, const v1::PreemptionNotice& notice,
                 ReportLimiter* limiter);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_LEAVING_H_
