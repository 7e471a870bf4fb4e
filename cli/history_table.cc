#include "cli/history_table.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/format.h"

namespace adaptdl::cli {
namespace {

constexpr char kLoss[] = "loss";

const v1::ReportedMetric* FindMetric(const v1::HistoryPoint& point, absl::string_view name) {
  for (const v1::ReportedMetric& metric : point.metrics()) {
    if (metric.name() == name) return &metric;
  }
  return nullptr;
}

// Figures that can't be 0 are unknown if they are.
std::string IfKnown(double value) { return value > 0 ? DigitsText(value) : "-"; }

std::string MeanText(double replicas) {
  const double whole = std::round(replicas);
  return std::abs(replicas - whole) < 0.005 ? absl::StrFormat("%.0f", whole)
                                            : absl::StrFormat("%.2f", replicas);
}

Cell LossAt(const v1::HistoryPoint& point) {
  const v1::ReportedMetric* loss = FindMetric(point, kLoss);
  if (loss == nullptr) return "-";
  return {DigitsText(loss->value()), std::isfinite(loss->value()) ? Colour::kNone : Colour::kRed};
}

// As they are read back without loss.
std::string Exactly(double value) { return absl::StrFormat("%.17g", value); }
std::string ExactlyIfKnown(double value) { return value > 0 ? Exactly(value) : ""; }
std::string StampText(const google::protobuf::Timestamp& time) {
  return absl::FormatTime(absl::RFC3339_full, ToTime(time), absl::UTCTimeZone());
}

std::vector<std::string> CsvLine(const v1::HistoryPoint& point, const std::set<std::string>& metrics) {
  const bool has_times = point.has_step_times();
  std::vector<std::string> line = {StampText(point.begin()),
                                   StampText(point.end()),
                                   Exactly(point.replicas()),
                                   ExactlyIfKnown(point.total_batch_size()),
                                   ExactlyIfKnown(point.local_batch_size()),
                                   point.total_batch_size() > 0 ? Exactly(point.accumulation_steps()) : "",
                                   ExactlyIfKnown(point.throughput()),
                                   ExactlyIfKnown(point.goodput()),
                                   ExactlyIfKnown(point.efficiency()),
                                   ExactlyIfKnown(point.gradient_noise_scale()),
                                   ExactlyIfKnown(point.learning_rate_factor()),
                                   has_times ? Exactly(point.step_times().compute()) : "",
                                   has_times ? Exactly(point.step_times().sync()) : "",
                                   has_times ? Exactly(point.step_times().data()) : "",
                                   absl::StrCat(point.optimizer_steps()),
                                   Exactly(point.scale_invariant_steps()),
                                   point.fraction() < 0 ? "" : Exactly(point.fraction()),
                                   absl::StrCat(point.epoch())};
  for (const std::string& name : metrics) {
    const v1::ReportedMetric* metric = FindMetric(point, name);
    line.push_back(metric == nullptr ? "" : Exactly(metric->value()));
  }
  return line;
}

}  // namespace

Table HistoryTable(const v1::GetJobHistoryResponse& history) {
  Table table;
  table.headers = {"TIME(UTC)", "REPLICAS", "BATCH", "LR FACTOR", "NOISE", "GOODPUT", "DONE", "LOSS"};
  for (const v1::HistoryPoint& point : history.points()) {
    const bool knows_part = point.fraction() >= 0 && point.replicas() + point.fraction() > 0;
    table.rows.push_back({FormatSecond(ToTime(point.end())), MeanText(point.replicas()),
                          IfKnown(point.total_batch_size()), IfKnown(point.learning_rate_factor()),
                          IfKnown(point.gradient_noise_scale()), IfKnown(point.goodput()),
                          knows_part ? absl::StrFormat("%.1f%%", 100 * point.fraction()) : "-",
                          LossAt(point)});
  }
  return table;
}

std::string HistoryCsv(const v1::GetJobHistoryResponse& history) {
  std::set<std::string> metrics;
  for (const v1::HistoryPoint& point : history.points()) {
    for (const v1::ReportedMetric& metric : point.metrics()) metrics.insert(metric.name());
  }
  std::vector<std::string> names = {"begin",
                                    "end",
                                    "replicas",
                                    "total_batch_size",
                                    "local_batch_size",
                                    "accumulation_steps",
                                    "throughput",
                                    "goodput",
                                    "efficiency",
                                    "gradient_noise_scale",
                                    "learning_rate_factor",
                                    "compute_seconds",
                                    "sync_seconds",
                                    "data_seconds",
                                    "optimizer_steps",
                                    "scale_invariant_steps",
                                    "fraction",
                                    "epoch"};
  for (const std::string& name : metrics) names.push_back("metric:" + Printable(name));
  std::string text = absl::StrCat(absl::StrJoin(names, ","), "\n");
  for (const v1::HistoryPoint& point : history.points()) {
    absl::StrAppend(&text, absl::StrJoin(CsvLine(point, metrics), ","), "\n");
  }
  return text;
}

}  // namespace adaptdl::cli
