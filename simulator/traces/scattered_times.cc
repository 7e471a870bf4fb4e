#include "simulator/traces/scattered_times.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "simulator/traces/csv.h"

namespace adaptdl::simulator {
namespace {

constexpr int kFirstNodes = 5;
constexpr int kLastNodes = 16;
constexpr int kGpusPerNode = 4;
// Barycentric weights down to this count as inside: queries lie on faces all the time.
constexpr double kInside = -1e-9;

// Rows (replica counts) of the table before the first one for `nodes`.
int64_t RowsBefore(int nodes) {
  int64_t rows = 0;
  for (int n = kFirstNodes; n < nodes; ++n) {
    rows += (kGpusPerNode - 1) * n + 1;
  }
  return rows;
}

}  // namespace

absl::StatusOr<TabulatedTimes> TabulatedTimes::Load(const std::string& path, int64_t min_local,
                                                    int64_t max_local) {
  absl::StatusOr<std::string> bytes = ReadWholeFile(path);
  if (!bytes.ok()) {
    return bytes.status();
  }
  const int64_t records = RowsBefore(kLastNodes + 1) * (max_local - min_local + 1);
  const int64_t expected = records * static_cast<int64_t>(sizeof(StepTime));
  if (max_local < min_local || static_cast<int64_t>(bytes->size()) != expected) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", bytes->size(),
                                                   " bytes; atomic batch sizes ", min_local, " to ",
                                                   max_local, " need ", expected));
  }
  TabulatedTimes table;
  table.min_local_ = min_local;
  table.max_local_ = max_local;
  table.bytes_ = *std::move(bytes);
  return table;
}

bool TabulatedTimes::Covers(int nodes, int replicas) const {
  return nodes >= kFirstNodes && nodes <= kLastNodes && replicas >= nodes && replicas <= kGpusPerNode * nodes;
}

std::optional<StepTime> TabulatedTimes::At(int nodes, int replicas, int64_t local) const {
  if (local < min_local_ || local > max_local_) {
    return std::nullopt;
  }
  const int64_t row = RowsBefore(nodes) + (replicas - nodes);
  const int64_t record = row * (max_local_ - min_local_ + 1) + (local - min_local_);
  StepTime time;
  static_assert(sizeof(time) == 2 * sizeof(double));
  std::memcpy(&time, bytes_.data() + record * static_cast<int64_t>(sizeof(time)), sizeof(time));
  if (std::isnan(time.step)) {
    return std::nullopt;
  }
  return time;
}

absl::StatusOr<TetrahedralTimes> TetrahedralTimes::Load(const std::string& points,
                                                        const std::string& tetrahedra) {
  absl::StatusOr<CsvTable> rows =
      CsvTable::Read(points, {"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"});
  if (!rows.ok()) {
    return rows.status();
  }
  TetrahedralTimes times;
  for (size_t row = 0; row < rows->rows(); ++row) {
    double v[5];
    for (size_t column = 0; column < 5; ++column) {
      absl::StatusOr<double> value = rows->Number(row, column);
      if (!value.ok()) {
        return value.status();
      }
      v[column] = *value;
    }
    times.points_.push_back({{v[0], v[1], v[2]}, {v[3], v[4]}});
    times.max_nodes_ = std::max(times.max_nodes_, static_cast<int>(v[0]));
    times.max_replicas_ = std::max(times.max_replicas_, static_cast<int>(v[1]));
  }
  absl::StatusOr<CsvTable> cells = CsvTable::Read(tetrahedra, {"p0", "p1", "p2", "p3"});
  if (!cells.ok()) {
    return cells.status();
  }
  for (size_t row = 0; row < cells->rows(); ++row) {
    std::array<int, 4> corners{};
    for (size_t column = 0; column < 4; ++column) {
      absl::StatusOr<int64_t> corner = cells->Integer(row, column);
      if (!corner.ok()) {
        return corner.status();
      }
      if (*corner < 0 || *corner >= static_cast<int64_t>(times.points_.size())) {
        return absl::InvalidArgumentError(absl::StrCat(tetrahedra, ": corner ", *corner, " is no row of ",
                                                       points, ", which has ", times.points_.size()));
      }
      corners[column] = static_cast<int>(*corner);
    }
    if (std::optional<Tetrahedron> prepared = Prepare(times.points_, corners)) {
      times.tetrahedra_.push_back(*prepared);
    }
  }
  return times;
}

std::optional<TetrahedralTimes::Tetrahedron> TetrahedralTimes::Prepare(const std::vector<Point>& points,
                                                                       const std::array<int, 4>& corners) {
  Tetrahedron result{corners, {}, points[corners[3]].at, points[corners[3]].at};
  const Vector& origin = points[corners[3]].at;
  std::array<Vector, 3> edge{};  // edge[k]: from the origin to corner k
  for (int k = 0; k < 3; ++k) {
    for (int axis = 0; axis < 3; ++axis) {
      const double value = points[corners[k]].at[axis];
      edge[k][axis] = value - origin[axis];
      result.low[axis] = std::min(result.low[axis], value);
      result.high[axis] = std::max(result.high[axis], value);
    }
  }
  const auto cross = [](const Vector& a, const Vector& b) {
    return Vector{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  };
  // Rows of the inverse of the matrix whose columns are the edges.
  result.inverse = {cross(edge[1], edge[2]), cross(edge[2], edge[0]), cross(edge[0], edge[1])};
  double determinant = 0;
  for (int axis = 0; axis < 3; ++axis) {
    determinant += edge[0][axis] * result.inverse[0][axis];
  }
  if (determinant == 0) {
    return std::nullopt;  // flat
  }
  for (Vector& row : result.inverse) {
    for (double& value : row) {
      value /= determinant;
    }
  }
  return result;
}

std::optional<StepTime> TetrahedralTimes::At(int nodes, int replicas, int64_t local) const {
  const Vector x = {static_cast<double>(nodes), static_cast<double>(replicas), static_cast<double>(local)};
  for (const Tetrahedron& cell : tetrahedra_) {
    if (x[2] < cell.low[2] || x[2] > cell.high[2] || x[1] < cell.low[1] || x[1] > cell.high[1] ||
        x[0] < cell.low[0] || x[0] > cell.high[0]) {
      continue;
    }
    const Vector& origin = points_[cell.corners[3]].at;
    std::array<double, 4> weight{0, 0, 0, 1};
    for (int k = 0; k < 3; ++k) {
      for (int axis = 0; axis < 3; ++axis) {
        weight[k] += cell.inverse[k][axis] * (x[axis] - origin[axis]);
      }
      weight[3] -= weight[k];
    }
    if (*std::min_element(weight.begin(), weight.end()) < kInside) {
      continue;
    }
    StepTime time;
    for (int k = 0; k < 4; ++k) {
      time.step += weight[k] * points_[cell.corners[k]].time.step;
      time.sync += weight[k] * points_[cell.corners[k]].time.sync;
    }
    return time;
  }
  return std::nullopt;
}

int64_t TetrahedralTimes::MaxLocal(int nodes, int replicas) const {
  double largest = 0;
  for (const Point& point : points_) {
    if (point.at[0] >= nodes && point.at[1] >= replicas) {
      largest = std::max(largest, point.at[2]);
    }
  }
  return static_cast<int64_t>(largest);
}

}  // namespace adaptdl::simulator
