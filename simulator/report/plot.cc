#include "simulator/report/plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "simulator/report/summary.h"
#include "simulator/report/svg.h"

namespace adaptdl::simulator {
namespace {

constexpr double kWidth = 1200;
constexpr double kLeft = 70;
constexpr double kRight = 1170;
constexpr double kPanelTop = 105;
constexpr double kPanelHeight = 240;
constexpr double kGap = 75;
constexpr double kTallestRow = 7;
constexpr double kTallestTimeline = 1600;
constexpr double kHour = 3600;
constexpr char kGrid[] = "#e3e3e3";
constexpr char kAxis[] = "#777";
constexpr char kAllColour[] = "#222";
// Told apart by most people with colour blindness, too (Okabe and Ito).
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                    "#d55e00", "#56b4e9", "#b8a800", "#888888"};

// Maps values to pixels, linearly or by the logarithm.
class Axis {
 public:
  Axis(double low, double high, double from, double to, bool logarithmic = false)
      : logarithmic_(logarithmic), low_(Scale(low)), high_(Scale(high)), from_(from), to_(to) {}

  double At(double value) const { return from_ + (Scale(value) - low_) / (high_ - low_) * (to_ - from_); }

 private:
  double Scale(double value) const { return logarithmic_ ? std::log10(value) : value; }

  const bool logarithmic_;
  const double low_;
  const double high_;
  const double from_;
  const double to_;
};

// A step that gives at most 12 ticks: 1, 2 or 5 times a power of ten.
double TickStep(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 12)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= 12) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::string FormatDuration(double seconds) {
  if (seconds < 60) {
    return absl::StrFormat("%.3g s", seconds);
  }
  return seconds < kHour ? absl::StrFormat("%.3g min", seconds / 60)
                         : absl::StrFormat("%.3g h", seconds / kHour);
}

class Painter {
 public:
  Painter(const std::string& title, const Cluster& cluster, const SimulationResult& result)
      : cluster_(cluster), result_(result), row_(RowHeight(result)), svg_(kWidth, Bottom() + 55) {
    std::set<std::string> names;
    end_ = 0;
    for (const JobOutcome& job : result.jobs) {
      names.insert(job.application);
      end_ = std::max(end_, job.completed);
    }
    for (const std::string& name : names) {
      const size_t next = colours_.size() % (sizeof(kColours) / sizeof(kColours[0]));
      colours_[name] = kColours[next];
    }
    svg_.Text(kLeft, 34, title, 20, Svg::Anchor::kStart, "#111", /*bold=*/true);
    PaintLegend();
  }

  std::string Paint() {
    PaintDistribution(kPanelTop);
    PaintUtilisation(kPanelTop + kPanelHeight + kGap);
    PaintTimeline(kPanelTop + 2 * (kPanelHeight + kGap));
    return svg_.ToString();
  }

 private:
  static double RowHeight(const SimulationResult& result) {
    return std::min(kTallestRow, kTallestTimeline / static_cast<double>(result.jobs.size()));
  }
  double TimelineHeight() const { return row_ * static_cast<double>(result_.jobs.size()); }
  double Bottom() const { return kPanelTop + 2 * (kPanelHeight + kGap) + TimelineHeight(); }
  Axis TimeAxis() const { return Axis(0, end_, kLeft, kRight); }

  void PaintLegend() {
    double x = kLeft;
    for (const auto& [name, colour] : colours_) {
      svg_.Rectangle(x, 47, 14, 12, colour);
      svg_.Text(x + 19, 58, name, 13);
      x += 42 + 7.5 * static_cast<double>(name.size());
    }
  }

  void PaintHeading(double top, absl::string_view text) {
    svg_.Text(kLeft, top - 10, text, 15, Svg::Anchor::kStart, "#111", /*bold=*/true);
  }

