// Step times on many nodes, interpolated between the sizes that were measured.
//
// A size is (nodes, replicas, atomic batch size). Two ways to the same function, the piecewise linear one
// over a Delaunay triangulation of the measured sizes: a table of its values, or the triangulation itself.
// Where tetrahedra overlap (the measured sizes form a grid), the two may differ by a few percent; the table
// is what the published results were made with.
//
// Immutable once loaded; thread-safe.

#ifndef ADAPTDL_SIMULATOR_TRACES_SCATTERED_TIMES_H_
#define ADAPTDL_SIMULATOR_TRACES_SCATTERED_TIMES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adaptdl::simulator {

// One optimizer step of one replica, in seconds.
struct StepTime {
  // With the exchange of gradients.
  double step = 0;
  // The part of it that is no computation.
  double sync = 0;
};

// A file of little-endian pairs (step, sync), for nodes 5 to 16, replicas nodes to 4 * nodes, and all atomic
// batch sizes of a range; NaN: outside.
class TabulatedTimes {
 public:
  static constexpr int kMostReplicas = 64;

  // The range of atomic batch sizes is inclusive. INVALID_ARGUMENT: the file's size does not fit the range.
  static absl::StatusOr<TabulatedTimes> Load(const std::string& path, int64_t min_local, int64_t max_local);

  // Whether the table speaks of this many nodes and replicas.
  bool Covers(int nodes, int replicas) const;

  // nullopt: outside. REQUIRES: Covers(nodes, replicas).
  std::optional<StepTime> At(int nodes, int replicas, int64_t local) const;

 private:
  int64_t min_local_ = 0;
  int64_t max_local_ = 0;
  std::string bytes_;
};

class TetrahedralTimes {
 public:
  // `points`: CSV with num_nodes, num_replicas, local_bsz, step_time, sync_time. `tetrahedra`: CSV with the
  // four corners p0 to p3, as rows of `points`.
  static absl::StatusOr<TetrahedralTimes> Load(const std::string& points, const std::string& tetrahedra);

  // nullopt: outside of all tetrahedra.
  std::optional<StepTime> At(int nodes, int replicas, int64_t local) const;

  // Largest numbers of nodes and replicas measured.
  int max_nodes() const { return max_nodes_; }
  int max_replicas() const { return max_replicas_; }

  // Largest atomic batch size measured on at least this many nodes and replicas; 0 if none was.
  int64_t MaxLocal(int nodes, int replicas) const;

 private:
  using Vector = std::array<double, 3>;
  struct Point {
    Vector at;
    StepTime time;
  };
  // The last corner is the origin: weights of the others = inverse * (x - origin).
  struct Tetrahedron {
    std::array<int, 4> corners;
    std::array<Vector, 3> inverse;
    Vector low;
    Vector high;
  };

  static std::optional<Tetrahedron> Prepare(const std::vector<Point>& points,
                                            const std::array<int, 4>& corners);

  std::vector<Point> points_;
  std::vector<Tetrahedron> tetrahedra_;
  int max_nodes_ = 0;
  int max_replicas_ = 0;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_TRACES_SCATTERED_TIMES_H_
