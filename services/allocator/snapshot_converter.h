// From the supervisor's snapshot to the plain structs that policies see. Everything in the snapshot is
// checked: what can't be used is refused with a reason and hurts nothing else.
//
// GPU types: a job that asks for GPUs and knows its speed by type gets one speed-up table per type of the
// cluster. A type that it has not been on is taken to be as fast, relative to the one it knows best, as the
// jobs found that were on both; if there are none, as fast as that one.
//
// A job that was never re-scaled is taken to lose as much by it as others did, in place or by a restart.
//
// Keeps the speed-up tables of each job until its hints change, and what re-scales took. Not thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_SNAPSHOT_CONVERTER_H_
#define ADAPTDL_SERVICES_ALLOCATOR_SNAPSHOT_CONVERTER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "libs/goodput/speedup_table.h"
#include "libs/scheduling/job_demand.h"
#include "libs/scheduling/policy.h"
#include "services/allocator/relative_speeds.h"
#include "services/allocator/rescale_costs.h"

namespace adaptdl::allocator {

// Something in a snapshot that can't be used.
struct Refusal {
  // "job default/mnist", "node local-0".
  std::string what;
  // Names the field, the value and what it should be.
  std::string why;
};

struct ConvertedCluster {
  scheduling::ClusterView view;
  // Where the jobs of the view are in the snapshot, by index in the view.
  std::vector<int> job_index;
  // Jobs that hold nothing and can't be used: their index in the snapshot, and why.
  std::vector<std::pair<int, std::string>> unusable_jobs;
  // Jobs that have replicas on nodes that are likely to be taken away, by index in the view: they are to leave them, but
  // may keep what they have.
  std::set<int> fading_jobs;
  // Jobs that their users hold: they are in no list.
  int held_jobs = 0;
  // Jobs that are left as they are, nodes that are left out, and hints that are not used.
  std::vector<Refusal> refusals;
};

// Leaves the job as it is: it keeps its room and is not decided about.
void Freeze(scheduling::JobInfo* info);

class SnapshotConverter {
 public:
  // Kinds of nodes that may come: jobs' speeds on their GPU types are worked out, too.
  void Expect(std::vector<scheduling::NodeKind> kinds);

  // `now`: time of the decision. A job that can't be used but holds replicas is in the view as one that must
  // not be touched, so that its room is not given away.
  ConvertedCluster Convert(const v1::ClusterSnapshot& snapshot, absl::Time now);

 private:
  struct CachedTable {
    std::string hints;
    int max_replicas = 0;
    std::shared_ptr<const goodput::SpeedupTable> table;
    // By GPU type, and the relative speed that each was built with (0: measured).
    std::map<std::string, std::pair<double, std::shared_ptr<const goodput::SpeedupTable>>> by_type;
    bool used = false;
  };

  void ConvertNodes(const v1::ClusterSnapshot& snapshot, ConvertedCluster* result);
  // What jobs need to be on nodes that may take them, and which nodes have it.
  void FindPlaces(const v1::ClusterSnapshot& snapshot, ConvertedCluster* result);
  static void ConvertQuotas(const v1::ClusterSnapshot& snapshot, ConvertedCluster* result);
  void LearnSpeeds(const v1::ClusterSnapshot& snapshot);
  void LearnRescales(const v1::ClusterSnapshot& snapshot);
  void ConvertJob(const v1::Job& job, int index, ConvertedCluster* result);
  // Sets size limits, speed-up and what is left to do.
  void UseHints(const v1::Job& job, scheduling::JobInfo* info);
  // Replicas that the job may have with these hints, and why no more.
  static int MostReplicas(const v1::Job& job, const scheduling::JobInfo& info, std::string* reason);
  // Up to how many replicas the job's speed-ups are worth knowing: what it could ever have in this cluster.
  int TableSize(const v1::Job& job, const scheduling::JobInfo& info) const;
  std::shared_ptr<const goodput::SpeedupTable> TableFor(const v1::Job& job, int max_replicas);
  // The job's tables on the GPU types of the cluster, in the unit of info->speedup, which TableFor() made.
  void SetTablesByType(const v1::Job& job, scheduling::JobInfo* info);

  std::vector<scheduling::NodeKind> expected_;
  // Nodes of the snapshot in hand, by what they offer.
  std::map<scheduling::Resources, int> shapes_;
  // GPU types of its nodes and of those that may come, and what its jobs know of their speeds.
  std::set<std::string> gpu_types_;
  std::set<std::string> quarantined_;
  // Those that are likely to be taken away.
  std::set<std::string> fading_;
  // By job of the snapshot: see Places::ResourceFor().
  std::vector<std::string> places_;
  RelativeSpeeds speeds_;
  RescaleCosts rescale_costs_;
  absl::flat_hash_map<std::string, CachedTable> tables_;  // by uid
};

// OK if the hints can be used; else INVALID_ARGUMENT that names the field.
absl::Status CheckHints(const v1::Hints& hints);

// Changes exactly when hints that matter at once do: the first ones, and those of a larger measured size.
std::string HintSignature(const v1::Job& job);

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_SNAPSHOT_CONVERTER_H_