  void PaintTimeTicks(double top, double bottom) {
    const Axis axis = TimeAxis();
    const double step = TickStep(end_ / kHour);
    for (double hour = 0; hour <= end_ / kHour; hour += step) {
      const double x = axis.At(hour * kHour);
      svg_.Line(x, top, x, bottom, kGrid);
      svg_.Text(x, bottom + 17, absl::StrFormat("%g", hour), 12, Svg::Anchor::kMiddle);
    }
    svg_.Line(kLeft, bottom, kRight, bottom, kAxis);
    svg_.Text((kLeft + kRight) / 2, bottom + 36, "hours since the start", 13, Svg::Anchor::kMiddle);
  }

  void PaintDistribution(double top);
  void PaintCurve(const std::vector<double>& sorted, const Axis& x, const Axis& y, absl::string_view colour,
                  double width);
  void PaintUtilisation(double top);
  void PaintTimeline(double top);

  const Cluster& cluster_;
  const SimulationResult& result_;
  const double row_;
  Svg svg_;
  double end_ = 0;
  std::map<std::string, std::string> colours_;  // by application
};

void Painter::PaintCurve(const std::vector<double>& sorted, const Axis& x, const Axis& y,
                         absl::string_view colour, double width) {
  Svg::Points points = {{x.At(sorted.front()), y.At(0)}};
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double before = 100 * static_cast<double>(i) / static_cast<double>(sorted.size());
    const double after = 100 * static_cast<double>(i + 1) / static_cast<double>(sorted.size());
    points.emplace_back(x.At(sorted[i]), y.At(before));
    points.emplace_back(x.At(sorted[i]), y.At(after));
  }
  svg_.Polyline(points, colour, width);
}

void Painter::PaintDistribution(double top) {
  std::vector<double> all;
  std::map<std::string, std::vector<double>> by_application;
  for (const JobOutcome& job : result_.jobs) {
    all.push_back(std::max(job.jct(), 1.0));
    by_application[job.application].push_back(all.back());
  }
  std::sort(all.begin(), all.end());
  const double bottom = top + kPanelHeight;
  const Axis x(all.front() * 0.8, all.back() * 1.3, kLeft, kRight, /*logarithmic=*/true);
  const Axis y(0, 100, bottom, top);
  PaintHeading(top, "Job completion times (cumulative; black: all jobs)");
  for (int percent = 0; percent <= 100; percent += 25) {
    svg_.Line(kLeft, y.At(percent), kRight, y.At(percent), kGrid);
    svg_.Text(kLeft - 8, y.At(percent) + 4, absl::StrCat(percent, " %"), 12, Svg::Anchor::kEnd);
  }
  for (const double tick : {10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0,
                            72000.0, 180000.0, 360000.0}) {
    if (tick > all.front() * 0.8 && tick < all.back() * 1.3) {
      svg_.Line(x.At(tick), top, x.At(tick), bottom, kGrid);
      svg_.Text(x.At(tick), bottom + 17, FormatDuration(tick), 12, Svg::Anchor::kMiddle);
    }
  }
  svg_.Line(kLeft, bottom, kRight, bottom, kAxis);
  for (auto& [application, jcts] : by_application) {
    std::sort(jcts.begin(), jcts.end());
    PaintCurve(jcts, x, y, colours_[application], 1.5);
  }
  PaintCurve(all, x, y, kAllColour, 2.6);
  double mean = 0;
  for (const double jct : all) {
    mean += jct / static_cast<double>(all.size());
  }
  double label = top + 16;
  const std::vector<std::pair<std::string, double>> marks = {
      {"median", Percentile(all, 50)}, {"mean", mean}, {"p99", Percentile(all, 99)}};
  for (const auto& [name, value] : marks) {
    svg_.Line(x.At(value), top, x.At(value), bottom, kAllColour, 1, /*dashed=*/true);
    svg_.Text(x.At(value) - 5, label, absl::StrCat(name, " ", FormatDuration(value)), 12, Svg::Anchor::kEnd,
              kAllColour);
    label += 16;
  }
}

