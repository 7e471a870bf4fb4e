#include "services/allocator/allocation_round.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/util/message_differencer.h"
#include "libs/scheduling/separation.h"
#include "services/allocator/snapshot_converter.h"

namespace adaptdl::allocator {
namespace {

bool SameNodes(const v1::Job& job, const v1::JobAllocation& allocation) {
  const auto& before = job.status().desired_allocation();
  return std::equal(before.begin(), before.end(), allocation.node_ids().begin(), allocation.node_ids().end());
}

// What the supervisor keeps of an explanation; sending more would look like news in every round.
constexpr int kMaxSentences = 8;
constexpr size_t kMaxSentenceBytes = 300;

void Explain(const std::vector<std::string>& sentences, v1::JobAllocation* allocation) {
  for (const std::string& sentence : sentences) {
    if (allocation->explanation_size() == kMaxSentences) return;
    if (sentence.size() <= kMaxSentenceBytes) allocation->add_explanation(sentence);
  }
}

// Of no nodes.
v1::JobAllocation AllocationFor(const v1::Job& job, const std::string& reason, bool unschedulable) {
  v1::JobAllocation allocation;
  allocation.set_namespace_(job.namespace_());
  allocation.set_name(job.name());
  allocation.set_job_uid(job.uid());
  allocation.set_reason(reason);
  allocation.set_unschedulable(unschedulable);
  return allocation;
}

// Whether the supervisor does not know it yet: it keeps the newest words, but may lose them when it restarts.
bool IsNews(const v1::Job& job, const v1::JobAllocation& allocation) {
  if (!SameNodes(job, allocation)) return true;
  if (job.status().cancel_requested()) return false;
  const auto& known = job.status().allocation_explanation();
  return job.status().allocation_reason() != allocation.reason() ||
         !std::equal(known.begin(), known.end(), allocation.explanation().begin(),
                     allocation.explanation().end());
}

// Whether the node may have new replicas.
bool TakesReplicas(const scheduling::NodeInfo& node) { return !node.draining; }

constexpr size_t kMaxUnplaced = 100;

// Why a job stays on a node that is likely to be taken away.
constexpr char kKeeps[] =
    "a node of it may be taken away: keeps what it has until there is as much room elsewhere";
// How often it is decided anew which jobs do; with the last time all do.
constexpr int kMostAttempts = 3;

void NoteUnplaced(const v1::Job& job, std::vector<v1::UnplacedReplica>* unplaced) {
  v1::UnplacedReplica replica;
  *replica.mutable_resources() = job.spec().template_().resources();
  *replica.mutable_placement() = job.spec().template_().placement();
  const bool known = std::any_of(unplaced->begin(), unplaced->end(), [&](const v1::UnplacedReplica& other) {
    return google::protobuf::util::MessageDifferencer::Equals(other, replica);
  });
  if (!known && unplaced->size() < kMaxUnplaced) unplaced->push_back(std::move(replica));
}

}  // namespace

scheduling::Decision AllocationRound::DecideOnce(const scheduling::ClusterView& view) const {
  scheduling::Decision decision = policy_.Decide(view, seed_);
  scheduling::Separate(view, &decision);
  return decision;
}

AllocationRound::Decided AllocationRound::DecideKeeping(const ConvertedCluster& cluster) const {
  Decided decided;
  decided.wanted = DecideOnce(cluster.view);
  decided.applied = decided.wanted;
  if (cluster.fading_jobs.empty()) return decided;
  scheduling::ClusterView view = cluster.view;
  std::set<int> kept;
  // What the first ones keep may be what others were to move to.
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const size_t before = kept.size();
    const bool all = attempt == kMostAttempts - 1;
    for (const int index : cluster.fading_jobs) {
      scheduling::JobInfo& job = view.jobs[index];
      const bool loses = decided.applied.jobs[index].allocation.size() < job.allocation.size();
      if ((loses || all) && kept.insert(index).second) Freeze(&job);
    }
    if (kept.size() == before) break;
    decided.applied = DecideOnce(view);
  }
  for (const int index : kept) {
    decided.applied.jobs[index].reason = kKeeps;
    decided.applied.jobs[index].explanation.clear();
  }
  // None goes that is in use.
  decided.wanted.capacity.idle_nodes = decided.applied.capacity.idle_nodes;
  return decided;
}

RoundResult AllocationRound::Decide(const v1::ClusterSnapshot& snapshot, absl::Time now) {
  ConvertedCluster cluster = converter_.Convert(snapshot, now);
  Decided both = DecideKeeping(cluster);
  const scheduling::Decision& decision = both.applied;
  RoundResult result;
  result.request.set_snapshot_version(snapshot.version());
  result.jobs = {
      {"running", 0}, {"waiting", 0}, {"unschedulable", 0}, {"refused", 0}, {"held", cluster.held_jobs}};
  result.jobs["refused"] =
      snapshot.jobs_size() - cluster.held_jobs - static_cast<int>(cluster.job_index.size());
  const bool no_node = std::none_of(cluster.view.nodes.begin(), cluster.view.nodes.end(), TakesReplicas);
  for (size_t i = 0; i < decision.jobs.size(); ++i) {
    const scheduling::JobDecision& decided = decision.jobs[i];
    const v1::Job& job = snapshot.jobs(cluster.job_index[i]);
    const bool waits = decided.allocation.empty();
    ++result.jobs[decided.unschedulable ? "unschedulable" : waits ? "waiting" : "running"];
    const bool has_no_place = both.wanted.jobs[i].allocation.empty();
    if (has_no_place && (no_node || decided.unschedulable)) NoteUnplaced(job, &result.unplaced);
    v1::JobAllocation allocation = AllocationFor(job, decided.reason, decided.unschedulable);
    allocation.mutable_node_ids()->Add(decided.allocation.begin(), decided.allocation.end());
    Explain(decided.explanation, &allocation);
    if (!IsNews(job, allocation)) continue;
    if (!SameNodes(job, allocation)) {
      result.moves.push_back({decided.key, job.status().desired_allocation_size(),
                              static_cast<int>(decided.allocation.size()), decided.reason});
    }
    *result.request.add_allocations() = std::move(allocation);
  }
  // They would wait for ever, and nobody else could say why.
  for (const auto& [index, why] : cluster.unusable_jobs) {
    v1::JobAllocation allocation = AllocationFor(snapshot.jobs(index), why, /*unschedulable=*/true);
    if (IsNews(snapshot.jobs(index), allocation)) *result.request.add_allocations() = std::move(allocation);
  }
  result.capacity = both.wanted.capacity;
  result.basis.snapshot_version = snapshot.version();
  result.basis.decision_time = now;
  for (const int index : cluster.job_index)
    result.basis.placements.push_back(snapshot.jobs(index).spec().template_().placement());
  result.basis.view = std::move(cluster.view);
  result.basis.decision = std::move(both.wanted);
  result.refusals = std::move(cluster.refusals);
  return result;
}

}  // namespace adaptdl::allocator
