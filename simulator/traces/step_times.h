// Step times of one application on one GPU type, for any placement: measured, or by a fitted model.
//
//   StepTimes::Shape shape = times.Resolve({4, 4, 2});     // GPUs on each node
//   std::optional<StepTime> time = shape.At(/*local=*/128);
//
// Placements that were measured themselves are interpolated linearly over the atomic batch size, whatever the
// order of their nodes up to rotation; others by their numbers of nodes and replicas (scattered_times.h).
//
// Immutable once loaded; thread-safe.

#ifndef ADAPTDL_SIMULATOR_TRACES_STEP_TIMES_H_
#define ADAPTDL_SIMULATOR_TRACES_STEP_TIMES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/goodput/model.h"
#include "simulator/traces/scattered_times.h"

namespace adaptdl::simulator {

class StepTimes {
 public:
  struct Files {
    std::string placements;
    // Each pair may be absent: then placements that were not measured themselves have no times.
    std::string table;        // of TabulatedTimes
    std::string table_index;  // JSON: the table's range of atomic batch sizes
    std::string points;       // of TetrahedralTimes
    std::string tetrahedra;
  };

  // `application`: its entry in the table's index.
  static absl::StatusOr<StepTimes> Load(const std::string& application, const Files& files);

  // What the throughput model says, for any atomic batch size and number of replicas.
  // REQUIRES: the model passes goodput::Validate(), 1 <= min_local <= max_local.
  static StepTimes FromModel(const goodput::PerfParams& model, int64_t min_local, int64_t max_local);

  class Shape;
  // Valid as long as this object. REQUIRES: at least one node, each with at least one GPU.
  Shape Resolve(absl::Span<const int> gpus_per_node) const;

  // Smallest and largest atomic batch size measured on any placement.
  int64_t min_local() const { return min_local_; }
  int64_t max_local() const { return max_local_; }
  // Samples per second on one GPU at the largest atomic batch size that was measured there. 0: none was.
  double single_gpu_throughput() const;
  // Most replicas that were measured, or that a model is asked about.
  int max_replicas() const { return max_replicas_; }

 private:
  struct Sample {
    int64_t local = 0;
    StepTime time;
  };
  using Curve = std::vector<Sample>;  // by atomic batch size

  absl::Status LoadPlacements(const std::string& path);
  absl::Status LoadTable(const std::string& application, const Files& files);

  std::map<std::vector<int>, Curve> measured_;  // by placement, rotated to the smallest
  std::optional<TabulatedTimes> table_;
  std::optional<TetrahedralTimes> tetrahedra_;
  std::optional<goodput::PerfParams> model_;
  int64_t min_local_ = 0;
  int64_t max_local_ = 0;
  int max_replicas_ = 0;
};

class StepTimes::Shape {
 public:
  // nullopt: this size was never measured.
  std::optional<StepTime> At(int64_t local) const;

  // Largest atomic batch size measured on this placement, or else on any that is at least as large.
  int64_t max_local() const;

 private:
  friend class StepTimes;

  const StepTimes* times_ = nullptr;
  const Curve* measured_ = nullptr;  // null: interpolated
  int nodes_ = 0;
  int replicas_ = 0;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_TRACES_STEP_TIMES_H_