void Painter::PaintUtilisation(double top) {
  const double bottom = top + kPanelHeight;
  const int capacity = cluster_.total_gpus();
  const Axis x = TimeAxis();
  const Axis y(0, capacity * 1.05, bottom, top);
  PaintHeading(top, "GPUs in use, by application (dashed: what the cluster has)");
  PaintTimeTicks(top, bottom);
  const double step = TickStep(capacity);
  for (double tick = 0; tick <= capacity; tick += step) {
    svg_.Line(kLeft, y.At(tick), kRight, y.At(tick), kGrid);
    svg_.Text(kLeft - 8, y.At(tick) + 4, absl::StrFormat("%g", tick), 12, Svg::Anchor::kEnd);
  }
  // Changes of each application's GPUs, by time.
  std::map<double, std::map<std::string, int>> changes;
  for (const Segment& segment : result_.timeline) {
    const std::string& application = result_.jobs[segment.job].application;
    changes[segment.start][application] += segment.gpus;
    changes[segment.end][application] -= segment.gpus;
  }
  std::map<std::string, int> now;
  std::map<std::string, Svg::Points> upper;  // the top edge of each application's area
  std::map<std::string, Svg::Points> lower;
  for (const auto& [time, change] : changes) {
    for (const bool after : {false, true}) {
      if (after) {
        for (const auto& [application, gpus] : change) {
          now[application] += gpus;
        }
      }
      int below = 0;
      for (const auto& [application, colour] : colours_) {
        lower[application].emplace_back(x.At(time), y.At(below));
        below += now[application];
        upper[application].emplace_back(x.At(time), y.At(below));
      }
    }
  }
  for (const auto& [application, colour] : colours_) {
    Svg::Points area = upper[application];
    area.insert(area.end(), lower[application].rbegin(), lower[application].rend());
    svg_.Polygon(area, colour);
  }
  svg_.Line(kLeft, y.At(capacity), kRight, y.At(capacity), kAllColour, 1, /*dashed=*/true);
}

void Painter::PaintTimeline(double top) {
  const double bottom = top + TimelineHeight();
  const Axis x = TimeAxis();
  PaintHeading(top, "Allocation, one row per job in order of submission (thicker: more GPUs; grey: waiting)");
  PaintTimeTicks(top, bottom);
  const double thickest = std::log2(1.0 + cluster_.total_gpus());
  const auto middle = [&](int job) { return top + (job + 0.5) * row_; };
  for (int job = 0; job < static_cast<int>(result_.jobs.size()); ++job) {
    const JobOutcome& outcome = result_.jobs[job];
    const double height = std::max(row_ * 0.1, 0.4);
    svg_.Rectangle(x.At(outcome.submitted), middle(job) - height / 2,
                   x.At(outcome.completed) - x.At(outcome.submitted), height, "#aaa");
  }
  for (const Segment& segment : result_.timeline) {
    const JobOutcome& outcome = result_.jobs[segment.job];
    const double height = row_ * (0.2 + 0.8 * std::log2(1.0 + segment.gpus) / thickest);
    const double width = std::max(x.At(segment.end) - x.At(segment.start), 0.5);
    const std::string type =
        cluster_.gpu_types().size() > 1 ? cluster_.gpu_types()[segment.gpu_type] + " " : "";
    svg_.Rectangle(x.At(segment.start), middle(segment.job) - height / 2, width, height,
                   colours_[outcome.application],
                   absl::StrCat(outcome.name, ": ", segment.gpus, " ", type,
                                segment.gpus == 1 ? "GPU for " : "GPUs for ",
                                FormatDuration(segment.end - segment.start)));
  }
}

}  // namespace

std::string Plot(const std::string& title, const Cluster& cluster, const SimulationResult& result) {
  return Painter(title, cluster, result).Paint();
}

}  // namespace adaptdl::simulator
