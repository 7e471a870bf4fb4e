#include "simulator/traces/step_times.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"
#include "simulator/traces/csv.h"

namespace adaptdl::simulator {
namespace {

// Placements on more nodes than this behave like placements on this many.
constexpr int kMostMeasuredNodes = 16;
// A model knows no limit; this one bounds the tables that are made from it.
constexpr int kMostModelledReplicas = 1024;

std::vector<int> SmallestRotation(absl::Span<const int> shape) {
  std::vector<int> best(shape.begin(), shape.end());
  std::vector<int> rotated = best;
  for (size_t i = 1; i < shape.size(); ++i) {
    std::rotate(rotated.begin(), rotated.begin() + 1, rotated.end());
    best = std::min(best, rotated);
  }
  return best;
}

}  // namespace

absl::StatusOr<StepTimes> StepTimes::Load(const std::string& application, const Files& files) {
  StepTimes times;
  if (absl::Status status = times.LoadPlacements(files.placements); !status.ok()) {
    return status;
  }
  if (!files.table.empty()) {
    if (absl::Status status = times.LoadTable(application, files); !status.ok()) {
      return status;
    }
  }
  if (!files.points.empty()) {
    absl::StatusOr<TetrahedralTimes> tetrahedra = TetrahedralTimes::Load(files.points, files.tetrahedra);
    if (!tetrahedra.ok()) {
      return tetrahedra.status();
    }
    times.tetrahedra_ = *std::move(tetrahedra);
    times.max_replicas_ = std::max(times.max_replicas_, times.tetrahedra_->max_replicas());
  }
  return times;
}

StepTimes StepTimes::FromModel(const goodput::PerfParams& model, int64_t min_local, int64_t max_local) {
  StepTimes times;
  times.model_ = model;
  times.min_local_ = min_local;
  times.max_local_ = max_local;
  times.max_replicas_ = kMostModelledReplicas;
  return times;
}

absl::Status StepTimes::LoadPlacements(const std::string& path) {
  absl::StatusOr<CsvTable> table = CsvTable::Read(path, {"placement", "local_bsz", "step_time", "sync_time"});
  if (!table.ok()) {
    return table.status();
  }
  for (size_t row = 0; row < table->rows(); ++row) {
    std::vector<int> shape;
    for (const char digit : table->Text(row, 0)) {
      if (digit < '1' || digit > '9') {
        return absl::InvalidArgumentError(absl::StrCat(path, ": placement \"", table->Text(row, 0),
                                                       "\"; it must have one digit per node, 1 to 9"));
      }
      shape.push_back(digit - '0');
    }
    absl::StatusOr<int64_t> local = table->Integer(row, 1);
    absl::StatusOr<double> step = table->Number(row, 2);
    absl::StatusOr<double> sync = table->Number(row, 3);
    for (const absl::Status& status : {local.status(), step.status(), sync.status()}) {
      if (!status.ok()) {
        return status;
      }
    }
    max_replicas_ = std::max(max_replicas_, std::accumulate(shape.begin(), shape.end(), 0));
    measured_[SmallestRotation(shape)].push_back({*local, {*step, *sync}});
    min_local_ = min_local_ == 0 ? *local : std::min(min_local_, *local);
    max_local_ = std::max(max_local_, *local);
  }
  if (measured_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no measurements"));
  }
  for (auto& [shape, curve] : measured_) {
    std::stable_sort(curve.begin(), curve.end(),
                     [](const Sample& a, const Sample& b) { return a.local < b.local; });
  }
  return absl::OkStatus();
}

absl::Status StepTimes::LoadTable(const std::string& application, const Files& files) {
  absl::StatusOr<std::string> text = ReadWholeFile(files.table_index);
  if (!text.ok()) {
    return text.status();
  }
  const nlohmann::json index = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json range = index.is_object() && index.contains(application)
                                   ? index[application].value("local_bsz", nlohmann::json())
                                   : nlohmann::json();
  if (!range.is_array() || range.size() != 2 || !range[0].is_number_integer() ||
      !range[1].is_number_integer()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.table_index, ": no range \"local_bsz\" of two numbers for ", application));
  }
  absl::StatusOr<TabulatedTimes> table =
      TabulatedTimes::Load(files.table, range[0].get<int64_t>(), range[1].get<int64_t>());
  if (!table.ok()) {
    return table.status();
  }
  table_ = *std::move(table);
  max_replicas_ = std::max(max_replicas_, TabulatedTimes::kMostReplicas);
  return absl::OkStatus();
}

double StepTimes::single_gpu_throughput() const {
  if (model_) {
    const double local = static_cast<double>(max_local_);
    return local / goodput::AccumTime(*model_, local);
  }
  const auto found = measured_.find({1});
  if (found == measured_.end()) {
    return 0;
  }
  const Sample& largest = found->second.back();
  return static_cast<double>(largest.local) / largest.time.step;
}

StepTimes::Shape StepTimes::Resolve(absl::Span<const int> gpus_per_node) const {
  Shape shape;
  shape.times_ = this;
  if (model_) {
    shape.nodes_ = static_cast<int>(gpus_per_node.size());
    shape.replicas_ = std::accumulate(gpus_per_node.begin(), gpus_per_node.end(), 0);
    return shape;
  }
  const auto found = measured_.find(SmallestRotation(gpus_per_node));
  shape.measured_ = found == measured_.end() ? nullptr : &found->second;
  const int most = tetrahedra_ ? std::min(tetrahedra_->max_nodes(), kMostMeasuredNodes) : kMostMeasuredNodes;
  shape.nodes_ = std::min(static_cast<int>(gpus_per_node.size()), most);
  shape.replicas_ = std::accumulate(gpus_per_node.begin(), gpus_per_node.end(), 0);
  return shape;
}

std::optional<StepTime> StepTimes::Shape::At(int64_t local) const {
  if (times_->model_) {
    const double size = static_cast<double>(local);
    const double step = goodput::OptimTime(*times_->model_, {nodes_, replicas_}, size);
    return StepTime{step, step - goodput::AccumTime(*times_->model_, size)};
  }
  if (measured_ == nullptr) {
    if (times_->table_ && times_->table_->Covers(nodes_, replicas_)) {
      return times_->table_->At(nodes_, replicas_, local);
    }
    return times_->tetrahedra_ ? times_->tetrahedra_->At(nodes_, replicas_, local) : std::nullopt;
  }
  const Curve& curve = *measured_;
  if (local < curve.front().local || local > curve.back().local) {
    return std::nullopt;
  }
  size_t high = 0;
  while (curve[high].local < local) {
    ++high;
  }
  if (curve[high].local == local) {
    return curve[high].time;
  }
  const Sample& a = curve[high - 1];
  const Sample& b = curve[high];
  const double weight = static_cast<double>(local - a.local) / static_cast<double>(b.local - a.local);
  return StepTime{a.time.step + weight * (b.time.step - a.time.step),
                  a.time.sync + weight * (b.time.sync - a.time.sync)};
}

int64_t StepTimes::Shape::max_local() const {
  if (measured_ != nullptr) {
    return measured_->back().local;
  }
  const int64_t measured = times_->tetrahedra_ ? times_->tetrahedra_->MaxLocal(nodes_, replicas_) : 0;
  return measured > 0 ? measured : times_->max_local_;
}

}  // namespace adaptdl::simulator
